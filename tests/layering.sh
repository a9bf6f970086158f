#!/usr/bin/env bash
# The dependency rule, by includes: support <- ir <- {frontend, passes, codegen} <- tools; runtime alone
# (codegen has its model_abi.h, support its two files that need nothing else: plain.h and open_file.h);
# LLVM headers only below codegen/cpu, CUDA headers only below codegen/cuda and runtime/cuda.c.
set -u
cd "$1" || exit 2
failed=0
complain() { echo "layering: $1"; failed=1; }

allowed() { # folder -> regex of project folders that may be included
    case $1 in
    ir/support) echo '^(ir/support/|runtime/(plain|open_file)\.h$)' ;;
    ir) echo '^ir/' ;;
    frontend) echo '^(ir|frontend)/' ;;
    passes) echo '^(ir|passes)/' ;;
    codegen) echo '^((ir|codegen)/|runtime/model_abi\.h)' ;;
    runtime) echo '^runtime/' ;;
    esac
}

for dir in ir/support ir frontend passes codegen runtime; do
    depth=9; [ $dir = ir ] && depth=1
    while IFS=: read -r file include; do
        echo "$include" | grep -Eq "$(allowed $dir)" || complain "$file includes $include"
    done < <(
        grep -rHoE --include='*.[chly]' '^ *# *include "[^"]+/[^"]+"' $dir 2>/dev/null |
        awk -F: -v d=$dir -v depth=$depth '{ n = split($1, p, "/"); if (depth == 1 && n > 2) next; gsub(/.*include "|"$/, "", $2); print $1 ":" $2 }')
done
bad=$(grep -rlE '#include "runtime/cpu/' --include='*.[ch]' . | grep -v '^./runtime/cpu/\|^./build\|^./tests/') && complain "the inside of the CPU device is included by: $bad"
bad=$(grep -rlE '#include [<"](llvm|llvm-c)/' --include='*.[ch]' . | grep -v '^./codegen/cpu/\|^./build' ) && complain "LLVM headers outside codegen/cpu: $bad"
bad=$(grep -rlE '#include [<"](cuda|nvrtc|cublas|cudnn)' --include='*.[ch]' . | grep -v '^./codegen/cuda/\|^./runtime/cuda.c\|^./build\|^./tests/' ) && complain "CUDA headers in: $bad"
bad=$(grep -rnE 'switch \((n->|node->|[a-z_]*->)?op\)' --include='*.c' ir frontend passes codegen) && complain "switch over operators: $bad"
bad=$(grep -rnE '[^a-z_](malloc|calloc|realloc)\(' --include='*.c' ir frontend passes codegen tools/hftac.c | grep -v '^ir/support/arena.c') && complain "malloc outside the arena: $bad"
[ $failed = 0 ] && echo "layering holds"
exit $failed
