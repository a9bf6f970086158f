/* Tests of ir/: shape rules with their odd cases, batch marks, builder, printer, reader,
 * verifier, diagnostics. A plain program: prints what failed, and fails if anything did. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/print.h"
#include "ir/read.h"
#include "ir/scalar.h"
#include "ir/shape.h"
#include "ir/verify.h"

static int n_checks, n_failed;

#define CHECK(what)           check((what), #what, __LINE__)
#define CHECK_TEXT(got, want) check_text((got), (want), __LINE__)

static void check(bool ok, const char *what, int line)
{
    n_checks++;
    if (ok)
        return;
    n_failed++;
    printf("test_ir.c:%d: failed: %s\n", line, what);
}

static void check_text(const char *got, const char *want, int line)
{
    n_checks++;
    if (got && strcmp(got, want) == 0)
        return;
    n_failed++;
    printf("test_ir.c:%d: got\n%s\n-- instead of\n%s\n", line, got ? got : "(nothing)", want);
}

/* What a Diag wrote, as text. */
typedef struct Capture {
    FILE *file;
    char *text;
    size_t size, seen;
} Capture;

static void capture_open(Capture *c)
{
    *c = (Capture){0};
    c->file = open_memstream(&c->text, &c->size);
    if (!c->file)
        exit(3);
}

static const char *capture_text(Capture *c)
{
    fflush(c->file);
    return c->text;
}

static void capture_close(Capture *c)
{
    fclose(c->file);
    free(c->text);
}

/* A module with one graph and a builder at its end. */
typedef struct Fixture {
    Arena *arena;
    Capture capture;
    Diag *diag;
    Module *module;
    Builder b;
} Fixture;

static void fixture_open(Fixture *f)
{
    *f = (Fixture){.arena = arena_new()};
    capture_open(&f->capture);
    f->diag = diag_new(f->arena, &(DiagOptions){.out = f->capture.file});
    f->module = module_new(f->arena, f->diag, "Test");
    f->module->batch = 32;
    f->b = (Builder){.graph = graph_new(f->module, ENTRY_TRAIN), .loc = SRC_NONE};
}

static void fixture_close(Fixture *f)
{
    capture_close(&f->capture);
    arena_free(f->arena);
}

static Shape shape2(int64_t d0, int64_t d1)
{
    return shape_of(2, (int64_t[]){d0, d1});
}

/* An input of this shape whose first axis is N * k (k == 0: no batch axis). */
static Node *input(Fixture *f, const char *name, DType t, int rank, const int64_t *dim,
                   int64_t k)
{
    Input i = {
        .name = name, .type = {.dtype = t, .shape = shape_of(rank, dim)}, .loc = SRC_NONE};
    i.type.shape.batch[0] = k;
    module_add_input(f->module, &i);
    return build_input(&f->b, name);
}

static Node *input2(Fixture *f, const char *name, int64_t d0, int64_t d1, int64_t k)
{
    return input(f, name, DT_F32, 2, (int64_t[]){d0, d1}, k);
}

static const char *type_of(const Fixture *f, const Node *n)
{
    return n ? type_text(f->arena, &n->type) : "NULL";
}

/* "1 0 3": the marks of a node. */
static const char *marks(const Fixture *f, const Node *n)
{
    Text t;
    text_init(&t, f->arena);
    for (int i = 0; n && i < n->type.shape.rank; i++)
        text_printf(&t, "%s%lld", i ? " " : "", (long long)n->type.shape.batch[i]);
    return t.s;
}

/* What was reported since the last call. */
static const char *said(Fixture *f)
{
    const char *news = arena_strdup(f->arena, capture_text(&f->capture) + f->capture.seen);
    f->capture.seen = f->capture.size;
    return news;
}

static bool says(Fixture *f, const char *part)
{
    const char *all = said(f);
    const bool found = strstr(all, part) != NULL;
    if (!found)
        printf("said: %s\n", all);
    return found;
}

static void test_arena_and_text(void)
{
    Arena *a = arena_new();
    unsigned char *big = arena_alloc(a, 1 << 20), *small = arena_alloc(a, 3);
    CHECK(((uintptr_t)big & 15) == 0 && ((uintptr_t)small & 15) == 0);
    CHECK(small[0] == 0 && big[(1 << 20) - 1] == 0);
    CHECK(arena_alloc(a, 0) != NULL);
    for (int i = 0; i < 2000; i++) {
        const char *s = arena_printf(a, "name%d", i % 1000);
        CHECK(arena_intern(a, s, strlen(s)) == arena_intern(a, arena_strdup(a, s), strlen(s)));
    }
    CHECK(arena_intern(a, "abc", 2) == arena_intern(a, "abd", 2));
    CHECK(arena_intern(a, "ab", 2) != arena_intern(a, "abc", 3));
    Text t;
    text_init(&t, a);
    CHECK_TEXT(t.s, "");
    const double values[] = {0.1, 1e-8,     3,         -0.0, 1e300, 1.0 / 3,
                             20,  INFINITY, -INFINITY, NAN,  1e15,  123456789};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        text_real(&t, values[i]);
        text_add(&t, " ");
    }
    CHECK_TEXT(t.s,
               "0.1 1e-08 3 -0 1e+300 0.3333333333333333 20 inf -inf nan 1e+15 123456789 ");
    text_init(&t, a);
    text_quoted(&t, "a\"b\\c\nd");
    CHECK_TEXT(t.s, "\"a\\\"b\\\\c\\nd\"");
    arena_free(a);
    arena_free(NULL);
}

static void test_types(void)
{
    CHECK(dtype_find("f32") == DT_F32 && dtype_find("f16") == DT_COUNT);
    CHECK(dtype_join(DT_F32, DT_F64) == DT_F64 && dtype_join(DT_F32, DT_I64) == DT_F32);
    CHECK(dtype_join(DT_BOOL, DT_U8) == DT_I64 && dtype_join(DT_U8, DT_I32) == DT_I32);
    CHECK(dtype_join(DT_BOOL, DT_F64) == DT_F64 && dtype_join(DT_BOOL, DT_BOOL) == DT_BOOL);
    Shape a = shape2(32, 1), b = shape_of(1, (int64_t[]){7}), out;
    a.batch[0] = 1;
    CHECK(shape_broadcast(&a, &b, &out) && out.dim[0] == 32 && out.dim[1] == 7);
    CHECK(out.batch[0] == 1 && out.batch[1] == 0);
    const Shape bad = shape2(31, 7);
    CHECK(!shape_broadcast(&a, &bad, &out));
    const Shape scalar = shape_scalar();
    CHECK(shape_broadcast(&scalar, &scalar, &out) && out.rank == 0 && shape_count(&out) == 1);
    int64_t stride[MAX_RANK];
    const Shape c = shape_of(3, (int64_t[]){2, 3, 4});
    shape_strides(&c, stride);
    CHECK(stride[0] == 12 && stride[1] == 4 && stride[2] == 1);
}

static void test_table(void)
{
    for (int i = 0; i < OP_COUNT_; i++) {
        const OpInfo *info = op_info((OpCode)i);
        CHECK(op_find(info->text) == (OpCode)i);
        if (info->kind == KIND_EXPR)
            CHECK(scalar_arity((ScalarFn)info->data) == info->n_in);
    }
    for (int i = 0; i < OP_COUNT_; i++)
        CHECK(op_info((OpCode)i)->has_gradient ==
              (strcmp(op_info((OpCode)i)->grad, "none") != 0));
    CHECK(op_find("nonsense") == OP_COUNT_);
    Arena *a = arena_new();
    Attrs x, y;
    attrs_default(ATTR_einsum, &x);
    attrs_default(ATTR_einsum, &y);
    CHECK(attrs_equal(ATTR_einsum, &x, &y) &&
          attrs_hash(ATTR_einsum, &x) == attrs_hash(ATTR_einsum, &y));
    CHECK(attrs_read(a, ATTR_einsum, &x, "spec", "\"mk,nk->mn\"") &&
          attrs_read(a, ATTR_einsum, &x, "chunk", "64"));
    CHECK(!attrs_equal(ATTR_einsum, &x, &y) &&
          attrs_hash(ATTR_einsum, &x) != attrs_hash(ATTR_einsum, &y));
    Text t;
    text_init(&t, a);
    attrs_print(&t, ATTR_einsum, &x);
    CHECK_TEXT(t.s, " spec=\"mk,nk->mn\" chunk=64");
    CHECK(!attrs_read(a, ATTR_einsum, &x, "chunk", "sixty") &&
          !attrs_read(a, ATTR_einsum, &x, "dim", "1"));
    CHECK(!attrs_read(a, ATTR_axes, &x, "dims", "[1, 2") &&
          !attrs_read(a, ATTR_axes, &x, "dims", "[1,]"));
    CHECK(!attrs_read(a, ATTR_axes, &x, "dims", "[1,2,3,4,5,6,7,8,9,10,11]"));
    CHECK(!attrs_read(a, ATTR_none, &x, "unused_", "true"));
    attrs_default(ATTR_axes, &x);
    CHECK(attrs_read(a, ATTR_axes, &x, "dims", "[]") && x.axes.dims.n == 0);
    attrs_default(ATTR_value, &x);
    CHECK(attrs_read(a, ATTR_value, &x, "data", "[1, nan, -inf]") && x.value.data.n == 3 &&
          isnan(x.value.data.v[1]));
    y = x;
    CHECK(attrs_equal(ATTR_value, &x, &y));
    CHECK(attrs_read(a, ATTR_cast, &x, "to", "i64") && x.cast.to == DT_I64 &&
          !attrs_read(a, ATTR_cast, &x, "to", "i7"));
    text_init(&t, a);
    op_list_print(&t);
    CHECK(strstr(t.s, "einsum       2        contract  einsum     spec=\"\" chunk=0\n") !=
          NULL);
    arena_free(a);
}

static void test_elementwise(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input2(&f, "x", 32, 128, 1), *w = input2(&f, "w", 64, 10, 0);
    Node *row = input(&f, "row", DT_F32, 1, (int64_t[]){128}, 0);
    Node *n = input(&f, "n", DT_I64, 1, (int64_t[]){128}, 0);
    CHECK_TEXT(type_of(&f, build2(&f.b, OP_ADD, row, x)), "f32[32, 128]");
    CHECK_TEXT(marks(&f, f.b.graph->nodes[f.b.graph->n_nodes - 1]), "1 0");
    CHECK(build2(&f.b, OP_ADD, x, w) == NULL &&
          says(&f, "add: shapes do not broadcast, [32, 128] and [64, 10]"));
    CHECK(build2(&f.b, OP_ADD, x, n) == NULL &&
          says(&f, "add: element types differ, f32[32, 128] and i64[128]"));
    CHECK(build2(&f.b, OP_ADD, NULL, x) == NULL);
    CHECK_TEXT(said(&f), "");
    Node *less = build2(&f.b, OP_LT, x, row), *eq = build2(&f.b, OP_EQ, n, n);
    CHECK_TEXT(type_of(&f, less), "bool[32, 128]");
    CHECK_TEXT(type_of(&f, build2(&f.b, OP_AND, less, eq)), "bool[32, 128]");
    CHECK(build2(&f.b, OP_AND, less, x) == NULL &&
          says(&f, "and: needs bool, but was given f32[32, 128]"));
    CHECK(build1(&f.b, OP_NOT, x) == NULL && says(&f, "not: needs bool"));
    CHECK(build1(&f.b, OP_NEG, less) == NULL && says(&f, "neg: needs numbers"));
    CHECK(build2(&f.b, OP_MUL, less, less) == NULL && says(&f, "mul: needs numbers"));
    CHECK(build1(&f.b, OP_EXP, n) == NULL && says(&f, "exp: needs f32 or f64"));
    CHECK_TEXT(type_of(&f, build3(&f.b, OP_WHERE, less, x, row)), "f32[32, 128]");
    CHECK(build3(&f.b, OP_WHERE, less, x, n) == NULL &&
          says(&f, "where: element types differ"));
    CHECK(build3(&f.b, OP_WHERE, x, x, x) == NULL && says(&f, "where: needs bool"));
    CHECK_TEXT(type_of(&f, build3(&f.b, OP_FMA, x, row, build_const(&f.b, DT_F32, 2))),
               "f32[32, 128]");
    CHECK_TEXT(type_of(&f, build1(&f.b, OP_ISFINITE, x)), "bool[32, 128]");
    CHECK_TEXT(type_of(&f, build_cast(&f.b, x, DT_F64)), "f64[32, 128]");
    CHECK_TEXT(marks(&f, build_cast(&f.b, x, DT_F64)), "1 0");
    CHECK(build_cast(&f.b, x, DT_F32) == x);
    CHECK_TEXT(said(&f), "");
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static Node *reshaped(Fixture *f, Node *x, int rank, const int64_t *dim)
{
    const Shape s = shape_of(rank, dim);
    return build_reshape(&f->b, x, &s);
}

static void test_reshape_marks(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input(&f, "x", DT_F32, 3, (int64_t[]){32, 5, 8}, 1);
    CHECK_TEXT(marks(&f, reshaped(&f, x, 2, (int64_t[]){32, 40})), "1 0");
    Node *merged = reshaped(&f, x, 2, (int64_t[]){160, 8});
    CHECK_TEXT(marks(&f, merged), "5 0");
    CHECK_TEXT(marks(&f, reshaped(&f, merged, 3, (int64_t[]){32, 5, 8})), "1 0 0");
    CHECK_TEXT(marks(&f, reshaped(&f, merged, 1, (int64_t[]){1280})), "40");
    CHECK_TEXT(marks(&f, reshaped(&f, x, 3, (int64_t[]){64, 5, 4})), "2 0 0");
    CHECK_TEXT(marks(&f, reshaped(&f, x, 4, (int64_t[]){1, 32, 1, 40})), "0 1 0 0");
    CHECK_TEXT(marks(&f, reshaped(&f, x, 4, (int64_t[]){32, 5, 8, 1})), "1 0 0 0");
    /* 8 samples in the outer axis' elements: samples along no axis. */
    CHECK_TEXT(marks(&f, reshaped(&f, x, 2, (int64_t[]){4, 320})), "-1 -1");
    Node *t = build_permute(&f.b, x, (int64_t[]){1, 0, 2});
    CHECK_TEXT(type_of(&f, t), "f32[5, 32, 8]");
    CHECK_TEXT(marks(&f, t), "0 1 0");
    /* Five times all samples; then each of them, in two axes, in one again. */
    Node *five = reshaped(&f, t, 2, (int64_t[]){160, 8});
    CHECK_TEXT(marks(&f, five), "1 0");
    CHECK_TEXT(marks(&f, reshaped(&f, five, 3, (int64_t[]){5, 32, 8})), "0 1 0");
    CHECK_TEXT(marks(&f, reshaped(&f, five, 1, (int64_t[]){1280})), "8");
    CHECK_TEXT(marks(&f, reshaped(&f, five, 2, (int64_t[]){32, 40})), "-1 -1");
    CHECK_TEXT(marks(&f, reshaped(&f, t, 2, (int64_t[]){5, 256})), "0 8");
    CHECK(reshaped(&f, x, 3, (int64_t[]){32, 5, 8}) == x);
    CHECK(reshaped(&f, x, 2, (int64_t[]){32, 41}) == NULL &&
          says(&f, "reshape: [32, 5, 8] has 1280 elements and [32, 41] has 1312"));
    CHECK(reshaped(&f, x, 2, (int64_t[]){-32, -40}) == NULL && says(&f, "has no elements"));
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static void test_views(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input2(&f, "x", 32, 10, 1), *one = input2(&f, "one", 32, 1, 1);
    const Shape wide = shape_of(3, (int64_t[]){4, 32, 7});
    Node *e = build_expand(&f.b, one, &wide);
    CHECK_TEXT(type_of(&f, e), "f32[4, 32, 7]");
    CHECK_TEXT(marks(&f, e), "0 1 0");
    CHECK(build_expand(&f.b, x, &wide) == NULL &&
          says(&f, "expand: [32, 10] does not expand to [4, 32, 7]"));
    Shape marked = shape2(32, 3);
    marked.batch[0] = 1;
    CHECK_TEXT(marks(&f, build_expand(&f.b, build_const(&f.b, DT_F32, 1), &marked)), "1 0");
    CHECK_TEXT(marks(&f, build_iota(&f.b, &marked, 1)), "1 0");
    CHECK(build_iota(&f.b, &marked, 2) == NULL && says(&f, "iota: [32, 3] has no axis 2"));
    CHECK(build_permute(&f.b, x, (int64_t[]){0, 1}) == x);
    CHECK(build_permute(&f.b, x, (int64_t[]){1, 1}) == NULL &&
          says(&f, "axis 1 is named twice"));
    CHECK(build_permute(&f.b, x, (int64_t[]){0, 2}) == NULL && says(&f, "has no axis 2"));
    Node *s = build_slice(&f.b, x, (int64_t[]){0, 9}, (int64_t[]){1, -3}, (int64_t[]){32, 4});
    CHECK_TEXT(type_of(&f, s), "f32[32, 4]");
    CHECK_TEXT(marks(&f, s), "1 0");
    CHECK_TEXT(marks(&f, build_slice(&f.b, x, (int64_t[]){1, 0}, (int64_t[]){1, 1},
                                     (int64_t[]){31, 10})),
               "-1 0");
    CHECK(build_slice(&f.b, x, (int64_t[]){0, 9}, (int64_t[]){1, -3}, (int64_t[]){32, 5}) ==
              NULL &&
          says(&f,
               "slice: 5 elements from 9 in steps of -3 do not lie within axis 1 of [32, 10]"));
    CHECK(build_slice(&f.b, x, (int64_t[]){0, 0}, (int64_t[]){1, 0}, (int64_t[]){32, 2}) ==
              NULL &&
          says(&f, "slice:"));
    CHECK(build_slice(&f.b, x, (int64_t[]){0, 0}, (int64_t[]){1, INT64_MIN},
                      (int64_t[]){32, 1}) == NULL &&
          says(&f, "slice:"));
    Attrs pad;
    attrs_default(ATTR_slice, &pad);
    pad.slice.start = ints_of(2, (int64_t[]){0, 2});
    pad.slice.step = ints_of(2, (int64_t[]){1, 2});
    pad.slice.size = ints_of(2, (int64_t[]){32, 21});
    Node *p = build(&f.b, OP_PAD, &pad, 1, &x);
    CHECK_TEXT(type_of(&f, p), "f32[32, 21]");
    CHECK_TEXT(marks(&f, p), "1 0");
    pad.slice.size.v[1] = 20;
    CHECK(build(&f.b, OP_PAD, &pad, 1, &x) == NULL &&
          says(&f, "pad: axis 1 of [32, 10] from 2 in steps of 2"));
    pad.slice.start.n = 1;
    CHECK(build(&f.b, OP_PAD, &pad, 1, &x) == NULL &&
          says(&f, "pad: start has 1 entries for 2 axes"));
    const Shape huge =
        shape_of(3, (int64_t[]){INT64_C(1) << 30, INT64_C(1) << 30, INT64_C(1) << 30});
    CHECK(build_expand(&f.b, build_const(&f.b, DT_F32, 1), &huge) == NULL &&
          says(&f, "is too large"));
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static void test_reductions(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input(&f, "x", DT_F32, 3, (int64_t[]){32, 5, 8}, 1);
    CHECK_TEXT(type_of(&f, build_reduce(&f.b, OP_SUM, x, 1, (int64_t[]){1}, false)),
               "f32[32, 8]");
    Node *kept = build_reduce(&f.b, OP_REDMAX, x, 2, (int64_t[]){2, 0}, true);
    CHECK_TEXT(type_of(&f, kept), "f32[1, 5, 1]");
    CHECK_TEXT(marks(&f, kept), "0 0 0");
    CHECK_TEXT(marks(&f, build_reduce(&f.b, OP_SUM, x, 1, (int64_t[]){2}, true)), "1 0 0");
    CHECK_TEXT(type_of(&f, build_reduce(&f.b, OP_SUM, x, 3, (int64_t[]){0, 1, 2}, false)),
               "f32[]");
    CHECK_TEXT(type_of(&f, build_reduce(&f.b, OP_ARGMAX, x, 1, (int64_t[]){2}, false)),
               "i64[32, 5]");
    CHECK_TEXT(type_of(&f, build_reduce(&f.b, OP_ARGMAX, x, 2, (int64_t[]){0, 2}, false)),
               "i64[5]");
    CHECK(build_reduce(&f.b, OP_ARGMAX, x, 0, NULL, false) == NULL &&
          says(&f, "argmax: needs an axis"));
    CHECK(build_reduce(&f.b, OP_SUM, x, 1, (int64_t[]){3}, false) == NULL &&
          says(&f, "sum: [32, 5, 8] has no axis 3"));
    CHECK(build_reduce(&f.b, OP_SUM, x, 1, (int64_t[]){-1}, false) == NULL &&
          says(&f, "has no axis -1"));
    CHECK(build_reduce(&f.b, OP_SUM, x, 2, (int64_t[]){1, 1}, false) == NULL &&
          says(&f, "axis 1 is named twice"));
    CHECK(build_reduce(&f.b, OP_SUM, x, 0, NULL, false) == x);
    CHECK_TEXT(type_of(&f, build_reduce(&f.b, OP_COUNT, x, 1, (int64_t[]){0}, false)), "f64[]");
    const Shape down = shape_of(2, (int64_t[]){5, 1}), scalar = shape_scalar();
    CHECK_TEXT(type_of(&f, build_sum_to(&f.b, x, &down)), "f32[5, 1]");
    CHECK_TEXT(type_of(&f, build_sum_to(&f.b, x, &scalar)), "f32[]");
    CHECK(build_sum_to(&f.b, x, &x->type.shape) == x);
    Node *loss = build_sum_to(&f.b, x, &scalar);
    CHECK_TEXT(type_of(&f, build2(&f.b, OP_GRAD, loss, x)), "f32[32, 5, 8]");
    CHECK(build2(&f.b, OP_GRAD, x, x) == NULL &&
          says(&f, "grad: what is differentiated must be one number"));
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static void test_einsum(void)
{
    EinsumSpec s;
    CHECK(einsum_parse("mk,nk->mn", &s) && s.n_a == 2 && s.n_b == 2 && s.n_out == 2 &&
          s.b[0] == 'n');
    CHECK(einsum_parse(",k->k", &s) && s.n_a == 0);
    static const char *const bad[] = {"mk,nk",     "mk->mk",    "mk,nk->mz",        "mm,nk->mn",
                                      "mk,nk->mm", "m1,nk->mn", "abcdefghijk,a->a", "mk,nk-mn",
                                      "",          "mk,nk,->mn"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!einsum_parse(bad[i], &s));
    CHECK(!einsum_parse(NULL, &s));
    Fixture f;
    fixture_open(&f);
    Node *x = input2(&f, "x", 32, 128, 1), *w = input2(&f, "w", 64, 128, 0),
         *v = input2(&f, "v", 10, 64, 0);
    Node *y = build_einsum(&f.b, x, w, "mk,nk->mn");
    CHECK_TEXT(type_of(&f, y), "f32[32, 64]");
    CHECK_TEXT(marks(&f, y), "1 0");
    CHECK_TEXT(marks(&f, build_einsum(&f.b, w, x, "nk,mk->nm")), "0 1");
    CHECK(build_einsum(&f.b, x, v, "mk,nk->mn") == NULL &&
          says(&f, "einsum: letter k is 128 in [32, 128] and 64 in [10, 64]"));
    CHECK(build_einsum(&f.b, x, v, "mk,k->m") == NULL &&
          says(&f, "\"mk,k->m\" has 2 and 1 axes"));
    CHECK(build_einsum(&f.b, x, w, "mk,nk->mz") == NULL && says(&f, "is not of the form"));
    Node *i = input(&f, "i", DT_I64, 2, (int64_t[]){32, 128}, 0);
    CHECK(build_einsum(&f.b, i, i, "mk,nk->mn") == NULL &&
          says(&f, "einsum: needs f32 or f64"));
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static void test_indexed(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input2(&f, "x", 32, 10, 1),
         *index = input(&f, "i", DT_I64, 2, (int64_t[]){32, 1}, 1);
    Node *long_index = input(&f, "j", DT_I64, 2, (int64_t[]){64, 10}, 0);
    Attrs dim;
    attrs_default(ATTR_axis, &dim);
    dim.axis.dim = 1;
    Node *g = build(&f.b, OP_GATHER, &dim, 2, (Node *[]){x, index});
    CHECK_TEXT(type_of(&f, g), "f32[32, 1]");
    CHECK_TEXT(marks(&f, g), "1 0");
    CHECK(build(&f.b, OP_GATHER, &dim, 2, (Node *[]){x, long_index}) == NULL &&
          says(&f, "gather: index of shape [64, 10] goes beyond [32, 10]"));
    CHECK(build(&f.b, OP_GATHER, &dim, 2, (Node *[]){x, x}) == NULL &&
          says(&f, "gather: needs integers"));
    dim.axis.dim = 0;
    CHECK_TEXT(type_of(&f, build(&f.b, OP_GATHER, &dim, 2, (Node *[]){x, long_index})),
               "f32[64, 10]");
    Node *updates = input2(&f, "u", 64, 10, 0);
    CHECK_TEXT(
        type_of(&f, build(&f.b, OP_SCATTER_ADD, &dim, 3, (Node *[]){x, long_index, updates})),
        "f32[32, 10]");
    CHECK(build(&f.b, OP_SCATTER_ADD, &dim, 3, (Node *[]){x, long_index, x}) == NULL &&
          says(&f, "goes beyond [32, 10]"));
    dim.axis.dim = 2;
    CHECK(build(&f.b, OP_GATHER, &dim, 2, (Node *[]){x, index}) == NULL &&
          says(&f, "has no axis 2"));
    Attrs r;
    attrs_default(ATTR_random, &r);
    r.random.path = "drop";
    r.random.shape = ints_of(2, (int64_t[]){3, 4});
    Node *step = build_const(&f.b, DT_I64, 0);
    CHECK_TEXT(type_of(&f, build(&f.b, OP_RANDOM, &r, 2, (Node *[]){build_seed(&f.b), step})),
               "i64[3, 4]");
    CHECK(build(&f.b, OP_RANDOM, &r, 2, (Node *[]){build_seed(&f.b), x}) == NULL &&
          says(&f, "must be i64[]"));
    CHECK(build_seed(&f.b) == build_seed(&f.b));
    CHECK(module_check(f.module) == NULL);
    fixture_close(&f);
}

static void test_graph(void)
{
    Fixture f;
    fixture_open(&f);
    Graph *g = f.b.graph;
    Node *x = input2(&f, "x", 2, 3, 0);
    f.b.hint = "fc1.out";
    Node *y = build1(&f.b, OP_RELU, x), *z = build1(&f.b, OP_RELU, y),
         *dead = build1(&f.b, OP_NEG, x);
    CHECK_TEXT(y->name, "fc1.out");
    CHECK_TEXT(z->name, "fc1.out.1");
    CHECK_TEXT(dead->name, "fc1.out.2");
    f.b.hint = "layers[3] x";
    CHECK_TEXT(build1(&f.b, OP_NEG, x)->name, "layers_3__x");
    f.b.hint = NULL;
    CHECK_TEXT(build1(&f.b, OP_NEG, x)->name, "neg");
    CHECK(graph_find(g, "fc1.out.1") == z && graph_find(g, "nobody") == NULL);
    Output out = {.kind = OUT_TENSOR, .name = "z", .value = z};
    graph_add_output(g, &out);
    const int *uses = graph_uses(g, f.arena);
    CHECK(uses[x->id] == 4 && uses[y->id] == 1 && uses[z->id] == 1 && uses[dead->id] == 0);
    /* A later node takes y's place; sorting moves it before its use. */
    Node *late = build1(&f.b, OP_ABS, x);
    graph_replace(g, y, late);
    CHECK(z->in[0] == late && module_check(f.module) != NULL);
    graph_sort(g);
    CHECK(late->id < z->id && module_check(f.module) == NULL);
    CHECK(graph_drop_dead(g) == 4 && g->n_nodes == 3);
    CHECK(g->nodes[0] == x && g->nodes[1] == late && g->nodes[2] == z && z->id == 2);
    graph_replace(g, z, late);
    CHECK(g->outputs[0].value == late && graph_drop_dead(g) == 1);
    /* Many nodes with one hint, and an emptied graph that takes its names back. */
    f.b.hint = "h";
    Node *h = x;
    for (int i = 0; i < 20000; i++)
        h = build1(&f.b, OP_NEG, h);
    CHECK_TEXT(h->name, "h.19999");
    g->outputs[0].value = h;
    graph_sort(g);
    CHECK(module_check(f.module) == NULL && graph_drop_dead(g) == 1);
    Node **old = g->nodes;
    const int n = g->n_nodes;
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    for (int i = 0; i < n; i++)
        CHECK_TEXT(graph_append(g, old[i])->name, old[i]->name);
    fixture_close(&f);
}

/* A module with a bit of everything that the .hir language has. */
static void fill_module(Fixture *f)
{
    Module *m = f->module;
    Builder *b = &f->b;
    m->epochs = 20;
    Node *image = input(f, "image", DT_U8, 3, (int64_t[]){32, 8, 8}, 1);
    module_add_input(m, &(Input){.name = "z",
                                 .each = true,
                                 .drawn = true,
                                 .target = true,
                                 .type = {.dtype = DT_F32,
                                          .shape = {.rank = 1, .dim = {96}, .batch = {3}}}});
    static const double set[] = {0, 1e-5, 1e-3};
    module_add_hyper(
        m, &(Hyper){.name = "lr", .value = 1e-3, .domain = DOMAIN_LOG, .lo = 1e-4, .hi = 0.1});
    module_add_hyper(m, &(Hyper){.name = "decay", .domain = DOMAIN_SET, .set = {3, set}});
    module_add_hyper(m,
                     &(Hyper){.name = "drop", .value = 0.2, .domain = DOMAIN_RANGE, .hi = 0.5});
    module_add_hyper(m, &(Hyper){.name = "k",
                                 .value = 3,
                                 .integer = true,
                                 .domain = DOMAIN_INT,
                                 .lo = 1,
                                 .hi = 9,
                                 .step = 2});
    module_add_hyper(m, &(Hyper){.name = "plain", .value = -INFINITY});
    module_add_state(m, &(State){.name = "fc1.weight",
                                 .role = ROLE_PARAM,
                                 .layout = {2, {1, 0}},
                                 .type = {.dtype = DT_F32, .shape = shape2(128, 64)}});
    module_add_state(
        m, &(State){.name = "$step", .role = ROLE_COUNTER, .type = {.dtype = DT_I64}});
    module_add_state(m, &(State){.name = "m",
                                 .role = ROLE_GRADIENT,
                                 .parameter = "fc1.weight",
                                 .type = {.dtype = DT_F32, .shape = shape2(128, 64)}});
    Node *w = build_state(b, "fc1.weight"), *lr = build_hyper(b, "lr");
    CHECK(build_state(b, "fc1.weight") == w && build_hyper(b, "lr") == lr &&
          build_input(b, "image") == image);
    Node *x = build_cast(b, image, DT_F32);
    x = reshaped(f, x, 2, (int64_t[]){32, 64});
    b->hint = "fc1.out";
    Node *h = build_einsum(b, x, w, "mk,nk->mn");
    b->hint = NULL;
    Shape ones = shape2(32, 1);
    ones.batch[0] = 1;
    h = build2(b, OP_MUL, h, build_full(b, DT_F32, &ones, 0.1));
    h = build2(b, OP_ADD, h, build_expand(b, build_const(b, DT_F32, 1.0 / 3), &ones));
    Node *table =
        build_table(b, DT_F32, &(Shape){.rank = 1, .dim = {3}}, (double[]){1, NAN, -0.0});
    Node *sum = build_reduce(b, OP_SUM, h, 2, (int64_t[]){0, 1}, false);
    Node *loss = build_cast(b, sum, DT_F64);
    Node *next = build2(b, OP_SUB, w, build_cast(b, lr, DT_F32));
    Node *old = build_state(b, "$step");
    Node *step = build2(b, OP_ADD, old, build_const(b, DT_I64, 1));
    Graph *g = b->graph;
    graph_add_output(g, &(Output){.kind = OUT_RESULT, .name = "loss", .value = loss});
    graph_add_output(g, &(Output){.kind = OUT_STATE, .name = "fc1.weight", .value = next});
    graph_add_output(g, &(Output){.kind = OUT_STATE, .name = "$step", .value = step});
    graph_add_output(g, &(Output){.kind = OUT_TENSOR, .name = "say \"hi\"", .value = table});
    graph_add_output(g, &(Output){.kind = OUT_FAULT,
                                  .name = "label",
                                  .value = step,
                                  .value2 = step,
                                  .input = "z",
                                  .lo = 0,
                                  .hi = 10,
                                  .ignore = -100,
                                  .has_ignore = true});
    b->graph = graph_new(m, ENTRY_INIT);
    graph_add_output(
        b->graph,
        &(Output){.kind = OUT_STATE, .name = "$step", .value = build_const(b, DT_I64, 0)});
}

static const char *printed(Arena *a, const Module *m)
{
    Text t;
    text_init(&t, a);
    module_print(&t, m);
    return t.s;
}

static const char filled_text[] =
    "hir 1\n"
    "module \"Test\" stage=ir batch=32 epochs=20\n"
    "input \"image\" : u8[32*1, 8, 8]\n"
    "target \"z\" each drawn : f32[32*3]\n"
    "hyper \"lr\" = 0.001 in log(0.0001 .. 0.1)\n"
    "hyper \"decay\" = 0 in {0, 1e-05, 0.001}\n"
    "hyper \"drop\" = 0.2 in (0 .. 0.5)\n"
    "hyper \"k\" integer = 3 in int(1 .. 9, step = 2)\n"
    "hyper \"plain\" = -inf\n"
    "param \"fc1.weight\" : f32[128, 64] layout=[1, 0]\n"
    "counter \"$step\" : i64[]\n"
    "gradient \"m\" of \"fc1.weight\" : f32[128, 64]\n"
    "graph @train {\n"
    "  %image = input name=\"image\" : u8[32, 8, 8]\n"
    "  %fc1.weight = state name=\"fc1.weight\" : f32[128, 64]\n"
    "  %lr = hyper name=\"lr\" : f64[]\n"
    "  %cast = cast %image : f32[32, 8, 8]\n"
    "  %reshape = reshape %cast shape=[32, 64] : f32[32, 64]\n"
    "  %fc1.out = einsum %reshape, %fc1.weight spec=\"mk,nk->mn\" : f32[32, 128]\n"
    "  %const = const data=0.1 : f32[32*1, 1]\n"
    "  %mul = mul %fc1.out, %const : f32[32, 128]\n"
    "  %const.1 = const data=0.3333333333333333 : f32[]\n"
    "  %expand = expand %const.1 shape=[32, 1] : f32[32*1, 1]\n"
    "  %add = add %mul, %expand : f32[32, 128]\n"
    "  %const.2 = const data=[1, nan, -0] : f32[3]\n"
    "  %sum = sum %add dims=[0, 1] : f32[]\n"
    "  %cast.1 = cast %sum to=f64 : f64[]\n"
    "  %cast.2 = cast %lr : f32[]\n"
    "  %sub = sub %fc1.weight, %cast.2 : f32[128, 64]\n"
    "  %$step = state name=\"$step\" : i64[]\n"
    "  %const.3 = const data=1 : i64[]\n"
    "  %add.1 = add %$step, %const.3 : i64[]\n"
    "  result \"loss\" %cast.1\n"
    "  state \"fc1.weight\" %sub\n"
    "  state \"$step\" %add.1\n"
    "  output \"say \\\"hi\\\"\" %const.2\n"
    "  fault \"label\" %add.1, %add.1 input=\"z\" lo=0 hi=10 ignore=-100\n"
    "}\n"
    "graph @init {\n"
    "  %const = const data=0 : i64[]\n"
    "  state \"$step\" %const\n"
    "}\n";

static Module *read_text(Fixture *f, const char *text, size_t len)
{
    return module_read(f->arena, f->diag, diag_add_source(f->diag, "t.hir", text, len, false));
}

static void test_print_and_read(void)
{
    Fixture f, g;
    fixture_open(&f);
    fill_module(&f);
    CHECK(module_check(f.module) == NULL);
    const char *text = printed(f.arena, f.module);
    CHECK_TEXT(text, filled_text);
    fixture_open(&g);
    const Module *m = read_text(&g, text, strlen(text));
    CHECK_TEXT(said(&g), "");
    CHECK(m != NULL);
    if (m) {
        CHECK_TEXT(printed(g.arena, m), text);
        const Node *add = graph_find(module_graph(m, ENTRY_TRAIN), "add");
        CHECK_TEXT(marks(&g, add), "1 0");
        CHECK(m->epochs == 20 && m->batch == 32 && module_hyper(m, "k")->integer);
    }
    Text dot;
    text_init(&dot, f.arena);
    module_print_dot(&dot, f.module);
    CHECK(strstr(dot.s, "g0_n0 -> g0_n3;") != NULL &&
          strstr(dot.s, "digraph \"Test\" {\n") == dot.s);
    fixture_close(&g);
    fixture_close(&f);
}

static const char fused_text[] =
    "hir 1\n"
    "module \"F\" stage=fused models=8\n"
    "input \"x\" : f32[32*1, 64]\n"
    "param \"w\" : f32[8 | 128, 64]\n"
    "param \"v\" : f32[2..6 | 128, 64]\n"
    "graph @train {\n"
    "  %seed = seed : i64[8 |]\n"
    "  %x = input name=\"x\" : f32[32, 64]\n"
    "  %w = state name=\"w\" : f32[8 | 128, 64]\n"
    "  %v = state name=\"v\" : f32[2..6 | 128, 64]\n"
    "  %y = einsum %x, %w spec=\"mk,nk->mn\" form=wide : f32[8 | 32, 128]\n"
    "  %s = relu %x : f32[32, 64]\n"
    "  %a = add %v, %v : f32[2..6 | 128, 64]\n"
    "  %b = add %v, %w : f32[8 | 128, 64]\n"
    "  %r = relu %x : f32[32*0, 64]\n"
    "  state \"w\" %w\n"
    "}\n";

static void test_fused(void)
{
    Fixture f;
    fixture_open(&f);
    const Module *m = read_text(&f, fused_text, strlen(fused_text));
    CHECK_TEXT(said(&f), "");
    CHECK(m != NULL);
    if (m) {
        CHECK_TEXT(printed(f.arena, m), fused_text);
        const Graph *g = module_graph(m, ENTRY_TRAIN);
        CHECK(graph_find(g, "y")->form == FORM_WIDE && graph_find(g, "s")->form == FORM_SHARED);
        CHECK(graph_find(g, "a")->form == FORM_BATCHED &&
              graph_find(g, "r")->type.shape.batch[0] == 0);
    }
    fixture_close(&f);
}

/* One line of filled_text replaced; what is said must begin with this place and hold this part. */
static void refuse(const char *from, const char *to, const char *place, const char *part)
{
    Fixture f;
    fixture_open(&f);
    const char *at = strstr(filled_text, from);
    CHECK(at != NULL);
    Text t;
    text_init(&t, f.arena);
    text_addn(&t, filled_text, at ? (size_t)(at - filled_text) : 0);
    text_add(&t, to);
    text_add(&t, at ? at + strlen(from) : "");
    const Module *m = read_text(&f, t.s, t.len);
    const char *message = said(&f);
    const bool ok = !m && strncmp(message, place, strlen(place)) == 0 && strstr(message, part);
    CHECK(ok);
    if (!ok)
        printf("'%s' for '%s' gave: %s\n", to, from, message);
    fixture_close(&f);
}

static void test_refusals(void)
{
    refuse("hir 1", "hir 2", "t.hir:1:", "version 2 of .hir is not known");
    refuse("batch=32", "batches=32", "t.hir:2:", "no setting 'batches'");
    refuse("u8[32*1", "u9[32*1", "t.hir:3:", "'u9' is no element type");
    refuse("u8[32*1, 8, 8]\n", "u8[32*1, 8, 8\n", "t.hir:3:", "expected ']'");
    refuse("u8[32*1, 8, 8]\n", "u8[1,1,1,1,1,1,1,1,1,1,1]\n", "t.hir:3:", "at most 10 axes");
    refuse("u8[32*1, 8, 8]\n", "u8[9223372036854775807, 8, 8]\n", "t.hir:3:", "too large");
    refuse("u8[32*1, 8, 8]\n", "u8[99999999999999999999]\n",
           "t.hir:3:", "the number is too large");
    refuse("f32[32*3]", "f32[4611686018427387904*3]", "t.hir:4:", "no extent of an axis");
    refuse("target \"z\"", "target \"image\"", "t.hir:4:", "declared twice");
    refuse("0.2 in", "0,2 in", "t.hir:7:", "expected the end of the line");
    refuse("\"drop\" = 0.2", "\"drop = 0.2", "t.hir:7:", "the string does not end");
    refuse("layout=[1, 0]", "layout=[1, 1]", "t.hir:10:", "layout is no permutation");
    refuse("counter", "counters", "t.hir:11:", "'counters' is no declaration");
    refuse("= input name", "= inptu name", "t.hir:14:", "there is no operator 'inptu'");
    refuse("input name=\"image\"", "input name=\"imag\"", "t.hir:14:", "does not declare");
    refuse("%cast = cast %image :", "%cast = cast %imag :", "t.hir:17:",
           "%imag is not defined above");
    refuse("%cast = cast %image :", "%cast = cast %image to=f65 :", "t.hir:17:",
           "no attribute of cast");
    refuse("%cast = cast %image :", "%image = cast %image :", "t.hir:17:",
           "%image is defined twice");
    refuse("%cast = cast %image :", "%cast = cast %image, %image :", "t.hir:17:",
           "cast takes 1 operands, not 2");
    refuse("shape=[32, 64]", "shape=[32, 65]",
           "t.hir:18:", "reshape: [32, 8, 8] has 2048 elements");
    refuse("shape=[32, 64]", "shape=[32, 64", "t.hir:18:", "the value does not end");
    refuse("\"mk,nk->mn\" : f32[32, 128]", "\"mk,nk->mn\" : f32[32, 129]",
           "t.hir:19:", "of these operands gives f32[32, 128]");
    refuse("\"mk,nk->mn\" : f32[32, 128]", "\"mk,nk->mn\" : f32[4 | 32, 128]",
           "t.hir:19:", "its models are not among");
    refuse("data=[1, nan, -0]", "data=[1, nan]", "t.hir:25:", "neither one value");
    refuse("result \"loss\" %cast.1", "result \"loss\" %add",
           "t.hir:24:", "a result must be f64[]");
    refuse("state \"fc1.weight\" %sub", "state \"fc1.weight\" %add",
           "t.hir:24:", "the state is f32[128, 64]");
    refuse("state \"$step\" %add.1", "state \"fc1.weight\" %sub",
           "t.hir:29:", "is written twice");
    refuse("%const.2\n  fault", "%const.2 as f32[4]\n  fault", "t.hir:25:", "in another shape");
    refuse("%const.2\n  fault", "%const.2 as f64[3]\n  fault", "t.hir:25:", "in another shape");
    refuse("ignore=-100", "ignored=-100", "t.hir:37:", "'ignored' is no attribute of fault");
    refuse("graph @init", "graph @train", "t.hir:39:", "graph @train is defined twice");
    refuse("graph @init", "graph @begin", "t.hir:39:", "there is no entry point @begin");
    refuse("stage=ir", "stage=iron", "t.hir:2:", "'iron' is no stage");
    refuse("result \"loss\"", "results \"loss\"",
           "t.hir:33:", "'results' is no kind of output");
}

/* What a state's role asks of it; the message is about the whole text. */
static void test_roles(void)
{
    static const char step[] = "counter \"$step\" : i64[]";
    refuse(step, "counter \"$step\" : f64[]", "t.hir:1:", "counter \"$step\": must be i64[]");
    refuse(step, "counter \"$step\" : i64[]\ncounter \"c\" : i64[]",
           "t.hir:1:", "counter \"c\": there is another one");
    refuse(step, "counter \"$step\" : i64[]\noptim \"m.fc1.weight\" : f32[2]",
           "t.hir:1:", "optim \"m.fc1.weight\": lacks its parameter");
    refuse(step, "counter \"$step\" : i64[]\noptim \"v\" of \"fc1\" : f32[2]",
           "t.hir:1:", "optim \"v\": there is no parameter \"fc1\"");
    refuse(step, "counter \"$step\" of \"fc1.weight\" : i64[]",
           "t.hir:1:", "belongs to no parameter");
    refuse("state \"$step\" %const\n", "state \"$step\" %const\nok \"ok\" %const\n",
           "t.hir:", "there is one, in @train");
    refuse("result \"loss\" %cast.1\n", "ok \"a\" %cast.1\nok \"b\" %cast.1\n",
           "t.hir:", "there is one, in @train");
}

/* Text cut anywhere, or with any byte changed, is read or refused, never a crash. */
static void test_damage(void)
{
    const size_t len = strlen(filled_text);
    static const char bytes[] = {'\0', '"', '[',  ']', '%', '\n',
                                 '9',  '-', '\\', '*', '|', (char)0xff};
    int refused = 0;
    for (size_t cut = 0; cut < len; cut++) {
        Fixture f;
        fixture_open(&f);
        char *exact =
            malloc(cut ? cut : 1); /* so that a sanitizer sees a read behind the end */
        if (!exact)
            exit(3);
        memcpy(exact, filled_text, cut);
        refused += read_text(&f, exact, cut) == NULL;
        free(exact);
        fixture_close(&f);
    }
    CHECK(refused > (int)len / 2);
    unsigned seed = 1;
    for (size_t i = 0; i < len; i++) {
        Fixture f;
        fixture_open(&f);
        char *copy = arena_strdup(f.arena, filled_text);
        seed = seed * 1103515245u + 12345u;
        copy[i] = bytes[(seed >> 16) % sizeof bytes];
        const Module *m = read_text(&f, copy, len);
        CHECK((m != NULL) == (*said(&f) == '\0'));
        fixture_close(&f);
    }
}

static void test_verify(void)
{
    Fixture f;
    fixture_open(&f);
    Node *x = input2(&f, "x", 2, 3, 0), *y = build2(&f.b, OP_ADD, x, x);
    Node *loss = build_reduce(&f.b, OP_SUM, y, 2, (int64_t[]){0, 1}, false);
    Node *dx = build2(&f.b, OP_GRAD, loss, x);
    CHECK(module_check(f.module) == NULL);
    f.module->stage = MODULE_GRAD;
    CHECK_TEXT(module_check(f.module),
               "graph @train: %grad (grad): must be gone at this stage");
    f.module->stage = MODULE_IR;
    Graph *other = graph_new(f.module, ENTRY_INIT);
    CHECK(module_check(f.module) == NULL);
    other->entry = ENTRY_TRAIN;
    CHECK_TEXT(module_check(f.module), "there are two graphs @init");
    other->entry = ENTRY_NONE;
    CHECK_TEXT(module_check(f.module), "graph @init is no entry point");
    f.module->n_graphs--;
    dx->name = y->name;
    CHECK(strstr(module_check(f.module), "its name is taken") != NULL);
    dx->name = "dx";
    CHECK(module_check(f.module) == NULL);
    y->type.shape.dim[1] = 4;
    CHECK_TEXT(module_check(f.module),
               "graph @train: %add (add): should be f32[2, 3], but has type f32[2, 4]");
    y->type.shape.dim[1] = 3;
    y->type.models = (Interval){0, 2};
    CHECK(strstr(module_check(f.module), "its models") != NULL);
    f.module->n_models = 2;
    CHECK(strstr(module_check(f.module), "should be f32[2, 3]") != NULL);
    y->type.models = (Interval){0, 0};
    y->in[1] = loss;
    CHECK(strstr(module_check(f.module), "operand %sum is defined later") != NULL);
    y->in[1] = x;
    graph_add_output(f.b.graph, &(Output){.kind = OUT_STATE, .name = "none", .value = x});
    CHECK_TEXT(module_check(f.module), "graph @train: output \"none\": there is no such state");
    fixture_close(&f);
}

static const char source[] = "one\n\treturn matmul(h, w2)\nthree = wird\n";

static Diag *diag_with_source(Arena *a, Capture *c, const DiagOptions *o)
{
    DiagOptions options = o ? *o : (DiagOptions){0};
    options.out = c->file;
    Diag *d = diag_new(a, &options);
    diag_add_source(d, "m.hdl", source, strlen(source), false);
    diag_add_source(d, "std/loss.hdl", "fn f(x) = g(x)\n", 15, true);
    return d;
}

static void test_diag(void)
{
    Arena *a = arena_new();
    Capture c;
    capture_open(&c);
    Diag *d = diag_with_source(a, &c, NULL);
    diag_error(d, (SrcRange){0, 12, 25}, "matmul: inner dimensions differ, %s",
               "[32, 128] x [64, 10]");
    diag_note(d, (SrcRange){0, 0, 3}, "here");
    diag_warn(d, (SrcRange){0, 34, 1000}, "cut at the line's end");
    diag_error(d, (SrcRange){0, 12, 25}, "matmul: inner dimensions differ, %s",
               "[32, 128] x [64, 10]");
    diag_note(d, (SrcRange){0, 0, 3}, "dropped with its error");
    diag_error(d, SRC_NONE, "no place");
    CHECK_TEXT(capture_text(&c),
               "m.hdl:2:9: error: matmul: inner dimensions differ, [32, 128] x [64, 10]\n"
               "    2 | \treturn matmul(h, w2)\n"
               "      | \t       ^~~~~~~~~~~~~\n"
               "m.hdl:1:1: note: here\n"
               "    1 | one\n"
               "      | ^~~\n"
               "m.hdl:3:9: warning: cut at the line's end\n"
               "    3 | three = wird\n"
               "      |         ^~~~\n"
               "hftac: error: no place\n");
    CHECK(diag_errors(d) == 2);
    unsigned line, col;
    diag_line_col(d, (SrcRange){0, 34, 35}, &line, &col);
    CHECK(line == 3 && col == 9 && diag_is_library(d, 1) && !diag_is_library(d, 0) &&
          !diag_is_library(d, 9));
    capture_close(&c);
    capture_open(&c);
    d = diag_with_source(a, &c, NULL);
    diag_push_call(d, (SrcRange){0, 12, 25}, "matmul");
    diag_push_call(d, (SrcRange){1, 10, 14}, "g");
    diag_error(d, (SrcRange){1, 10, 11}, "bad");
    diag_pop_call(d);
    diag_pop_call(d);
    diag_error(d, (SrcRange){1, 10, 11}, "no call");
    CHECK_TEXT(capture_text(&c), "m.hdl:2:9: error: bad\n"
                                 "    2 | \treturn matmul(h, w2)\n"
                                 "      | \t       ^~~~~~~~~~~~~\n"
                                 "std/loss.hdl:1:11: note: inside matmul\n"
                                 "    1 | fn f(x) = g(x)\n"
                                 "      |           ^\n"
                                 "std/loss.hdl:1:11: error: no call\n"
                                 "    1 | fn f(x) = g(x)\n"
                                 "      |           ^\n");
    capture_close(&c);
    arena_free(a);
}

static void test_diag_limits(void)
{
    Arena *a = arena_new();
    Capture c;
    capture_open(&c);
    Diag *d = diag_with_source(a, &c, &(DiagOptions){.werror = true});
    diag_warn(d, (SrcRange){0, 0, 1}, "counts");
    CHECK(diag_errors(d) == 1 && !diag_full(d));
    for (int i = 0; i < 30; i++)
        diag_error(d, (SrcRange){0, 0, 1}, "error %d", i);
    CHECK(diag_errors(d) == 20 && diag_full(d));
    CHECK(strstr(capture_text(&c), "error 18\n") != NULL &&
          strstr(capture_text(&c), "error 19\n") == NULL);
    const char *closing = "hftac: too many errors, the rest is not shown\n";
    const char *end = capture_text(&c) + strlen(capture_text(&c)) - strlen(closing);
    CHECK_TEXT(end, closing);
    capture_close(&c);
    capture_open(&c);
    d = diag_with_source(a, &c, &(DiagOptions){.no_warnings = true});
    diag_warn(d, (SrcRange){0, 0, 1}, "silent");
    diag_note(d, (SrcRange){0, 0, 1}, "silent too");
    CHECK_TEXT(capture_text(&c), "");
    capture_close(&c);
    static const char *const words[] = {"relu", "linear", "dropout", "softmax"};
    CHECK_TEXT(diag_closest("liner", words, 4), "linear");
    CHECK_TEXT(diag_closest("dropuot", words, 4), "dropout");
    CHECK_TEXT(diag_closest("softmx", words, 4), "softmax");
    CHECK(diag_closest("tanh", words, 4) == NULL && diag_closest("", words, 4) == NULL);
    CHECK(diag_closest("x", words, 4) == NULL);
    arena_free(a);
}

static double eval2(ScalarFn f, DType t, double x, double y)
{
    return scalar_eval(f, t, (double[]){x, y, 0});
}

static void test_scalars(void)
{
    CHECK(eval2(SC_FDIV, DT_I64, -7, 2) == -4 && eval2(SC_MOD, DT_I64, -7, 2) == 1);
    CHECK(eval2(SC_FDIV, DT_I64, 7, 0) == 0 && eval2(SC_MOD, DT_I64, 7, 0) == 0 &&
          eval2(SC_DIV, DT_I64, 7, 0) == 0);
    CHECK(eval2(SC_MOD, DT_F64, -7, 2) == 1 && eval2(SC_MOD, DT_F64, 7, -2) == -1);
    CHECK(eval2(SC_FDIV, DT_F64, 1, 0.1) == 9 && eval2(SC_FDIV, DT_F64, -7, 2) == -4);
    CHECK(eval2(SC_FDIV, DT_F64, 1, 0) == INFINITY);
    CHECK(isnan(eval2(SC_MAX, DT_F32, NAN, 1)) && isnan(eval2(SC_MIN, DT_F32, 1, NAN)));
    CHECK(eval2(SC_POW, DT_I64, 3, 4) == 81 && eval2(SC_POW, DT_I64, 2, -1) == 0);
    CHECK(eval2(SC_POW, DT_I64, -1, -3) == -1);
    CHECK(eval2(SC_AND, DT_BOOL, 1, 0) == 0 && eval2(SC_OR, DT_BOOL, 1, 0) == 1);
    CHECK(scalar_eval(SC_WHERE, DT_F32, (double[]){0, 1, 2}) == 2);
    CHECK(isnan(scalar_eval(SC_RELU, DT_F32, (double[]){NAN})) &&
          scalar_eval(SC_RELU, DT_F32, (double[]){-1}) == 0);
    CHECK(scalar_eval(SC_ISFINITE, DT_F32, (double[]){INFINITY}) == 0);
    CHECK(scalar_eval(SC_FMA, DT_F64, (double[]){2, 3, 4}) == 10 &&
          scalar_eval(SC_SIGMOID, DT_F64, (double[]){0}) == 0.5);
    CHECK(scalar_round(DT_F32, 0.1) == (double)0.1f && scalar_round(DT_I64, -2.9) == -2);
    CHECK(scalar_round(DT_U8, 300) == 44 && scalar_round(DT_BOOL, 0.5) == 1 &&
          scalar_round(DT_I32, NAN) == 0);
    CHECK(scalar_round(DT_I32, 4294967295.0) == -1);
}

int main(void)
{
    test_arena_and_text();
    test_types();
    test_table();
    test_elementwise();
    test_reshape_marks();
    test_views();
    test_reductions();
    test_einsum();
    test_indexed();
    test_graph();
    test_print_and_read();
    test_fused();
    test_refusals();
    test_roles();
    test_damage();
    test_verify();
    test_diag();
    test_diag_limits();
    test_scalars();
    printf("test_ir: %d checks, %d failed\n", n_checks, n_failed);
    return n_failed != 0;
}
