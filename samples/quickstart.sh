#!/usr/bin/env bash
# From a clone to eight trained models: installs what is missing, builds, compiles samples/digits.hdl for
# eight models, trains them on handwritten digits with eight learning rates, and prints the final table.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/setup.sh"
setup_hftac
build_hftac "$root/build"
out=$root/build/quickstart
mkdir -p "$out"
set -x
"$root/build/bin/hftac" "$root/samples/digits.hdl" -B 8 -o "$out/digits.so"
"$root/build/bin/hftrun" "$out/digits.so" \
    --train "$root/samples/data/digits-train.safetensors" \
    --test "$root/samples/data/digits-test.safetensors" \
    --hyper lr=1e-4,3e-4,1e-3,2e-3,3e-3,5e-3,1e-2,3e-2 --save "$out/models"
