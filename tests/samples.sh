#!/usr/bin/env bash
# samples.sh BIN SOURCE-DIR: the samples work as the README says: the C client and, if python3 is
# there, the Python client train eight models on digits and reach 97 % on the test file.
set -eu
bin=$1 root=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$bin/hftac" -q "$root/samples/digits.hdl" -B 8 -o "$tmp/digits.so"

# The largest number below 1 that looks like an accuracy in the output.
best() { grep -oE '\b(0\.[0-9]+|1(\.0+)?)\b' "$1" | sort -g | tail -n 1; }
check() {
    cat "$2"
    awk -v a="$(best "$2")" 'BEGIN { exit !(a >= 0.97) }' ||
        { echo "FAILED: $1 does not reach 97 %"; exit 1; }
}
"$bin/train_digits" "$tmp/digits.so" "$root/samples/data/digits-train.safetensors" \
    "$root/samples/data/digits-test.safetensors" >"$tmp/c.txt"
check "the C client" "$tmp/c.txt"
cmake --install "$(dirname "$bin")" --prefix "$tmp/installed" >/dev/null
export PKG_CONFIG_PATH=$tmp/installed/lib/pkgconfig
# shellcheck disable=SC2046
cc "$root/samples/train_digits.c" $(pkg-config --cflags --libs hftac) \
    -Wl,-rpath,"$tmp/installed/lib" -o "$tmp/own"
"$tmp/own" "$tmp/digits.so" "$root/samples/data/digits-train.safetensors" \
    "$root/samples/data/digits-test.safetensors" >"$tmp/own.txt"
cmp "$tmp/c.txt" "$tmp/own.txt" || { echo "FAILED: the C client against the installed library"; \
    exit 1; }
if command -v python3 >/dev/null; then
    HFTAC_LIBRARY=$(dirname "$bin")/lib/libhftac.so python3 "$root/samples/train_digits.py" \
        "$tmp/digits.so" "$root/samples/data/digits-train.safetensors" \
        "$root/samples/data/digits-test.safetensors" >"$tmp/py.txt"
    check "the Python client" "$tmp/py.txt"
else
    echo "python3 is not here: samples/train_digits.py was not run"
fi
"$root/samples/quickstart.sh" >"$tmp/quick.txt" 2>&1 || { tail -n 20 "$tmp/quick.txt"; exit 1; }
tail -n 9 "$tmp/quick.txt"
tail -n 8 "$tmp/quick.txt" | awk '$(NF - 1) >= 0.97 { ok = 1 } END { exit !ok }' ||
    { echo "FAILED: quickstart does not reach 97 %"; exit 1; }
