/* prepare, the last edits before the plan, on one text; and that what it prints is read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/print.h"
#include "ir/read.h"
#include "ir/verify.h"
#include "passes/passes.h"

/* In @train everything of a value that lies the other way round is summed up, and two states swap;
 * in @predict rows are summed up, one output is the root of w in another shape, and a loop adds
 * up the rows of p. */
#define DECLARED                                  \
    "param \"w\" : f32[2 | 3, 4] layout=[1, 0]\n" \
    "param \"p\" : f32[2 | 3, 2, 4]\n"            \
    "buffer \"a\" : f32[2 | 4]\n"                 \
    "buffer \"b\" : f32[2 | 4]\n"                 \
    "graph @train {\n"                            \
    "  %w = state name=\"w\" : f32[2 | 3, 4]\n"   \
    "  %a = state name=\"a\" : f32[2 | 4]\n"      \
    "  %b = state name=\"b\" : f32[2 | 4]\n"      \
    "  %square = mul %w, %w : f32[2 | 3, 4]\n"

static const char before[] = "hir 1\n"
                             "module \"Edits\" stage=lowered models=2\n" DECLARED
                             "  %all = sum %square dims=[0, 1] : f32[2 |]\n"
                             "  %wide = cast %all to=f64 : f64[2 |]\n"
                             "  result \"loss\" %wide\n"
                             "  state \"a\" %b\n"
                             "  state \"b\" %a\n"
                             "}\n"
                             "graph @predict {\n"
                             "  %w = state name=\"w\" : f32[2 | 3, 4]\n"
                             "  %a = state name=\"a\" : f32[2 | 4]\n"
                             "  %p = state name=\"p\" : f32[2 | 3, 2, 4]\n"
                             "  %rows = sum %w dims=[1] : f32[2 | 3]\n"
                             "  %more = exp %rows : f32[2 | 3]\n"
                             "  %loop = loop %a, %p count=3 carried=1 scanned=1 : bool[2 |] {\n"
                             "    %x = arg : f32[2 | 4]\n"
                             "    %row = arg index=1 : f32[2 | 2, 4]\n"
                             "    %s = sum %row dims=[0] : f32[2 | 4]\n"
                             "    %y = add %x, %s : f32[2 | 4]\n"
                             "    next %y\n"
                             "  }\n"
                             "  %last = result %loop : f32[2 | 4]\n"
                             "  %root = exp %w : f32[2 | 3, 4]\n"
                             "  %shaped = reshape %root shape=[2, 6] : f32[2 | 2, 6]\n"
                             "  output \"more\" %more\n"
                             "  output \"shaped\" %shaped\n"
                             "  output \"last\" %last\n"
                             "}\n";

static const char after[] = "hir 1\n"
                            "module \"Edits\" stage=prepared models=2\n" DECLARED
                            "  %all.1 = permute %square dims=[1, 0] : f32[2 | 4, 3]\n"
                            "  %all = sum %all.1 dims=[0, 1] : f32[2 |]\n"
                            "  %wide = cast %all to=f64 : f64[2 |]\n"
                            "  %b.value = cast %b : f32[2 | 4]\n"
                            "  %a.value = cast %a : f32[2 | 4]\n"
                            "  result \"loss\" %wide\n"
                            "  state \"a\" %b.value\n"
                            "  state \"b\" %a.value\n"
                            "}\n"
                            "graph @predict {\n"
                            "  %w = state name=\"w\" : f32[2 | 3, 4]\n"
                            "  %a = state name=\"a\" : f32[2 | 4]\n"
                            "  %p = state name=\"p\" : f32[2 | 3, 2, 4]\n"
                            "  %rows.kept = sum %w dims=[1] keepdim=true : f32[2 | 3, 1]\n"
                            "  %rows = reshape %rows.kept shape=[3] : f32[2 | 3]\n"
                            "  %more = exp %rows : f32[2 | 3]\n"
                            "  %loop = loop %a, %p count=3 carried=1 scanned=1 : bool[2 |] {\n"
                            "    %x = arg : f32[2 | 4]\n"
                            "    %row = arg index=1 : f32[2 | 2, 4]\n"
                            "    %s.kept = sum %row dims=[0] keepdim=true : f32[2 | 1, 4]\n"
                            "    %s = reshape %s.kept shape=[4] : f32[2 | 4]\n"
                            "    %y = add %x, %s : f32[2 | 4]\n"
                            "    next %y\n"
                            "  }\n"
                            "  %last = result %loop : f32[2 | 4]\n"
                            "  %root = exp %w : f32[2 | 3, 4]\n"
                            "  output \"more\" %more\n"
                            "  output \"shaped\" %root as f32[2 | 2, 6]\n"
                            "  output \"last\" %last\n"
                            "}\n";

static Module *read_text(Arena *a, const char *name, const char *text)
{
    Diag *d = diag_new(a, NULL);
    Module *m = module_read(a, d, diag_add_source(d, name, text, strlen(text), false));
    if (!m)
        exit(1);
    return m;
}

static int compare(Arena *a, const char *what, const Module *m)
{
    Text t;
    text_init(&t, a);
    module_print(&t, m);
    if (!strcmp(t.s, after))
        return 0;
    printf("FAILED: %s:\n%s", what, t.s);
    return 1;
}

int main(void)
{
    Arena *a = arena_new();
    Module *m = read_text(a, "before.hir", before);
    prepare(m);
    module_verify(m, "prepare");
    int failures = compare(a, "prepare", m);
    failures += compare(a, "the text of what is prepared", read_text(a, "after.hir", after));
    prepare(m); /* there is nothing left to do */
    failures += compare(a, "prepare once more", m);
    arena_free(a);
    return failures ? 1 : 0;
}
