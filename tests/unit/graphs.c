/* Small modules for the unit tests of passes; see graphs.h.  Modules are built with ir/build.h, and
 * evaluated by the plain loops of ref.c. */
#include "tests/unit/graphs.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/verify.h"

static int failures, checks;

void check_that(bool ok, const char *file, int line, const char *fmt, ...)
{
    checks++;
    if (ok)
        return;
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "FAIL %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    failures++;
}

int check_status(void)
{
    printf("%d checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}

void lab_open(Lab *l, EntryKind entry)
{
    *l = (Lab){.arena = arena_new()};
    l->out = open_memstream(&l->messages, &l->messages_len);
    l->diag = diag_new(l->arena, &(DiagOptions){.out = l->out});
    l->module = module_new(l->arena, l->diag, "Lab");
    l->graph = graph_new(l->module, entry);
    l->b = (Builder){.graph = l->graph, .loc = SRC_NONE};
}

void lab_close(Lab *l)
{
    fclose(l->out);
    free(l->messages);
    arena_free(l->arena);
}

void lab_bind(Lab *l, OpCode op, const char *name, const double *data, int64_t count)
{
    if (l->n_bindings == MAX_VALUES) {
        fprintf(stderr, "too many values in a lab\n");
        exit(1);
    }
    double *copy = arena_array(l->arena, (size_t)count, sizeof *copy);
    memcpy(copy, data, (size_t)count * sizeof *copy);
    l->bindings[l->n_bindings++] = (RefBinding){op, name, copy};
}

double *lab_data(const Lab *l, const char *name)
{
    for (int i = 0; i < l->n_bindings; i++)
        if (!strcmp(l->bindings[i].name, name)) {
            union {
                const double *in;
                double *out;
            } own = {.in = l->bindings[i].data}; /* lab_bind's copy */
            return own.out;
        }
    return NULL;
}

Node *lab_state(Lab *l, const char *name, StateRole role, DType t, Shape shape, double lo,
                double hi)
{
    const int64_t count = shape_count(&shape);
    double *v = arena_array(l->arena, (size_t)count, sizeof *v);
    for (int64_t i = 0; i < count; i++) {
        const double golden = 0.6180339887498949 * (double)(i + 1 + 7 * l->n_bindings);
        v[i] = lo + (hi - lo) * (golden - floor(golden));
    }
    module_add_state(
        l->module, &(State){.name = name, .role = role, .type = {.dtype = t, .shape = shape}});
    lab_bind(l, OP_STATE, name, v, count);
    return build_state(&l->b, name);
}

Node *lab_input(Lab *l, const char *name, DType t, Shape shape, const double *data)
{
    module_add_input(l->module, &(Input){.name = name, .type = {.dtype = t, .shape = shape}});
    lab_bind(l, OP_INPUT, name, data, shape_count(&shape));
    return build_input(&l->b, name);
}

void lab_output(Lab *l, OutputKind kind, const char *name, Node *value)
{
    graph_add_output(l->graph, &(Output){.kind = kind, .name = name, .value = value});
}

Node *lab_grad(Lab *l, Node *loss, Node *x)
{
    l->b.hint = arena_printf(l->arena, "%s.grad", x->name);
    Node *g = build2(&l->b, OP_GRAD, loss, x);
    l->b.hint = NULL;
    return g;
}

double **lab_evaluate(Lab *l, const char *after)
{
    module_verify(l->module, after);
    return ref_evaluate(
        l->arena, l->graph,
        &(RefWorld){.bindings = l->bindings, .n_bindings = l->n_bindings, .seed = 11});
}

double lab_error(const Lab *l, double *const *values, const char *output,
                 const double *expected, int64_t count)
{
    int64_t n = 0;
    const double *v = ref_output(l->graph, values, output, &n);
    double worst = 0;
    if (!v || n != count)
        return INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs(v[i] - expected[i]) / (1 + fabs(expected[i]));
        if (v[i] == expected[i] || (isnan(v[i]) && isnan(expected[i])))
            continue;
        worst = e >= worst || isnan(e) ? (isnan(e) ? INFINITY : e) : worst;
    }
    return worst;
}

int lab_count(const Lab *l, OpCode op)
{
    int n = 0;
    graph_foreach (l->graph, x)
        n += x->op == op;
    return n;
}

Shape shape1(int64_t a)
{
    return shape_of(1, (const int64_t[]){a});
}

Shape shape2(int64_t a, int64_t b)
{
    return shape_of(2, (const int64_t[]){a, b});
}

Shape shape3(int64_t a, int64_t b, int64_t c)
{
    return shape_of(3, (const int64_t[]){a, b, c});
}

Shape shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return shape_of(4, (const int64_t[]){a, b, c, d});
}
