#!/usr/bin/env bash
# cuda.sh HFTAC SOURCE-DIR: the CUDA text of the samples (the large ones made small) and of
# tests/golden/cuda*.hdl is
#   - compiled with NVRTC for sm_80 and sm_90 (the long texts of samples for one of them), where
#     hftac was built with the toolkit;
#   - compiled for the host by tests/cuda/standin.h and run beside the CPU's model.so, where there
#     is a C++ compiler.
# No GPU and no driver needed.  What cannot be done here is said; skipped (exit 77) if that is both.
set -u
hftac=$(realpath "$1") root=$(realpath "$2")
lib=$(dirname "$hftac")/../lib/libhftac.a # the driver loads model.so as users do
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0 passed=0 archs=sm_80,sm_90

# Not optimised: the text is long and the tensors are small (and g++ 12 makes loops that count an
# index down end at once).
cxx=$(command -v clang++ || command -v g++) || echo "no C++ compiler: nothing is run"

# What each large sample is made small with.
small() {
    case $1 in
    digits) echo -DN=8 -Dwidth=16 ;;
    mlp) echo -DN=8 -Dwidth=16 ;;
    lenet) echo -DN=2 ;;
    lstm) echo -Dvocab=50 -Dlength=12 -Dwidth=8 -Dhidden=6 -DN=3 ;;
    two_tower) echo -Dvocab=50 -Dlength=6 -Dsize=8 -Dwidth=4 -Ddim=8 -DN=3 ;;
    transformer_lm) echo -Dvocab=60 -Dlength=6 -Dd_model=8 -Dff=8 -DN=3 ;;
    dcgan) echo -Dnz=8 -Dwidth=4 -DN=2 ;;
    bert) echo -Dvocab=60 -Dlength=6 -Dhidden=16 -Dheads=2 -Ddepth=1 -Dpositions=16 -DN=3 ;;
    pointnet_*) echo -Dpoints=16 -Dwidth_divisor=16 -DN=3 ;;
    resnet18) echo -Dsize=16 -Dwidth=4 -DN=2 '-Doptim="sgd"' ;;
    unet) echo -Dsize=16 -Dwidth=4 -Ddepth=2 -DN=2 ;;
    mobilenet_v3_large) echo -Dwidth_multiplier=0.25 -Dhead=16 -DN=6 ;;
    esac
}

fail() {
    echo "FAILED: $name: $1"
    tail -n 20 "$tmp/err"
    failed=$((failed + 1))
}

# The stand-in's run of $tmp/out.cu beside $tmp/model.so.
run_text() {
    "$hftac" -q "$file" -B 3 "${flags[@]}" -o "$tmp/model.so" 2>"$tmp/err" ||
        { fail "no model.so"; return 1; }
    $cxx -std=c++17 -O0 -fwrapv -ffp-contract=off -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 \
        -Wall -Wno-unused-function -I"$root" -DCUDA_TEXT="\"$tmp/out.cu\"" \
        "$root/tests/cuda/driver.cc" "$lib" -o "$tmp/driver" -ljansson -lpthread -lm 2>"$tmp/err" ||
        { fail "the text is no C++"; return 1; }
    grep -q warning: "$tmp/err" && { fail "the compiler warns"; return 1; }
    "$tmp/driver" "$tmp/model.so" 1 >"$tmp/err" 2>&1 || { fail "exit $?"; return 1; }
}

test_program() {
    file=$1 name=$(basename "$1" .hdl)
    read -ra flags <<<"$(small "$name")"
    "$hftac" -q "$file" -B 3 "${flags[@]}" --target=cuda --emit=cuda ${archs:+--gpu-arch=$archs} \
        -o "$tmp/out.cu" 2>"$tmp/err"
    status=$?
    if [ $status = 4 ] && [ -n "$archs" ]; then
        echo "nothing is compiled with NVRTC: $(cat "$tmp/err")"
        archs=
        test_program "$1"
        return
    fi
    if [ $status != 0 ] || ! grep -q __global__ "$tmp/out.cu"; then
        fail "exit $status"
        return
    fi
    # Mobilenets are long and their kernels are resnet18's and cuda_image's: NVRTC alone reads them.
    case $name in mobilenet_*) ;;
    *) [ -z "$cxx" ] || run_text || return ;;
    esac
    passed=$((passed + 1))
    echo "passed: $name"
}

# Where a bias stands before a batch norm, or a batch norm sees few elements, a gradient is little
# but rounding, and Adam makes a step of its sign.
mkdir "$tmp/samples"
cp "$root"/samples/*.hdl "$tmp/samples"
sed -i 's/optimizer AdamW*(lr.*/optimizer SGD(lr)/' \
    "$tmp"/samples/{pointnet_cls,pointnet_seg,two_tower}.hdl "$tmp"/samples/mobilenet*.hdl

# Mobilenets repeat blocks that differ in nothing but sizes; of each kind one or two are left.
sed -i -E 's/^(  \(6, +[0-9]+), [34], /\1, 1, /' "$tmp/samples/mobilenet_v2.hdl"
sed -i -E '/^  \((5, 3\.0,  40, true,  relu,      1|3, 2\.3,  80|3, 6\.0, 112)/d' \
    "$tmp/samples/mobilenet_v3_large.hdl"

for file in "$root"/tests/golden/cuda*.hdl "$tmp"/samples/*.hdl; do
    case $file in "$tmp"/*) archs=${archs:+sm_90} ;; esac
    grep -q '^model' "$file" && test_program "$file"
    if [ -z "$archs$cxx" ]; then
        echo "skipped: hftac was built without NVRTC, and there is no C++ compiler"
        exit 77
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
