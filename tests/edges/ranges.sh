#!/bin/bash
# ranges.sh HFTAC TABLE: compiles each line's statements and looks for the line's error.
hftac=$1 table=$2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
while IFS= read -r line; do
    case $line in '#'* | '') continue ;; esac
    statements=${line%% | *} want=
    [ "$statements" != "$line" ] && want=${line##* | }
    printf 'hdl 1\nmodel M {\n  input x : f32[N]\n  w = Param([2], init = 1)\n  loss sum(w) * mean(x)\n}\ntrain M {\n  batch N = 1\n  epochs 3\n  %s\n}\n' \
        "$statements" >"$dir/case.hdl"
    "$hftac" -q "$dir/case.hdl" --emit=ir -o "$dir/out" >"$dir/said" 2>&1
    code=$?
    if { [ -z "$want" ] && [ $code = 0 ]; } || { [ -n "$want" ] && [ $code = 1 ] &&
        grep -qF -- "$want" "$dir/said"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $statements: exit $code, $(head -1 "$dir/said")"
    fi
done <"$table"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
