expect "the world" "Hello, world." sh src/greet.sh
expect "a name" "Hello, Ada." sh src/greet.sh Ada
