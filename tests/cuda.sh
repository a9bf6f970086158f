#!/usr/bin/env bash
# cuda.sh HFTAC SOURCE-DIR: the CUDA text of every sample that compiles is compiled with NVRTC for sm_80 and sm_90.  No GPU
# and no driver needed; skipped (exit 77), and said so, where hftac was built without the toolkit.
set -u
hftac=$1 root=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 passed=0
for sample in "$root"/samples/*.hdl "$root"/tests/golden/*.hdl; do
    case $sample in */ast.hdl) continue ;; esac
    "$hftac" -q "$sample" -B 3 $(grep -oE -- "-DN=[0-9]+" "$sample" | head -n 1) --target=cuda --emit=cuda --gpu-arch=sm_80,sm_90 -o "$tmp/out.cu" 2>"$tmp/err"
    status=$?
    if [ $status = 4 ]; then
        echo "skipped: $(cat "$tmp/err")"
        exit 77
    fi
    if [ $status = 0 ] && grep -q __global__ "$tmp/out.cu"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $sample: exit $status"
        tail -n 20 "$tmp/err"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
