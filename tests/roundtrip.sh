#!/usr/bin/env bash
# roundtrip.sh HFTAC SOURCE-DIR: for every sample, the text of each graph stage reads back to the
# same bytes, and --emit=hdl compiles to the same graph.
set -u
hftac=$(realpath "$1") root=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
failed=0 passed=0
same() { # NAME A B
    if cmp -s "$2" "$3"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $1"
        diff "$2" "$3" | head -n 5
        failed=$((failed + 1))
    fi
}
for sample in "$root"/samples/*.hdl; do
    grep -q '^model' "$sample" || continue
    name=$(basename "$sample" .hdl)
    for stage in ir grad fused; do
        "$hftac" -q -w -B 3 --emit=$stage -o a.hir "$sample" || failed=$((failed + 1))
        "$hftac" -q -w -B 3 --emit=$stage -o b.hir a.hir || failed=$((failed + 1))
        same "$name: read(print(g)) at stage $stage" a.hir b.hir
    done
    # The text after the last pass makes the same kernels.
    "$hftac" -q -w -B 3 --dump-after=prepare --emit=lowered -o a.txt "$sample" >a.hir ||
        failed=$((failed + 1))
    "$hftac" -q -w -B 3 --emit=lowered -o b.txt a.hir || failed=$((failed + 1))
    same "$name: kernels of the text after prepare" a.txt b.txt
    "$hftac" -q -w --emit=hdl -o printed.hdl "$sample" || failed=$((failed + 1))
    "$hftac" -q -w -I "$root/samples" --emit=ir -o a.hir printed.hdl || failed=$((failed + 1))
    "$hftac" -q -w --emit=ir -o b.hir "$sample" || failed=$((failed + 1))
    same "$name: --emit=hdl compiles to the same graph" a.hir b.hir
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
