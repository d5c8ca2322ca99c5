# Sums what `cargo test` printed, standard error included, and exits as it did: awk -v status=N -f count.awk LOG
#
# A test binary counts by its last result line, since the message of a failed test may quote the results of others. One
# without any did not live to print it, which is a failure. The documentation tests of a crate may have several.

/^ +Running /   { finish(); binary = 1; next }
/^ +Doc-tests / { finish(); next }
/^test result: / { if (binary) last = $0; else add($0) }

END {
    finish()
    if (status != 0 && failed == 0) {
        print "the tests could not be built or started"
        failed = 1
    }
    printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
    exit failed != 0
}

function finish() {
    if (binary && last == "") failed++
    if (binary && last != "") add(last)
    binary = 0
    last = ""
}

# test result: ok. 12 passed; 0 failed; 1 ignored; ...
function add(line, field) {
    split(line, field, " ")
    passed += field[4]
    failed += field[6]
    skipped += field[8]
}
