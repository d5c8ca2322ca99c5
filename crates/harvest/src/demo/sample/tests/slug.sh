expect "one word" "apple" sh src/slug.sh Apple
expect "words" "green-apple" sh src/slug.sh Green Apple
