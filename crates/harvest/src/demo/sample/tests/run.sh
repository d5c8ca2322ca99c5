# Runs the tests of the named tools, or of all, and counts.
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0
expect() {
    name=$1 wanted=$2
    shift 2
    got=$("$@")
    if [ "$got" = "$wanted" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name: expected '$wanted', got '$got'"
    fi
}
for tool in ${*:-sum greet slug}; do
    . "./tests/$tool.sh"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
