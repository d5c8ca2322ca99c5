expect "one number" 5 sh src/sum.sh 5
expect "three numbers" 6 sh src/sum.sh 1 2 3
expect "nothing" 0 sh src/sum.sh
