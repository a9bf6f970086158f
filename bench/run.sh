#!/usr/bin/env bash
# bench/run.sh WORKLOAD (mlp): time per model and step against PyTorch, all in one run.  MARCH=x86-64-v3 by default.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
workload=${1:-mlp}
. "$root/tools/setup.sh"
setup_hftac
build_hftac "$root/build"
out=$root/build/bench
mkdir -p "$out"

# The newest PyTorch that pip gives, else Debian's.
python=$out/venv/bin/python
if ! "$python" -c 'import torch' 2>/dev/null; then
    if ! { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q torch numpy; } >"$out/pip.log" 2>&1; then
        need_packages python3-torch libopenblas0-pthread
        python=python3
    fi
fi
for b in 1 8 32; do
    "$root/build/bin/hftac" -q "$root/samples/$workload.hdl" -B $b -march="${MARCH:-x86-64-v3}" -o "$out/$workload-$b.so"
done
echo "hftac -march=${MARCH:-x86-64-v3}"
"$python" "$root/bench/compare.py" "$workload" "$root/build/bin" "$out" "$python"
