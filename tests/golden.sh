#!/usr/bin/env bash
# golden.sh HFTAC DIR: runs every test in DIR and compares what hftac prints, byte for byte.
#
# A test is NAME.hdl (or NAME.hir).  Line `# shows: ...` says what it is about, line `# run: FLAGS`
# how it is run (several such lines: several runs, outputs joined).  Beside it stands one of
#   NAME.out    stdout, exactly          NAME.err    `exit N`, then stderr, exactly
#   NAME.match  fixed strings that must appear in stdout in this order, one a line
# UPDATE=1 rewrites .out and .err files.
set -u
hftac=$(realpath "$1")
cd "$2" || exit 2
failed=0 passed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

run_test() {
    : >"$tmp/out"; : >"$tmp/err"
    status=0
    while IFS= read -r flags; do
        eval "\"$hftac\" -fdiagnostics-color=never -q $flags \"$1\"" >>"$tmp/out" 2>>"$tmp/err" \
            </dev/null
        status=$?
    done < <(sed -n 's/^# run: \{0,1\}//p' "$1")
    { echo "exit $status"; cat "$tmp/err"; } >"$tmp/full"
}

compare() { # expected actual
    if [ "${UPDATE:-0}" = 1 ]; then cp "$2" "$1"; fi
    diff -u "$1" "$2" >"$tmp/diff" || { echo "FAILED: $test"; head -n 40 "$tmp/diff"; return 1; }
}

match() { # patterns text: fixed strings in order
    awk 'NR == FNR { want[++n] = $0; next }
         { line = $0; while (i < n && (p = index(line, want[i + 1]))) { i++; line = substr(line, p + 1) } }
         END { if (i < n) { print "not found in order: " want[i + 1]; exit 1 } }' "$1" "$2"
}

for test in *.hdl *.hir; do
    [ -e "$test" ] || continue # no file ends so
    if ! grep -q '^# run:' "$test"; then
        echo "FAILED: $test says not how it is run"
        failed=$((failed + 1))
        continue
    fi
    base=${test%.*}
    run_test "$test"
    ok=1
    if [ ! -e "$base.out" ] && [ ! -e "$base.err" ] && [ ! -e "$base.match" ]; then
        if [ "${UPDATE:-0}" = 1 ]; then
            [ "$status" = 0 ] && touch "$base.out" || touch "$base.err"
        else
            echo "FAILED: $test has nothing to compare with"; ok=0
        fi
    fi
    if [ -e "$base.out" ]; then
        compare "$base.out" "$tmp/out" || ok=0
        [ "$status" = 0 ] || { echo "FAILED: $test: exit $status"; head -n 20 "$tmp/err"; ok=0; }
    fi
    if [ -e "$base.err" ]; then compare "$base.err" "$tmp/full" || ok=0; fi
    if [ -e "$base.match" ]; then
        match "$base.match" "$tmp/out" || { echo "FAILED: $test"; ok=0; }
        [ "$status" = 0 ] || { echo "FAILED: $test: exit $status"; head -n 20 "$tmp/err"; ok=0; }
    fi
    if ls *.so *.tmp* >/dev/null 2>&1; then echo \
        "FAILED: $test left a file: $(ls *.so *.tmp* 2>/dev/null)"; rm -f *.so *.tmp*; ok=0; fi
    if [ $ok = 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
