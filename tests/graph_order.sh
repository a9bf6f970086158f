#!/usr/bin/env bash
# graph_order.sh HFTAC ROOT: what lower makes of a module does not depend on the order in which its
# graphs stand.
#
# Samples, and a text whose two graphs want one parameter in two layouts, are lowered as they are
# and with their graphs the other way round; sorted by entry point, the results are the same bytes.
set -u
hftac=$(realpath "$1") root=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
failed=0

# Blocks `graph @...`, backwards or sorted by name, behind everything else.
arrange() { # reverse|sort
    awk -v how="$1" '
        /^ *(graph|entry) @/ { n++; key[n] = $2 }
        how == "sort" && /^}/ { next } # the end of a graph, or of the whole plan
        n == 0 { print; next }
        { text[n] = text[n] $0 "\n" }
        END {
            for (i = 1; i <= n; i++) at[i] = how == "reverse" ? n + 1 - i : i
            for (i = 2; how == "sort" && i <= n; i++)
                for (k = i; k > 1 && key[at[k]] < key[at[k - 1]]; k--) {
                    t = at[k]; at[k] = at[k - 1]; at[k - 1] = t
                }
            for (i = 1; i <= n; i++) printf "%s", text[at[i]]
        }'
}

check() { # NAME.hir
    arrange reverse <"$1" >reversed.hir
    cmp -s "$1" reversed.hir && { echo "FAILED: $1 has one graph"; failed=1; return; }
    for text in "$1" reversed.hir; do
        "$hftac" -q --dump-after=lower --emit=lowered -o plan "$text" >graphs || failed=1
        { arrange sort <graphs; arrange sort <plan; } >"$text.lowered"
    done
    [ -s "$1.lowered" ] && diff "$1.lowered" reversed.hir.lowered >differs ||
        { echo "FAILED: $1 depends on the order of its graphs"; head -n 10 differs; failed=1; }
}

# @init computes w along its first axis, which is the long one, @eval_end reads it along its last
# one.
cat >rivals.hir <<'END'
hir 1
module "Rivals" stage=fused models=2
input "x" : f32[256, 48]
input "y" : f32[64, 48]
param "b" : f32[2 | 256, 4]
param "w" : f32[2 | 48, 4]
buffer "r" : f32[2 | 64, 4]
graph @init {
  %x = input name="x" : f32[256, 48]
  %b = state name="b" : f32[2 | 256, 4]
  %p = einsum %x, %b spec="km,kn->mn" : f32[2 | 48, 4]
  state "w" %p
}
graph @eval_end {
  %y = input name="y" : f32[64, 48]
  %w = state name="w" : f32[2 | 48, 4]
  %q = einsum %y, %w spec="pm,mn->pn" : f32[2 | 64, 4]
  state "r" %q
}
END
check rivals.hir
for sample in lenet lstm two_tower; do
    "$hftac" -q -B 2 --emit=fused -o $sample.hir "$root/samples/$sample.hdl" &&
        check $sample.hir || failed=1
done
[ $failed = 0 ] && echo "the order of graphs does not matter"
exit $failed
