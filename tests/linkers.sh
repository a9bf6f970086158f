#!/usr/bin/env bash
# linkers.sh BIN: hftac links with whichever linker is there, and leaves no file of it behind.
#
# With one linker alone on the PATH, by its own name or as ld: the model trains and predicts bit for
# bit what GNU ld's does; the folder that hftac works in holds what it held (a file called - too,
# which LLVM's linker would remove).
set -u
bin=$1
work=$(mktemp -d) && cd "$work" || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
check() { # WHAT COMMAND..
    local what=$1; shift
    if "$@"; then passed=$((passed + 1)); else echo "FAILED: $what"; failed=$((failed + 1)); fi
}
cat > m.hdl <<'H'
hdl 1
model M {
  input  x : f32[N, 2]
  target t : u8[N]
  a = Linear(5)
  b = Linear(3)
  y = b(relu(a(x)))
  output y
  loss cross_entropy(y, t)
}
train M { batch N = 4
  epochs 3
  optimizer SGD(lr = 0.1) }
H
python3 - <<'P'
import json, struct
x = struct.pack("<32f", *[(i * 7 % 5) / 5 for i in range(32)])
h = json.dumps({"x": {"dtype": "F32", "shape": [16, 2], "data_offsets": [0, 128]},
                "t": {"dtype": "U8", "shape": [16], "data_offsets": [128, 144]}}).encode()
open("d.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + x + bytes(i % 3 for i in range(16)))
P
predictions() { # MODEL OUT
    "$bin/hftrun" -q "$1" --train d.safetensors --predict "$2" > /dev/null
}
mkdir empty bin out
echo mine > ./-
check "with what is installed" "$bin/hftac" -q m.hdl -B 2 -o out/m.so
check "... it trains" predictions out/m.so out/m.out
before=$(ls -A)
for linker in bfd lld gold; do
    path=$(command -v ld.$linker) || { echo "ld.$linker not found: not tested"; continue; }
    for name in ld ld.$linker; do
        rm -f bin/* && ln -s "$path" bin/$name
        check "$linker as $name" env PATH="$work/bin" TMPDIR="$work" "$bin/hftac" -q m.hdl -B 2 -o \
            out/$linker.so
        check "$linker as $name: the model trains" predictions out/$linker.so out/$linker.out
        check "$linker as $name: the same predictions" cmp -s out/m.out out/$linker.out
        check "$linker as $name: nothing is left or lost" [ "$(ls -A)" = "$before" ]
    done
done
PATH=$work/empty "$bin/hftac" -q m.hdl -o out/none.so 2> out/none.err
code=$?
check "no linker: exit 4" [ $code = 4 ]
check "no linker: says so" grep -q "cannot run ld: .*binutils" out/none.err
printf '#!/bin/sh\necho "ld: no way" >&2\nexit 1\n' > out/ld && chmod +x out/ld
PATH=$work/out "$bin/hftac" -q m.hdl -o out/none.so 2> out/none.err
code=$?
check "a linker that fails: exit 3" [ $code = 3 ]
check "a linker that fails: what it says, once" [ "$(grep -c 'ld: no way' out/none.err)" = 1 ]
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
