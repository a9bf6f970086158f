#!/usr/bin/env bash
# layering.sh SOURCE-DIR [--self-test]: the dependency rule, by includes.
#
# The table below says for each folder which folders its files may include (with their own); folders
# below one that is named stand for themselves.  Besides, no file may reach itself through includes,
# LLVM's headers stay in codegen/cpu, CUDA's in codegen/cuda and runtime/cuda.  --self-test plants
# an include of each forbidden kind into a copy and wants it found.
set -u
cd "$1" || exit 2

#   folder               may include
table='
    ir/support           runtime/plain.h runtime/open_file.h
    ir                   ir/support
    frontend/syntax      ir ir/support frontend/frontend.h
    frontend/values      ir ir/support frontend/frontend.h frontend/syntax
    frontend/elaborate   ir ir/support frontend/frontend.h frontend/syntax frontend/values
    frontend/builtins    ir ir/support frontend/frontend.h frontend/syntax frontend/values frontend/elaborate
    frontend/train       ir ir/support frontend/frontend.h frontend/syntax frontend/values frontend/elaborate
    frontend/std
    frontend             ir ir/support frontend/std frontend/syntax frontend/values frontend/elaborate frontend/builtins frontend/train
    passes/grad          ir ir/support passes/passes.h passes/rewrite.h
    passes/batch         ir ir/support passes/passes.h passes/rewrite.h
    passes/simplify      ir ir/support passes/passes.h passes/rewrite.h
    passes/lower         ir ir/support passes/passes.h passes/rewrite.h
    passes/fuse          ir ir/support passes/passes.h passes/rewrite.h
    passes/plan          ir ir/support passes/passes.h passes/fuse
    passes               ir ir/support
    codegen/cpu          ir ir/support codegen runtime/model_abi.h
    codegen/cuda         ir ir/support codegen runtime/model_abi.h
    codegen              ir ir/support runtime/model_abi.h
    runtime/files        runtime/hftac.h runtime/error.h runtime/plain.h runtime/open_file.h
    runtime/model        runtime/hftac.h runtime/error.h runtime/plain.h runtime/open_file.h runtime/model_abi.h
    runtime              runtime/model
    runtime/cpu          runtime runtime/model
    runtime/data         runtime runtime/files
    runtime/weights      runtime runtime/files
'

# "FILE INCLUDED" for each project header that a source file includes.
includes() {
    grep -rHoE --include='*.[chly]' '^ *# *include "[^"]+/[^"]+"' ir frontend passes codegen \
        runtime |
        sed -E 's/: *# *include "/ /; s/"$//'
}

check() {
    local failed=0
    complain() { echo "layering: $1"; failed=1; }
    bad=$(includes | awk -v table="$table" '
        BEGIN {
            n = split(table, line, "\n")
            for (i = 1; i <= n; i++) {
                k = split(line[i], word, " ")
                if (k) { known[word[1]] = 1; may[word[1], word[1]] = 1 }
                for (j = 2; j <= k; j++) may[word[1], word[j]] = 1
            }
        }
        function folder(path) { sub("/[^/]*$", "", path); return path }
        {
            from = folder($1); to = folder($2)
            if (!(from in known)) print $1 " lies in a folder that the table does not have"
            else if (!((from, to) in may) && !((from, $2) in may)) print $1 " includes " $2
        }')
    [ -z "$bad" ] || complain "$bad"
    bad=$(includes | awk '
        function visit(f,   i, n, list) { # 1: on the way, 2: done
            if (state[f] == 2) return
            if (state[f] == 1) { print "a circle of includes goes through " f; return }
            state[f] = 1
            n = split(after[f], list, " ")
            for (i = 1; i <= n; i++) visit(list[i])
            state[f] = 2
        }
        { after[$1] = after[$1] " " $2 }
        END { for (f in after) visit(f) }')
    [ -z "$bad" ] || complain "$bad"
    bad=$(grep -rlE '#include [<"](llvm|llvm-c)/' --include='*.[ch]' ir frontend passes codegen \
        runtime tools | grep -v '^codegen/cpu/') &&
        complain "LLVM headers outside codegen/cpu: $bad"
    bad=$(grep -rlE '#include [<"](cuda|nvrtc|cublas|cudnn)' --include='*.[ch]' ir frontend passes \
        codegen runtime tools | grep -v '^codegen/cuda/\|^runtime/cuda/') &&
        complain "CUDA headers in: $bad"
    bad=$(grep -rlE '#include "runtime/cpu/' --include='*.[ch]' tools bench samples 2>/dev/null) \
        && complain "the inside of the CPU device is included by: $bad"
    bad=$(grep -rnE 'switch \((n->|node->|[a-z_]*->)?op\)' --include='*.c' ir frontend passes \
        codegen) && complain "switch over operators: $bad"
    bad=$(grep -rnE '[^a-z_](malloc|calloc|realloc)\(' --include='*.c' ir frontend passes codegen \
        tools/hftac*.c | grep -v '^ir/support/arena.c') && complain "malloc outside the arena: $bad"
    return $failed
}

# plant FILE LINE WORD: with the line at its end, the file must be complained of with that word.
plant() {
    local copy said
    copy=$(mktemp -d)
    cp -r ir frontend passes codegen runtime tools "$copy"
    echo "$2" >>"$copy/$1"
    said=$(cd "$copy" && check)
    rm -rf "$copy"
    echo "$said" | grep -q "$3" && return
    echo "layering: '$2' in $1 is not found; said: $said"
    exit 1
}

if [ "${2:-}" = --self-test ]; then
    plant ir/graph.c '#include "frontend/frontend.h"' 'ir/graph.c includes'
    plant frontend/values/values.c '#include "frontend/elaborate/elab.h"' 'values.c includes'
    plant passes/fuse/memory.c '#include "passes/plan/plan_build.h"' 'memory.c includes'
    plant codegen/cuda/print.c '#include "codegen/cpu/emit.h"' 'print.c includes'
    plant runtime/step.c '#include "runtime/cpu/device.h"' 'step.c includes'
    plant runtime/weights/save.c '#include "runtime/cpu/device.h"' 'save.c includes'
    plant runtime/files/st_read.c '#include "runtime/array.h"' 'st_read.c includes'
    plant ir/type.h '#include "ir/graph.h"' 'circle'
    plant codegen/cuda/print.c '#include <llvm-c/Core.h>' 'LLVM'
    plant runtime/step.c '#include <cuda.h>' 'CUDA'
    plant passes/grad/grad_views.c 'void f(void) { switch (n->op) {} }' 'switch over operators'
    plant passes/grad/grad_views.c 'void f(void) { p = malloc(1); }' 'malloc'
fi
check || exit 1
echo "layering holds"
