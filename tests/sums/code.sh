#!/usr/bin/env bash
# code.sh BIN DATA: what is emitted for sums, and that a whole network's bits do not depend on the
# processor.
#
# Loops over long axes cost what a simple loop would: one addition for each vector that is read, in
# accumulators that stay in registers. No approximate reciprocals.  Files saved after an epoch are
# the same bytes for x86-64-v3 with -O2 and v4 with -O3.
set -u
bin=$1 data=$2 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) && cd "$work" || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "FAILED: $what" && failed=$((failed + 1)); fi
}
hftac() { "$bin/hftac" -q -w "$@"; }

# ---- no instruction that approximates ----
approximate='\bv?r(cp|sqrt)(14|28)?[ps][sdh]\b'
exact() { # FILE: it divides and takes roots, by instructions that round correctly
    grep -qE '\bvdivps\b' "$1" && grep -qE '\bvsqrtps\b' "$1" && ! grep -nE "$approximate" "$1"
}
for instruction in rcpps rsqrtps vrcpss vrsqrtss vrcp14ps vrsqrt14ps vrcp28pd vrsqrtph; do
    check "$instruction would be found" grep -qE "$approximate" <<< "	$instruction	%zmm0, %zmm1"
done
for kind in 'network v3 O2' 'small v3 O3' 'small v4 O2' 'network v4 O3'; do
    read -r name march level <<< "$kind"
    check "$kind" hftac "$here/$name.hdl" -B 2 --emit=asm,so -march=x86-64-$march -$level
    check "approximate instructions: $kind" exact "$name.s"
    mv "$name.so" "$name-$march.so"
done

# ---- inner loops ----
declare -A register=([v3]=ymm [v4]=zmm) lanes=([v3]=8 [v4]=16)
# Each round of the loop adds 4 items; a simple loop would have 4 instructions more for each vector,
# this may have 2.
cheap() { # FILE MARCH INNER SQUARE
    local reads=0 adds=0 products=0 accumulators=0 stores=0 other=0
    eval "$(awk -v width="%${register[$2]}" -f "$here/piece.awk" "$1")"
    local vectors=$((4 * ($3 ? 16 / lanes[$2] : 1)))
    if [ $reads = $vectors ] && [ $adds = $vectors ] && [ $accumulators = $vectors ] &&
        [ $stores = 0 ] &&
        [ $products = $(($4 * vectors)) ] && [ $other -le $((2 * vectors)) ]; then
        return 0
    fi
    echo "$1: $reads vectors read, $adds additions in $accumulators registers, $products products, $stores stores, $other others"
    return 1
}
for march in v3 v4; do
    for sum in '1 0 sum(x, 1)' '0 0 sum(x, 0)' '1 0 sum(x)' '1 1 sum(x * x, 1)' \
        '0 1 sum(x * x, 0)'; do
        read -r inner square text <<< "$sum"
        printf 'hdl 1\nmodel Case {\n  input x : f32[1000, 1000]\n  output s = %s\n}\n' "$text" > \
            case.hdl
        check "$text, $march" hftac case.hdl --emit=asm -march=x86-64-$march -o case.s
        check "the loop of $text, $march" cheap case.s $march $inner $square
    done
done

# ---- the bits of a network ----
has() { grep -qw "$1" /proc/cpuinfo; }
runs_v4() { has avx512f && has avx512dq && has avx512cd && has avx512bw && has avx512vl; }
train() { # NAME
    check "train $1" "$bin/hftrun" -q "$1.so" --train "$data/digits-train.safetensors" --predict \
        "$1.out" \
        --hyper lr=1e-3,3e-3 --seed 3 --threads 1 --save "$1" --json > "$1.json"
}
same() { # NAME NAME
    cmp "$1/model-000.safetensors" "$2/model-000.safetensors" &&
        cmp "$1/model-001.safetensors" "$2/model-001.safetensors" &&
        cmp "$1.out" "$2.out" && cmp "$1.json" "$2.json"
}
differ() { [ -s "$1" ] && ! cmp -s "$1" "$2"; }
train network-v3
check "two models are trained, and differ" differ network-v3/model-000.safetensors \
    network-v3/model-001.safetensors
if runs_v4; then
    train network-v4
    check "v3 and v4 have the same bits" same network-v3 network-v4
else
    echo "skipped: this processor does not run x86-64-v4"
fi

echo "$passed checks passed, $failed failed"
[ $failed = 0 ]
