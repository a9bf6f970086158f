/* Evaluating a node at an index, as C text.  The same walk as the CPU back end's, one lane at a time. */
#include "codegen/cuda/cuda.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cuda_type(DType t)
{
    static const char *const names[DT_COUNT] = {
        [DT_BOOL] = "bool", [DT_U8] = "u8", [DT_I32] = "i32", [DT_I64] = "i64", [DT_F32] = "float", [DT_F64] = "double",
    };
    return names[t];
}

void cuda_push(Cuda *c, const char *head)
{
    CudaLevel *l = arena_alloc(c->arena, sizeof *l);
    *l = (CudaLevel){.up = c->level, .head = head, .depth = c->level ? c->level->depth + 1 : 1};
    text_init(&l->text, c->arena);
    c->level = l;
}

void cuda_pop(Cuda *c)
{
    CudaLevel *l = c->level;
    c->level = l->up;
    while (c->memo && c->memo->level == l)
        c->memo = c->memo->next;
    for (CudaMemo *m = c->memo; m && m->next;)
        if (m->next->level == l)
            m->next = m->next->next;
        else
            m = m->next;
    cuda_line(c, c->level, "%s", l->head);
    text_addn(&c->level->text, l->text.s, l->text.len);
    cuda_line(c, c->level, "}");
}

void cuda_line(Cuda *c, CudaLevel *at, const char *fmt, ...)
{
    char line[4096];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof line)
        diag_internal(NULL, "a line of CUDA text is over %zu characters", sizeof line);
    text_printf(&at->text, "%*s%s\n", 4 * at->depth, "", line);
    (void)c;
}

void cuda_begin(Cuda *c, const Kernel *k)
{
    c->kernel = k;
    c->product = NULL;
    c->memo = NULL;
    c->level = NULL;
    c->n_values = 0;
    index_space_init(&c->space, c->arena, 1);
    c->var_cap = 0;
    c->var_text = NULL;
    c->var_level = NULL;
}

static void remember_var(Cuda *c, int var, const char *text, CudaLevel *level)
{
    if (var >= c->var_cap) {
        const int cap = 2 * var + 16;
        const char **t = arena_array(c->arena, (size_t)cap, sizeof *t);
        CudaLevel **l = arena_array(c->arena, (size_t)cap, sizeof *l);
        for (int i = 0; i < c->var_cap; i++) {
            t[i] = c->var_text[i];
            l[i] = c->var_level[i];
        }
        c->var_text = t;
        c->var_level = l;
        c->var_cap = cap;
    }
    c->var_text[var] = text;
    c->var_level[var] = level;
}

int cuda_var(Cuda *c, const char *text, int64_t count, CudaLevel *level)
{
    const int v = index_var(&c->space, INDEX_VAR_LOOP, 0, count - 1, false);
    remember_var(c, v, text, level);
    return v;
}

static CudaLevel *deeper(CudaLevel *a, CudaLevel *b)
{
    return !a || (b && b->depth > a->depth) ? b : a;
}

static CudaLevel *root_level(Cuda *c)
{
    CudaLevel *l = c->level;
    while (l->up)
        l = l->up;
    return l;
}

static const char *affine_text(Cuda *c, const Affine *a);

/* Quotients and remainders are made when first needed, where their form is known. */
static void need_var(Cuda *c, int v)
{
    const IndexVar *var = &c->space.var[v];
    if (v == INDEX_LANE || (v < c->var_cap && c->var_text[v] && c->var_level[v]))
        return;
    CudaLevel *at = root_level(c);
    for (int i = 0; i < var->of.n; i++) {
        need_var(c, var->of.term[i].var);
        at = deeper(at, c->var_level[var->of.term[i].var]);
    }
    const char *name = arena_printf(c->arena, "q%d", v);
    cuda_line(c, at, "const i64 %s = (%s) %s %lld;", name, affine_text(c, &var->of), var->kind == INDEX_VAR_DIV ? "/" : "%",
              (long long)var->by);
    remember_var(c, v, name, at);
}

static CudaLevel *level_of(Cuda *c, const Affine *a)
{
    CudaLevel *at = root_level(c);
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var != INDEX_LANE) {
            need_var(c, a->term[i].var);
            at = deeper(at, c->var_level[a->term[i].var]);
        }
    return at;
}

static CudaLevel *level_of_index(Cuda *c, const Index *i)
{
    CudaLevel *at = root_level(c);
    for (int k = 0; k < i->rank; k++)
        at = deeper(at, level_of(c, &i->at[k]));
    return at;
}

static const char *affine_text(Cuda *c, const Affine *a)
{
    Text t;
    text_init(&t, c->arena);
    text_add(&t, "");
    for (int i = 0; i < a->n; i++) {
        const IndexTerm *term = &a->term[i];
        if (term->var == INDEX_LANE)
            continue;
        need_var(c, term->var);
        if (t.len)
            text_add(&t, " + ");
        if (term->coef != 1)
            text_printf(&t, "%lld * ", (long long)term->coef);
        text_add(&t, c->var_text[term->var]);
    }
    if (a->base || !t.len)
        text_printf(&t, "%s%lld", t.len ? " + " : "", (long long)a->base);
    return t.s;
}

const char *cuda_table_name(const Cuda *c, const Buffer *b)
{
    char *s = arena_printf(c->arena, "%s_%s", c->top->graph->name, b->name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    return s;
}

static const char *buffer_text(Cuda *c, const Buffer *b);

/* A place that the rounds of a loop move or swap; the numbers of the rounds are the kernel's parameters. */
static const char *part_text(Cuda *c, const Buffer *b, const char *type)
{
    const char *base = buffer_text(c, b->base);
    if (b->turn)
        base = arena_printf(c->arena, "(round%d & 1 ? (u8 *)(%s) : (u8 *)(%s))",
                            b->depth, buffer_text(c, b->turn), base);
    const char *step =
        b->step ? arena_printf(c->arena, " + round%d * %lldLL", b->depth, (long long)b->step) : "";
    return arena_printf(c->arena, "(%s *)((u8 *)(%s) + %lld%s)", type, base, (long long)b->shift,
                        step);
}

/* Element 0 of a buffer for model `b`, as an expression of the element's pointer type.  GPU scratch is per model. */
static const char *buffer_text(Cuda *c, const Buffer *b)
{
    static const char *const base[] = {
        [BUF_STATE] = "f.state", [BUF_SHARED] = "f.shared", [BUF_SCRATCH] = "f.scratch",
    };
    const char *type = b->dtype == DT_BOOL ? "u8" : cuda_type(b->dtype);
    const long long model = b->per_model ? (long long)b->model_bytes : 0;
    if (b->base)
        return part_text(c, b, type);
    switch (b->space) {
    case BUF_STATE:
        return arena_printf(c->arena, "(%s *)(%s + b * %lld + %lld)", type, base[b->space], model, (long long)b->offset);
    case BUF_SCRATCH:
        return arena_printf(c->arena, "(%s *)(%s + b * %lld + %lld)", type, base[b->space], (long long)c->top->scratch_bytes,
                            (long long)b->offset);
    case BUF_SHARED:
        return arena_printf(c->arena, "(%s *)(%s + %lld)", type, base[b->space], (long long)b->offset);
    case BUF_INPUT:
        return arena_printf(c->arena, "(const %s *)((const u8 *)f.inputs[%d] + b * %lld)", type, b->index, model);
    case BUF_OUTPUT:
        return arena_printf(c->arena, "(%s *)((u8 *)f.outputs[%d] + b * %lld)", type, b->index, model);
    case BUF_HYPER:
        return arena_printf(c->arena, "(f.hypers + b * %d + %d)", c->plan->module->n_hypers, b->index);
    case BUF_SCALAR:
        return arena_printf(c->arena, "(f.scalars + %d)", b->index);
    case BUF_SEED:
        return "((const i64 *)f.seeds + b)";
    case BUF_RESULT:
        return arena_printf(c->arena, "(f.results + b * %d + %d)", c->plan->n_results, b->index);
    case BUF_CONST:
        return cuda_table_name(c, b);
    }
    diag_internal(NULL, "unknown buffer space");
}

static const char *element_text(Cuda *c, const Buffer *b, const Shape *shape, const Index *i)
{
    const Affine at = index_offset(&c->space, shape, b->stride, i);
    return arena_printf(c->arena, "(%s)[%s]", buffer_text(c, b), affine_text(c, &at));
}

static const char *number_text(Arena *a, DType t, double v)
{
    if (dtype_class(t) != DTC_REAL)
        return arena_printf(a, t == DT_I64 ? "%lldLL" : "%lld", (long long)v);
    if (isnan(v))
        return t == DT_F32 ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000LL)";
    if (isinf(v))
        return arena_printf(a, t == DT_F32 ? "__int_as_float(0x%sf800000)" : "__longlong_as_double(0x%sff0000000000000LL)",
                            v < 0 ? "f" : "7");
    return arena_printf(a, t == DT_F32 ? "(float)%.17g" : "(double)%.17g", v);
}

static const char *name_value(Cuda *c, CudaLevel *at, DType t, const char *expression)
{
    const char *name = arena_printf(c->arena, "v%d", c->n_values++);
    cuda_line(c, at, "const %s %s = %s;", cuda_type(t), name, expression);
    return name;
}

static const char *find_memo(const Cuda *c, const Node *n, const Index *i)
{
    for (const CudaMemo *m = c->memo; m; m = m->next)
        if (m->node == n && index_equal(&m->index, i))
            return m->value;
    return NULL;
}

static bool stored_here(const Cuda *c, const Node *n)
{
    for (int i = 0; i < c->kernel->n_stores; i++)
        if (c->kernel->stores[i].value == n)
            return true;
    return n == c->kernel->contract;
}

static uint64_t path_hash(const char *path)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return h;
}

static const char *eval_index(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    (void)at;
    const int kind = op_info(n->op)->data;
    if (kind == INDEX_IOTA)
        return affine_text(c, &i->at[n->attrs.iota.dim]);
    if (kind == INDEX_RANDOM) {
        const Index none = {0};
        const Affine flat = index_flatten(&c->space, &n->type.shape, i);
        const char *seed = cuda_eval(c, n->in[0], &none), *step = cuda_eval(c, n->in[1], &none);
        return arena_printf(c->arena, "hf_philox((u64)%s, (u64)%s, 0x%llxull, (u64)(%s))", seed, step,
                            (unsigned long long)path_hash(n->attrs.random.path), affine_text(c, &flat));
    }
    if (kind == INDEX_GATHER) {
        const Shape *from = &n->in[0]->type.shape;
        const int64_t dim = n->attrs.axis.dim, extent = from->dim[dim];
        const char *at_text = cuda_eval(c, n->in[1], i);
        CudaLevel *level = level_of_index(c, i);
        const char *clamped = name_value(c, level, DT_I64, arena_printf(c->arena, "hf_max(0LL, hf_min((i64)%s, %lldLL))", at_text,
                                                                         (long long)extent - 1));
        const int v = index_var(&c->space, INDEX_VAR_VALUE, 0, extent - 1, false);
        remember_var(c, v, clamped, level);
        Index j = *i;
        j.at[dim] = affine_var(v);
        return cuda_eval(c, n->in[0], &j);
    }
    diag_internal(NULL, "the CUDA back end cannot print '%s' yet", op_info(n->op)->text);
}

static const char *const red_start[] = {[RED_SUM] = "0", [RED_MAX] = "-1", [RED_MIN] = "1", [RED_ARGMAX] = "-1"};

/* A loop over the reduced axes at the level where the result is known; one chain in ascending order. */
static const char *eval_reduce(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const int red = op_info(n->op)->data;
    const Node *x = n->in[0];
    const IntList *dims = &n->attrs.axes.dims;
    const bool arg = red == RED_ARGMAX;
    const DType t = x->type.dtype;
    const char *acc = arena_printf(c->arena, "r%d", c->n_values++);
    CudaLevel *back = c->level;
    c->level = at;
    cuda_line(c, at, "%s %s = (%s)%s;", cuda_type(t), acc, cuda_type(t), red_start[red]);
    cuda_line(c, at, "bool %s_any = false;", acc);
    if (arg)
        cuda_line(c, at, "i64 %s_at = 0;", acc);
    Index j = {.rank = x->type.shape.rank};
    int last = -1;
    for (int k = 0, o = 0; k < j.rank; k++) {
        bool reduced = false;
        for (int d = 0; d < dims->n; d++)
            reduced |= dims->v[d] == k;
        if (reduced) {
            const int64_t count = x->type.shape.dim[k];
            const char *name = arena_printf(c->arena, "k%d", c->n_values++);
            cuda_push(c, arena_printf(c->arena, "for (i64 %s = 0; %s < %lld; %s++) {", name, name, (long long)count, name));
            j.at[k] = affine_var(last = cuda_var(c, name, count, c->level));
            o += n->attrs.axes.keepdim;
        } else {
            j.at[k] = i->at[o++];
        }
    }
    const char *v = cuda_eval(c, x, &j);
    if (red == RED_SUM)
        cuda_line(c, c->level, "%s += %s;", acc, v);
    else if (arg)
        cuda_line(c, c->level, "if (!%s_any || %s > %s || (%s != %s && %s == %s)) { %s = %s; %s_at = %s; }", acc, v, acc, v, v, acc, acc, acc,
                  v, acc, last < 0 ? "0" : c->var_text[last]);
    else
        cuda_line(c, c->level, "%s = %s_any ? hf_%s(%s, %s) : %s;", acc, acc, red == RED_MAX ? "max" : "min", acc, v, v);
    cuda_line(c, c->level, "%s_any = true;", acc);
    for (int d = 0; d < dims->n; d++)
        cuda_pop(c);
    c->level = back;
    return arg ? arena_printf(c->arena, "%s_at", acc) : acc;
}

static const char *eval_new(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const OpInfo *info = op_info(n->op);
    switch (info->kind) {
    case KIND_LEAF:
        if (info->data == LEAF_CONST && n->attrs.value.data.n == 1)
            return number_text(c->arena, n->type.dtype, n->attrs.value.data.v[0]);
        break;
    case KIND_EXPR: {
        const char *x[3] = {0};
        for (int k = 0; k < n->n_in; k++) {
            const Index j = index_broadcast(&n->in[k]->type.shape, i);
            x[k] = cuda_eval(c, n->in[k], &j);
        }
        return name_value(c, at, n->type.dtype, cuda_scalar(c->arena, (ScalarFn)info->data, n->type.dtype, x));
    }
    case KIND_VIEW: {
        const Index j = index_view(&c->space, n, i);
        return cuda_eval(c, n->in[0], &j);
    }
    case KIND_INDEX:
        return name_value(c, level_of_index(c, i), n->type.dtype, eval_index(c, n, i, at));
    case KIND_REDUCE:
        return eval_reduce(c, n, i, at);
    default:
        break;
    }
    diag_internal(NULL, "the CUDA back end cannot evaluate %%%s (%s) here", n->name, info->text);
}

const char *cuda_eval(Cuda *c, const Node *n, const Index *i)
{
    const char *known = find_memo(c, n, i);
    if (known)
        return known;
    CudaLevel *at = level_of_index(c, i);
    const Buffer *b = c->entry->buffer[n->id];
    if (n == c->kernel->contract)
        b = c->product;
    const char *value;
    if (b && (!stored_here(c, n) || n == c->kernel->contract))
        value = name_value(c, at, n->type.dtype, element_text(c, b, &n->type.shape, i));
    else
        value = eval_new(c, n, i, at);
    CudaMemo *m = arena_alloc(c->arena, sizeof *m);
    *m = (CudaMemo){.next = c->memo, .node = n, .index = *i, .value = value, .level = at};
    c->memo = m;
    return value;
}

void cuda_store(Cuda *c, const Store *s, const Index *i)
{
    const char *v = cuda_eval(c, s->value, i);
    cuda_line(c, level_of_index(c, i), "%s = (%s)%s;", element_text(c, s->to, &s->value->type.shape, i),
              s->to->dtype == DT_BOOL ? "u8" : cuda_type(s->to->dtype), v);
}
