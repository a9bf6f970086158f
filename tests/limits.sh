#!/usr/bin/env bash
# limits.sh BIN: the compiler's stack, time and code are bounded whatever a program asks for.
#
# Deep programs compile with a small stack; endless ones end in a message with its place; planning
# is near linear in the layers; layers of equal shape are emitted once; what stands in a file
# reaches the terminal as plain text.
set -u
hftac=$1/hftac
work=$(mktemp -d) && cd "$work" || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
pass() { passed=$((passed + 1)); }
fail() { echo "FAILED: $1"; failed=$((failed + 1)); }

repeated() { # TEXT N
    local line
    printf -v line "%*s" "$2" ""
    printf "%s" "${line// /$1}"
}
# model NAME PRELUDE BODY: x * w is there to be used.
model() {
    printf 'hdl 1\n%b\nmodel M {\n  input x : f32[N, 4]\n  w = Param([4], init = ones)\n  a = x * w\n%b\n}\ntrain M { batch N = 2; optimizer Adam(1e-3) }\n' "$2" "$3" > "$1.hdl"
}
# In 1 MiB of stack, 3 GB of memory and 60 seconds of work.
bounded() { (ulimit -s 1024 -v 3000000 -t 60 && exec "$@"); }

# ---- deep programs compile ----
compiles() { # NAME OPTION...
    local name=$1
    shift
    bounded "$hftac" -q -w -j 1 --emit=llvm -o "$name.ll" "$@" "$name.hdl" > "$name.log" 2>&1
    local code=$?
    [ $code = 0 ] && [ -s "$name.ll" ] && pass ||
        fail "$name: exit $code, $(head -c 300 "$name.log")"
}
model chain "" '  repeat i in 0 .. 300 { a = tanh(a * 1.01) }\n  loss mean(a)'
compiles chain --loop-from=100000
model layers 'const layers = 330' '  repeat i in 0 .. layers {\n    l[i] = Linear(4)\n    a = relu(l[i](a))\n  }\n  loss mean(a * a)'
compiles layers
model weights "" "  target y : i64[N]\n  fc = Linear(1000)\n  loss cross_entropy(fc(a), y, weight = [$(repeated '1.5, ' 999) 2])"
compiles weights
model terms "" "  loss mean($(repeated 'a + ' 900) a)"
compiles terms

# ---- endless ones end in a message that says where ----
refused() { # NAME MESSAGE
    bounded "$hftac" -q -w -o refused.so "$1.hdl" > "$1.log" 2>&1
    local code=$?
    [ $code = 1 ] && grep -qE "^$1\.hdl:[0-9]+:[0-9]+: error: .*$2" "$1.log" && pass ||
        fail "$1: exit $code, $(head -c 300 "$1.log")"
}
model terms5000 "" "  loss mean($(repeated 'a + ' 5000) a)"
refused terms5000 'nested too deeply'
model brackets "" "  loss mean($(repeated '(' 5000)a$(repeated ')' 5000))"
refused brackets 'brackets are open'
model lists "" "  k = $(repeated '[' 5000)$(repeated ']' 5000)\n  loss mean(a)"
refused lists 'brackets are open'
model ifs "" "$(repeated '  if true {\n' 400)  a = a + 1$(repeated '\n }' 400)\n  loss mean(a)"
refused ifs 'brackets are open'
model itself 'fn f(x) = f(x) + 1' '  loss mean(f(a))'
refused itself 'may not call itself'
doubling='fn f0(x) = x * 1.5\n'
for i in $(seq 30); do doubling+="fn f$i(x) = f$((i - 1))(x) + f$((i - 1))(x * 2)\n"; done
model doubling "$doubling" '  loss mean(f30(a))'
refused doubling 'too large here'
model rounds "" '  repeat i in 0 .. 1000000000 { a = tanh(a) }\n  loss mean(a)'
refused rounds 'too long'
model numbers "" '  loss mean(a) + sum(arange(1000000000000))'
refused numbers 'too many elements'
model tensor "" '  b = Param([1000000, 1000000, 1000000], init = ones)\n  loss mean(a) + mean(b)'
refused tensor 'too large'

# ---- memory that ends says so ----
(ulimit -v 400000 && exec "$hftac" -q -o refused.so doubling.hdl) > memory.log 2>&1
code=$?
[ $code = 3 ] && grep -q 'out of memory' memory.log && pass ||
    fail "little memory: exit $code, $(head -c 300 memory.log)"

# ---- input that never ends ----
for kind in hdl hir; do
    mkfifo "pipe.$kind"
    timeout 10 "$hftac" -q -o refused.so "pipe.$kind" > pipe.log 2>&1
    code=$?
    [ $code = 3 ] && grep -q 'not a regular file' pipe.log && pass ||
        fail "pipe.$kind: exit $code, $(cat pipe.log)"
done
head -c 70000000 /dev/zero > large.hir
"$hftac" -q -o refused.so large.hir > large.log 2>&1
code=$?
[ $code = 3 ] && grep -q 'larger than' large.log && pass ||
    fail "large.hir: exit $code, $(head -c 300 large.log)"

# ---- what stands in a file is shown as plain text, and not all of it ----
printf 'hdl 1\nmodel M {\n  input x : f32[N, 4]\n  y = \033[31mred\n  z = \302\233 + \342\200\256x\n}\n' > control.hdl
"$hftac" -q -o refused.so control.hdl > control.log 2>&1
code=$?
[ $code = 1 ] && ! LC_ALL=C grep -qE $'\033|\302\233|\342\200\256' control.log && pass ||
    fail "control characters: exit $code"
{
    printf 'hdl 1\nmodel M {\n  input x : f32[N, 4]\n  loss mean('
    head -c 3000000 /dev/zero | tr '\0' z
    printf ')\n}\n'
} > long.hdl
"$hftac" -q -o refused.so long.hdl > long.log 2>&1
code=$?
[ $code = 1 ] && [ "$(wc -c < long.log)" -lt 10000 ] && grep -q '\.\.\.' long.log && pass ||
    fail "a long name: exit $code, $(wc -c < long.log) bytes"

# ---- work and code grow as the program does ----
cpu_of() { # LAYERS: seconds of the processor, of all up to the plan
    local TIMEFORMAT=%U
    { time "$hftac" -q -w -j 1 --emit=plan -Dlayers="$1" -o plan.txt layers.hdl; } 2>&1
}
few=$(cpu_of 150) many=$(cpu_of 600)
awk -v a="$few" -v b="$many" 'BEGIN { exit !(b <= 9 * a) }' && pass ||
    fail "four times the layers took $many s of the processor, not $few s: more than 3 for each doubling"
kernels_of() { # LAYERS: functions of kernels
    "$hftac" -q -w -j 1 -O1 --emit=llvm -Dlayers="$1" -o kernels.ll layers.hdl &&
        grep '^define' kernels.ll | grep -vcE '\.models|\.shared'
}
few=$(kernels_of 20) many=$(kernels_of 40)
[ "$few" -gt 0 ] && [ "$many" -le $((few + 2)) ] && pass ||
    fail "20 equal layers have $few kernels, 40 have $many"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
