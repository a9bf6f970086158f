/* The reader of .hir: one pass over the text, a line at a time, with a cursor.
 *
 * It trusts nothing: names must be declared, types are inferred again and compared with what is
 * written, and the whole is verified at the end.  It stops at the first mistake. */
#include "ir/read.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/read_text.h"
#include "ir/shape.h"
#include "ir/verify.h"

enum {
    MAX_MODELS = 1 << 20,
    MAX_LOOP_DEPTH = 16
};

static bool read_role(const char *word, StateRole *role)
{
    for (int r = 0; r < N_ROLES; r++)
        if (strcmp(word, state_role_text((StateRole)r)) == 0) {
            *role = (StateRole)r;
            return true;
        }
    return false;
}

/* One axis: 32, or 32*3 for a batch axis of 32 samples with 3 elements each, or 96*? for one that
 * depends on the batch in another way; *marked tells which. */
static bool read_axis(Reader *r, Shape *s, bool *marked)
{
    int64_t n, k = 0;
    *marked = false;
    if (s->rank == MAX_RANK)
        return reader_fail(r, "a tensor has at most %d axes", MAX_RANK);
    if (!reader_int(r, &n))
        return false;
    if (reader_accept(r, "*")) {
        *marked = true;
        if (reader_accept(r, "?"))
            k = BATCH_MIXED;
        else if (!reader_int(r, &k))
            return false;
    }
    if (n < 1 || k < BATCH_MIXED || (k > 0 && n > INT64_MAX / k))
        return reader_fail(r, "no extent of an axis");
    s->dim[s->rank] = k > 0 ? n * k : n;
    s->batch[s->rank++] = k;
    return true;
}

/* "8 |" or "2..8 |" if the bracket begins so. */
static bool read_interval(Reader *r, Interval *out)
{
    const size_t start = r->pos;
    int64_t lo = 0, hi;
    if (!reader_peek_digit(r) || !reader_int(r, &hi)) {
        r->pos = start;
        return !r->failed;
    }
    if (reader_accept(r, "..")) {
        lo = hi;
        if (!reader_int(r, &hi))
            return false;
    }
    if (!reader_accept(r, "|")) {
        r->pos = start;
        return lo == 0 || reader_fail(r, "expected an interval of models and '|'");
    }
    if (lo < 0 || hi <= lo || hi > MAX_MODELS)
        return reader_fail(r, "no interval of models");
    *out = (Interval){(int)lo, (int)hi};
    return true;
}

/* marked[i]: axis i was written with a batch mark. */
static bool read_type(Reader *r, Type *t, bool *marked)
{
    const char *word;
    *t = (Type){0};
    if (!reader_word(r, "an element type", &word))
        return false;
    t->dtype = dtype_find(word);
    if (t->dtype == DT_COUNT)
        return reader_fail(r, "'%s' is no element type", word);
    if (!reader_expect(r, "[") || !read_interval(r, &t->models))
        return false;
    if (reader_accept(r, "]"))
        return true;
    do {
        if (!read_axis(r, &t->shape, &marked[t->shape.rank < MAX_RANK ? t->shape.rank : 0]))
            return false;
    } while (reader_accept(r, ","));
    return reader_expect(r, "]");
}

static bool read_declared_type(Reader *r, Type *t)
{
    bool marked[MAX_RANK];
    if (!reader_expect(r, ":") || !read_type(r, t, marked))
        return false;
    if (t->shape.rank > MAX_STORED_RANK)
        return reader_fail(r, "more than %d axes", MAX_STORED_RANK);
    int64_t count = 1;
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.dim[i] > (INT64_C(1) << 44) / count)
            return reader_fail(r, "the tensor is too large");
        count *= t->shape.dim[i];
    }
    return true;
}

static bool read_setting(Reader *r, int64_t limit, int64_t *out)
{
    if (!reader_int(r, out))
        return false;
    return (*out >= 0 && *out <= limit) || reader_fail(r, "the number is out of range");
}

static bool read_header(Reader *r, Module **out)
{
    const char *name, *word;
    int64_t v;
    if (!reader_expect(r, "hir") || !reader_int(r, &v))
        return false;
    if (v != 1)
        return reader_fail(r, "version %lld of .hir is not known, only 1", (long long)v);
    if (!reader_line_end(r) || !reader_expect(r, "module") || !reader_string(r, &name))
        return false;
    Module *m = module_new(r->arena, r->diag, name);
    while (!reader_at_line_end(r)) {
        if (!reader_word(r, "a setting", &word) || !reader_expect(r, "="))
            return false;
        if (strcmp(word, "stage") == 0) {
            if (!reader_word(r, "a stage", &word))
                return false;
            m->stage = module_stage_find(word);
            if (m->stage == N_MODULE_STAGES)
                return reader_fail(r, "'%s' is no stage of a module", word);
        } else if (strcmp(word, "models") == 0) {
            if (!read_setting(r, MAX_MODELS, &v))
                return false;
            m->n_models = (int)v;
        } else if (strcmp(word, "batch") == 0) {
            if (!read_setting(r, INT32_MAX, &m->batch))
                return false;
        } else if (strcmp(word, "epochs") == 0) {
            if (!read_setting(r, INT64_MAX, &m->epochs))
                return false;
        } else {
            return reader_fail(r, "no setting '%s' of a module", word);
        }
    }
    *out = m;
    return reader_line_end(r);
}

static bool read_input(Reader *r, Module *m, bool target)
{
    Input i = {.target = target, .loc = reader_line_range(r)};
    if (!reader_string(r, &i.name))
        return false;
    if (module_input(m, i.name))
        return reader_fail(r, "input \"%s\" is declared twice", i.name);
    if (m->n_inputs == MAX_INPUTS)
        return reader_fail(r, "more than %d inputs", MAX_INPUTS);
    i.each = reader_accept_word(r, "each");
    i.drawn = reader_accept_word(r, "drawn");
    if (!read_declared_type(r, &i.type))
        return false;
    module_add_input(m, &i);
    return reader_line_end(r);
}

static bool read_range(Reader *r, Hyper *h, const char *close)
{
    if (!reader_real(r, &h->lo) || !reader_expect(r, "..") || !reader_real(r, &h->hi))
        return false;
    if (reader_accept(r, ",") &&
        (!reader_expect(r, "step") || !reader_expect(r, "=") || !reader_real(r, &h->step)))
        return false;
    return reader_expect(r, close);
}

static bool read_set(Reader *r, Hyper *h)
{
    int cap = 0, n = 0;
    double *v = NULL;
    h->domain = DOMAIN_SET;
    if (reader_accept(r, "}"))
        return true;
    do {
        if (n == cap)
            v = arena_grow(r->arena, v, &cap, sizeof *v);
        if (!reader_real(r, &v[n++]))
            return false;
    } while (reader_accept(r, ","));
    h->set = (RealList){.n = n, .v = v};
    return reader_expect(r, "}");
}

static bool read_domain(Reader *r, Hyper *h)
{
    if (reader_accept(r, "{"))
        return read_set(r, h);
    h->domain = reader_accept_word(r, "log")   ? DOMAIN_LOG
                : reader_accept_word(r, "int") ? DOMAIN_INT
                                               : DOMAIN_RANGE;
    return reader_expect(r, "(") && read_range(r, h, ")");
}

static bool read_hyper(Reader *r, Module *m)
{
    Hyper h = {.loc = reader_line_range(r)};
    if (!reader_string(r, &h.name))
        return false;
    if (module_hyper(m, h.name))
        return reader_fail(r, "hyper \"%s\" is declared twice", h.name);
    h.integer = reader_accept_word(r, "integer");
    if (!reader_expect(r, "=") || !reader_real(r, &h.value))
        return false;
    if (reader_accept_word(r, "in") && !read_domain(r, &h))
        return false;
    module_add_hyper(m, &h);
    return reader_line_end(r);
}

static bool read_layout(Reader *r, State *s)
{
    const char *value;
    Attrs list;
    attrs_default(ATTR_perm, &list);
    if (!reader_accept_word(r, "layout"))
        return true;
    if (!reader_expect(r, "=") || !reader_value(r, &value))
        return false;
    unsigned seen = 0;
    bool ok = attrs_read(r->arena, ATTR_perm, &list, "dims", value) &&
              list.perm.dims.n == s->type.shape.rank;
    for (int i = 0; ok && i < list.perm.dims.n; i++) {
        const int64_t d = list.perm.dims.v[i];
        ok = d >= 0 && d < list.perm.dims.n && !(seen >> d & 1);
        seen |= ok ? 1u << d : 0;
    }
    s->layout = list.perm.dims;
    return ok || reader_fail(r, "layout is no permutation of the state's axes");
}

static bool read_state(Reader *r, Module *m, StateRole role)
{
    State s = {.role = role, .loc = reader_line_range(r)};
    if (!reader_string(r, &s.name))
        return false;
    if (module_state(m, s.name))
        return reader_fail(r, "state \"%s\" is declared twice", s.name);
    if (reader_accept_word(r, "of") && !reader_string(r, &s.parameter))
        return false;
    if (!read_declared_type(r, &s.type) || !read_layout(r, &s))
        return false;
    module_add_state(m, &s);
    return reader_line_end(r);
}

static bool read_node_name(Reader *r, const char **out)
{
    return reader_expect(r, "%") && reader_word(r, "a name", out);
}

static bool read_operand(Reader *r, const Graph *g, Node **out)
{
    const char *name;
    if (!read_node_name(r, &name))
        return false;
    *out = graph_find(g, name);
    return *out || reader_fail(r, "%%%s is not defined above", name);
}

static bool read_form(Reader *r, const char *value, Form *out)
{
    for (int f = FORM_SHARED; f <= FORM_WIDE; f++)
        if (strcmp(form_text((Form)f), value) == 0) {
            *out = (Form)f;
            return true;
        }
    return reader_fail(r, "'%s' is no form", value);
}

/* The verifier sees to it that it is a permutation of the axes. */
static bool read_order(Reader *r, const char *value, IntList *out)
{
    Attrs a;
    attrs_default(ATTR_perm, &a);
    if (!attrs_read(r->arena, ATTR_perm, &a, "dims", value))
        return reader_fail(r, "'%s' is no order of axes", value);
    *out = a.perm.dims;
    return true;
}

/* name=value up to the ':' of the type. */
static bool read_node_attrs(Reader *r, Node *n)
{
    const AttrKind kind = op_info(n->op)->attrs;
    const char *field, *value;
    attrs_default(kind, &n->attrs);
    while (!reader_accept(r, ":")) {
        if (!reader_word(r, "an attribute or ':'", &field) || !reader_expect(r, "=") ||
            !reader_value(r, &value))
            return false;
        if (strcmp(field, "form") == 0) {
            if (!read_form(r, value, &n->form))
                return false;
        } else if (strcmp(field, "stored") == 0) {
            if (!read_order(r, value, &n->order))
                return false;
        } else if (!attrs_read(r->arena, kind, &n->attrs, field, value)) {
            return reader_fail(r, "'%s=%s' is no attribute of %s", field, value,
                               op_info(n->op)->text);
        }
    }
    return true;
}

/* Marks of a named leaf are the declaration's; what a line says itself comes first. */
static void leaf_marks(const Module *m, const Node *n, const bool *marked, Shape *s)
{
    const OpInfo *info = op_info(n->op);
    if (info->attrs != ATTR_leaf || !n->attrs.leaf.name)
        return;
    const Input *i = info->data == LEAF_INPUT ? module_input(m, n->attrs.leaf.name) : NULL;
    const State *st = info->data == LEAF_STATE ? module_state(m, n->attrs.leaf.name) : NULL;
    const Shape *declared = i ? &i->type.shape : st ? &st->type.shape : NULL;
    for (int k = 0; declared && k < s->rank && k < declared->rank; k++)
        if (!marked[k])
            s->batch[k] = declared->batch[k];
}

static bool infer_type(Reader *r, const Graph *g, Node *n, const bool *marked)
{
    const ShapeContext c = {
        .arena = r->arena, .diag = r->diag, .loc = n->loc, .samples = g->module->batch};
    Type type = {0};
    if (!op_info(n->op)->shape(&c, n, &type)) {
        r->failed = true;
        return false;
    }
    if (type.dtype != n->type.dtype || !shape_equal(&type.shape, &n->type.shape)) {
        type.models = n->type.models;
        return reader_fail(r, "the type is %s, but %s of these operands gives %s",
                           type_text(r->arena, &n->type), op_info(n->op)->text,
                           type_text(r->arena, &type));
    }
    if (op_info(n->op)->kind == KIND_LEAF)
        leaf_marks(g->module, n, marked, &n->type.shape);
    else
        for (int i = 0; i < type.shape.rank; i++)
            if (!marked[i])
                n->type.shape.batch[i] = type.shape.batch[i];
    return true;
}

static bool read_operands(Reader *r, Graph *g, Node *n)
{
    int cap = 0;
    n->in = NULL;
    if (reader_peek(r, '%'))
        do {
            if (n->n_in == cap)
                n->in = arena_grow(r->arena, n->in, &cap, sizeof(Node *));
            if (!read_operand(r, g, &n->in[n->n_in]))
                return false;
            n->n_in++;
        } while (reader_accept(r, ","));
    const int want = op_info(n->op)->n_in;
    return want < 0 || want == n->n_in ||
           reader_fail(r, "%s takes %d operands, not %d", op_info(n->op)->text, want, n->n_in);
}

static bool read_lines(Reader *r, Graph *g);

/* Inferring the loop's type looks at the body. */
static bool read_body(Reader *r, Graph *g, Node *n)
{
    if (!reader_expect(r, "{") || !reader_line_end(r))
        return false;
    if (g->depth >= MAX_LOOP_DEPTH)
        return reader_fail(r, "loops are nested more than %d deep", MAX_LOOP_DEPTH);
    n->body = loop_body_new(g->module, n->name);
    n->body->depth = g->depth + 1;
    return read_lines(r, n->body);
}

static bool read_node(Reader *r, Graph *g)
{
    Node n = {.loc = reader_line_range(r)};
    bool marked[MAX_RANK] = {false};
    const char *op;
    if (!read_node_name(r, &n.name))
        return false;
    if (graph_find(g, n.name))
        return reader_fail(r, "%%%s is defined twice", n.name);
    if (!reader_expect(r, "=") || !reader_word(r, "an operator", &op))
        return false;
    n.op = op_find(op);
    if (n.op == OP_COUNT_)
        return reader_fail(r, "there is no operator '%s'", op);
    if (!read_operands(r, g, &n) || !read_node_attrs(r, &n) || !read_type(r, &n.type, marked) ||
        (node_is_loop(&n) && !read_body(r, g, &n)) || !infer_type(r, g, &n, marked))
        return false;
    if (n.form == FORM_NONE && g->module->n_models > 0)
        n.form = type_per_model(&n.type) ? FORM_BATCHED : FORM_SHARED;
    Node *made = graph_append(g, &n);
    if (n.body) {
        n.body->owner = made;
        n.body->outer = g;
    }
    return reader_line_end(r);
}

static bool read_fault(Reader *r, const Graph *g, Output *o)
{
    const char *field;
    if (!reader_expect(r, ",") || !read_operand(r, g, &o->value2))
        return false;
    while (!reader_at_line_end(r)) {
        if (!reader_word(r, "an attribute", &field) || !reader_expect(r, "="))
            return false;
        bool ok;
        if (strcmp(field, "input") == 0)
            ok = reader_string(r, &o->input);
        else if (strcmp(field, "lo") == 0)
            ok = reader_int(r, &o->lo);
        else if (strcmp(field, "hi") == 0)
            ok = reader_int(r, &o->hi);
        else if (strcmp(field, "ignore") == 0)
            ok = o->has_ignore = reader_int(r, &o->ignore);
        else
            ok = reader_fail(r, "'%s' is no attribute of fault", field);
        if (!ok)
            return false;
    }
    return true;
}

static bool read_host_type(Reader *r, Output *o)
{
    bool marked[MAX_RANK];
    Type *type = arena_alloc(r->arena, sizeof *type);
    o->host_type = type;
    return reader_expect(r, "as") && read_type(r, type, marked);
}

static bool read_output(Reader *r, Graph *g)
{
    Output o = {.loc = reader_line_range(r)};
    const char *word;
    if (!reader_word(r, "a node, an output or '}'", &word))
        return false;
    int kind = 0;
    while (kind < N_OUTPUT_KINDS && strcmp(output_kind_text((OutputKind)kind), word) != 0)
        kind++;
    if (kind == N_OUTPUT_KINDS)
        return reader_fail(r, "'%s' is no kind of output", word);
    o.kind = (OutputKind)kind;
    if ((o.kind <= OUT_FAULT && !reader_string(r, &o.name)) || !read_operand(r, g, &o.value))
        return false;
    if (o.kind == OUT_FAULT && !read_fault(r, g, &o))
        return false;
    if (o.kind == OUT_STATE && !reader_at_line_end(r)) {
        if (!reader_expect(r, "guarded"))
            return false;
        o.guarded = true;
    }
    if (o.kind == OUT_TENSOR && !reader_at_line_end(r) && !read_host_type(r, &o))
        return false;
    graph_add_output(g, &o);
    return reader_line_end(r);
}

static bool read_lines(Reader *r, Graph *g)
{
    while (!reader_accept(r, "}"))
        if (!(reader_peek(r, '%') ? read_node(r, g) : read_output(r, g)))
            return false;
    return true;
}

static bool read_graph(Reader *r, Module *m)
{
    const char *name;
    if (!reader_expect(r, "@") || !reader_word(r, "a name", &name))
        return false;
    const EntryKind entry = entry_find(name);
    if (entry == ENTRY_NONE)
        return reader_fail(r, "there is no entry point @%s", name);
    if (module_graph(m, entry))
        return reader_fail(r, "graph @%s is defined twice", name);
    Graph *g = graph_new(m, entry);
    if (reader_accept(r, "whole=") && !reader_string(r, &g->whole))
        return false;
    if (!reader_expect(r, "{") || !reader_line_end(r))
        return false;
    return read_lines(r, g) && reader_line_end(r);
}

static bool read_item(Reader *r, Module *m)
{
    const char *word;
    StateRole role;
    if (!reader_word(r, "a declaration", &word))
        return false;
    if (strcmp(word, "input") == 0 || strcmp(word, "target") == 0)
        return read_input(r, m, word[0] == 't');
    if (strcmp(word, "hyper") == 0)
        return read_hyper(r, m);
    if (strcmp(word, "graph") == 0)
        return read_graph(r, m);
    if (read_role(word, &role))
        return read_state(r, m, role);
    return reader_fail(r, "'%s' is no declaration", word);
}

/* What no single line shows: outputs, intervals of models, leaves against declarations. */
static bool check_whole(Reader *r, const Module *m)
{
    const Node *where;
    const char *bad = module_check_at(m, &where);
    if (!bad)
        return true;
    diag_error(r->diag, where ? where->loc : (SrcRange){r->file, 0, 1}, "%s", bad);
    return false;
}

Module *module_read(Arena *a, Diag *d, int file)
{
    Reader r = {.arena = a, .diag = d, .file = file};
    Module *m = NULL;
    r.text = diag_source(d, file, &r.len);
    if (!read_header(&r, &m))
        return NULL;
    while (!reader_at_end(&r))
        if (!read_item(&r, m))
            return NULL;
    return check_whole(&r, m) ? m : NULL;
}
