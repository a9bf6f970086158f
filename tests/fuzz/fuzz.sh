#!/usr/bin/env bash
# fuzz.sh BIN ROOT: what CTest runs of the fuzzing programs, two at a time; 77 (skipped) without
# python3.
set -u
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
bin=$1 root=$2 here=$2/tests/fuzz

programs() { python3 "$here/random_programs.py" --bin "$bin" --quick "$@"; }

{ programs --seed 1 --count 10 && programs --file "$here/found"; } & first=$!
{ programs --seed 101 --count 10 && python3 "$here/damage.py" --bin "$bin" --samples \
    "$root/samples" --programs "$root/samples" --count 1; } & second=$!
wait $first; failed=$?
wait $second || failed=1
exit $failed
