# Sums up what `cargo test` printed, standard error included: awk -v status=N -v skips=FILE -f count.awk LOG
# Its last line is `N passed, N failed, N skipped`, after the reasons of the skipped. It exits with 1 when a test failed.
#
# A test binary counts by its last result line, since the message of a failed test may quote the results of others. A
# binary without a result line died, which is a failure. The documentation tests of a crate may have several.
#
# A test is skipped when it was ignored and no later run of the same binary ran it, or when it said so itself: then the
# harness counts it as passed, and FILE has a line for it, with the binary, the test and the reason between tabs.

/^ +Running /   { finish(); binary = $NF; next }
/^ +Doc-tests / { finish(); next }
/^test result: / { if (binary != "") last = $0; else add($0); next }
/^test [^ ]+ \.\.\. ignored/ {
    reason = $0
    if (!sub(/^.* \.\.\. ignored, /, "", reason)) reason = "ignored"
    if (reason != "started by another test") ignored[binary, $2] = reason
    next
}
/^test [^ ]+ \.\.\. (ok|FAILED)/ { ran[binary, $2] = 1; if ($4 == "FAILED") broken[$2] = 1 }

END {
    finish()
    for (test in ignored) {
        if (!(test in ran)) { skipped++; reasons[ignored[test]]++ }
    }
    while (skips != "" && (getline line < skips) > 0) {
        split(line, field, "\t")
        if ((field[1], field[2]) in told || field[2] in broken) continue
        told[field[1], field[2]] = 1
        passed--
        skipped++
        reasons[field[3]]++
    }
    for (reason in reasons) printf "skipped: %d: %s\n", reasons[reason], reason
    if (status != 0 && failed == 0) {
        print "the tests could not be built or started"
        failed = 1
    }
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed != 0
}

function finish() {
    if (binary != "" && last == "") failed++
    if (binary != "" && last != "") add(last)
    binary = ""
    last = ""
}

# test result: ok. 12 passed; 0 failed; 1 ignored; ...
function add(line, field) {
    split(line, field, " ")
    passed += field[4]
    failed += field[6]
}
