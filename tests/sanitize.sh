#!/usr/bin/env bash
# sanitize.sh SOURCE-DIR BUILD-DIR [LAUNCHER]: builds with -fsanitize=address,undefined and runs the
# tests that exercise compiler and runtime under it.  LAUNCHER is the compiler launcher (ccache) of
# the build that asks, so that this second build is as cheap as the first where nothing changed.
# Leaks count in the runtime's test; hftac frees its memory by ending.
set -u
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1" -DHFTAC_SANITIZE=ON \
    -DCMAKE_C_COMPILER_LAUNCHER="${3-}" >"$2.log" 2>&1 ||
    { tail -n 20 "$2.log"; exit 1; }
cmake --build "$2" >"$2.log" 2>&1 || { tail -n 40 "$2.log"; exit 1; }
rm -f "$2.log"
cd "$2" || exit 2
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
ctest --output-on-failure -R '^unit_runtime$' || exit 1
export ASAN_OPTIONS=detect_leaks=0
ctest --output-on-failure --timeout 900 -j 2 -E "^(unit_runtime|roundtrip)$" -L 'unit|golden' ||
    exit 1
exec ctest --output-on-failure --timeout 900 -R '^(optimizers|semantics|updates|loops)$'
