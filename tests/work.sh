#!/usr/bin/env bash
# work.sh BIN ROOT: what CTest runs of work.py; 77 (skipped) without python3.
set -u
command -v python3 >/dev/null || { echo "no python3: skipped"; exit 77; }
exec python3 "$2/tests/work.py" --bin "$1" --samples "$2/samples" --count 40
