#!/usr/bin/env bash
# fuzz.sh BIN ROOT: what CTest runs of the fuzzing programs, two at a time; 77 (skipped) without python3.
set -u
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
bin=$1 here=$2/tests/fuzz
python3 "$here/random_programs.py" --bin "$bin" --seed 1 --count 12 --quick & first=$!
python3 "$here/random_programs.py" --bin "$bin" --seed 101 --count 12 --quick & second=$!
wait $first; failed=$?
wait $second || failed=1
python3 "$here/damage.py" --bin "$bin" --samples "$2/samples" --programs "$2/tests/hdl" --count 1 || failed=1
exit $failed
