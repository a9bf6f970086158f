/* Levels of text, index variables and what is known at them. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/cuda.h"

struct CudaMemo {
    CudaMemo *next;
    const Node *node;
    Index index;
    const char *value;
    CudaLevel *level;
};

struct CudaVar {
    const char *text; /* NULL: not written yet */
    CudaLevel *level; /* NULL: not looked for yet */
    unsigned axes;
};

void cuda_begin(Cuda *c, const Kernel *k)
{
    c->kernel = k;
    c->product = NULL;
    c->memo = NULL;
    c->level = NULL;
    c->threads = 0;
    c->n_values = 0;
    c->trace.n_reductions = c->trace.n_loads = 0;
    index_space_init(&c->space, c->arena, 1);
    c->var_cap = 0;
    c->var = NULL;
}

void cuda_push(Cuda *c, bool uniform, const char *head)
{
    CudaLevel *l = arena_alloc(c->arena, sizeof *l);
    *l = (CudaLevel){.up = c->level,
                     .head = head,
                     .depth = c->level ? c->level->depth + 1 : 1,
                     .uniform = uniform};
    text_init(&l->text, c->arena);
    c->level = l;
}

static void forget(Cuda *c, const CudaLevel *l)
{
    CudaMemo **at = &c->memo;
    while (*at)
        if ((*at)->level == l)
            *at = (*at)->next;
        else
            at = &(*at)->next;
}

void cuda_pop(Cuda *c)
{
    CudaLevel *l = c->level;
    c->level = l->up;
    forget(c, l);
    cuda_line(c, c->level, "%s", l->head);
    text_addn(&c->level->text, l->text.s, l->text.len);
    cuda_line(c, c->level, "}");
}

void cuda_line(Cuda *c, CudaLevel *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *line = arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    text_printf(&at->text, "%*s", 4 * at->depth, "");
    text_add(&at->text, line);
    text_add(&at->text, "\n");
}

static CudaVar *slot(Cuda *c, int var)
{
    if (var >= c->var_cap) {
        const int cap = 2 * var + 16;
        CudaVar *v = arena_array(c->arena, (size_t)cap, sizeof *v);
        for (int i = 0; i < c->var_cap; i++)
            v[i] = c->var[i];
        c->var = v;
        c->var_cap = cap;
    }
    return &c->var[var];
}

int cuda_var(Cuda *c, AffineVarKind kind, const char *text, int64_t count, CudaLevel *level,
             unsigned axes)
{
    const int v = index_var(&c->space, kind, 0, count - 1, false);
    *slot(c, v) = (CudaVar){.text = text, .level = level, .axes = axes};
    return v;
}

static CudaLevel *deeper(CudaLevel *a, CudaLevel *b)
{
    return !a || (b && b->depth > a->depth) ? b : a;
}

static CudaLevel *root_level(const Cuda *c)
{
    CudaLevel *l = c->level;
    while (l->up)
        l = l->up;
    return l;
}

int cuda_bounded(Cuda *c, const Affine *a, int64_t count)
{
    const Index i = {.rank = 1, .at = {*a}};
    const unsigned axes = cuda_axes_of(c, &i);
    const int v = index_var(&c->space, AFFINE_VAR_DIV, 0, count - 1, false);
    c->space.var[v].of = *a;
    c->space.var[v].by = 1;
    *slot(c, v) = (CudaVar){.level = c->level, .axes = axes};
    return v;
}

/* Where a variable can be known at the earliest, and the axes it depends on: of a quotient or
 * remainder from its form. */
static const CudaVar *know_var(Cuda *c, int v)
{
    if (slot(c, v)->level)
        return slot(c, v);
    const Affine of = c->space.var[v].of;
    CudaLevel *at = root_level(c);
    unsigned axes = 0;
    for (int i = 0; i < of.n; i++) {
        const CudaVar *part = know_var(c, of.term[i].var);
        at = deeper(at, part->level);
        axes |= part->axes;
    }
    *slot(c, v) = (CudaVar){.level = at, .axes = axes};
    return slot(c, v);
}

/* Quotients and remainders get a name when they are first written. */
static const char *var_text(Cuda *c, int v)
{
    CudaLevel *at = know_var(c, v)->level;
    if (slot(c, v)->text)
        return slot(c, v)->text;
    const AffineVar var = c->space.var[v];
    const char *of = cuda_affine(c, &var.of), *name = arena_printf(c->arena, "q%d", v);
    if (var.by == 1)
        cuda_line(c, at, "const i64 %s = %s;", name, of);
    else
        cuda_line(c, at, "const i64 %s = (%s) %s %lld;", name, of,
                  var.kind == AFFINE_VAR_DIV ? "/" : "%", (long long)var.by);
    slot(c, v)->text = name;
    return name;
}

CudaLevel *cuda_level_of(Cuda *c, const Index *i)
{
    CudaLevel *at = root_level(c);
    for (int k = 0; k < i->rank; k++)
        for (int t = 0; t < i->at[k].n; t++)
            if (i->at[k].term[t].var != AFFINE_LANE)
                at = deeper(at, know_var(c, i->at[k].term[t].var)->level);
    return at;
}

unsigned cuda_axes_of(Cuda *c, const Index *i)
{
    unsigned axes = 0;
    for (int k = 0; k < i->rank; k++)
        for (int t = 0; t < i->at[k].n; t++)
            if (i->at[k].term[t].var != AFFINE_LANE)
                axes |= know_var(c, i->at[k].term[t].var)->axes;
    return axes;
}

const char *cuda_affine(Cuda *c, const Affine *a)
{
    Text t;
    text_init(&t, c->arena);
    text_add(&t, "");
    for (int i = 0; i < a->n; i++) {
        const AffineTerm *term = &a->term[i];
        if (term->var == AFFINE_LANE)
            continue;
        const char *name = var_text(c, term->var);
        if (t.len)
            text_add(&t, " + ");
        if (term->coef != 1)
            text_printf(&t, "%lld * ", (long long)term->coef);
        text_add(&t, name);
    }
    if (a->base || !t.len)
        text_printf(&t, "%s%lld", t.len ? " + " : "", (long long)a->base);
    return t.s;
}

const char *cuda_name(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    return s;
}

const char *cuda_find(const Cuda *c, const Node *n, const Index *i)
{
    for (const CudaMemo *m = c->memo; m; m = m->next)
        if (m->node == n && index_equal(&m->index, i))
            return m->value;
    return NULL;
}

void cuda_remember(Cuda *c, const Node *n, const Index *i, const char *value)
{
    CudaMemo *m = arena_alloc(c->arena, sizeof *m);
    *m = (CudaMemo){
        .next = c->memo, .node = n, .index = *i, .value = value, .level = cuda_level_of(c, i)};
    c->memo = m;
}
