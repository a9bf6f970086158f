#!/usr/bin/env bash
# partial.sh BIN ROOT: what CTest runs of partial.py; 77 (skipped) without python3.
set -u
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
exec python3 "$2/tests/batch/partial.py" --bin "$1" --seed 1 --count 20
