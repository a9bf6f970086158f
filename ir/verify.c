/* The verifier: one walk over every graph, all checks local to a state, a node or an output. */
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

#include "ir/loop.h"
#include "ir/names.h"
#include "ir/print.h"
#include "ir/shape.h"

/* Where the walk is; `scratch` holds what is needed for this check only. */
typedef struct Verifier {
    const Module *module;
    const Graph *graph;
    Arena *scratch;
    NameTable *names;
    Map *written; /* the states that have an output so far */
    bool has_ok;
    const Node *node;
} Verifier;

static const char *fail_node(const Verifier *c, const Node *n, const char *what)
{
    return arena_printf(c->module->arena, "graph @%s: %%%s (%s): %s", c->graph->name, n->name,
                        op_info(n->op)->text, what);
}

static const char *fail_types(const Verifier *c, const Node *n, const char *what,
                              const Type *expected)
{
    Arena *a = c->module->arena;
    return fail_node(c, n,
                     arena_printf(a, "%s %s, but has type %s", what, type_text(a, expected),
                                  type_text(a, &n->type)));
}

/* Before autodiff everything goes; count stays until the batch is masked. */
static bool meta_allowed(const Module *m, OpCode op)
{
    return m->stage == MODULE_IR || (op == OP_COUNT && m->stage == MODULE_GRAD);
}

static const char *check_operands(const Verifier *c, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    if (info->n_in >= 0 && n->n_in != info->n_in)
        return fail_node(c, n, "wrong number of operands");
    for (int i = 0; i < n->n_in; i++) {
        const Node *x = n->in[i];
        if (!x)
            return fail_node(c, n, "an operand is missing");
        if (x->id < 0 || x->id >= c->graph->n_nodes || c->graph->nodes[x->id] != x)
            return fail_node(
                c, n,
                arena_printf(c->module->arena, "operand %%%s is not in the graph", x->name));
        if (x->id >= n->id)
            return fail_node(
                c, n, arena_printf(c->module->arena, "operand %%%s is defined later", x->name));
    }
    return NULL;
}

static const char *check_named_leaf(const Verifier *c, const Node *n, const Type *declared)
{
    if (!declared)
        return fail_node(c, n, "names something that the module does not declare");
    return type_equal(&n->type, declared) ? NULL : fail_types(c, n, "is declared", declared);
}

static const char *check_scalar_leaf(const Verifier *c, const Node *n, DType dtype,
                                     bool per_model)
{
    const Type expected = {.dtype = dtype, .models = {0, per_model ? c->module->n_models : 0}};
    return type_equal(&n->type, &expected) ? NULL : fail_types(c, n, "must be", &expected);
}

/* Extents and element type are the loop's affair (loop_check). */
static const char *check_arg(const Verifier *c, const Node *n)
{
    const Node *loop = c->graph->owner;
    if (!loop)
        return fail_node(c, n, "is in no loop");
    const int64_t i = n->attrs.slot.index;
    const Interval own = n->type.models, operand = loop->in[i]->type.models;
    const Interval wanted = loop_role(loop, i) == LOOP_CARRIED ? loop->type.models : operand;
    return own.lo == wanted.lo && own.hi == wanted.hi
               ? NULL
               : fail_node(c, n, "its models are not those of its operand");
}

/* 2^63 stands for the largest i64, which is no double. */
static bool is_constant_of(DType t, double v)
{
    return dtype_holds(t, v) || (t == DT_I64 && v == 0x1p63);
}

static const char *check_leaf(const Verifier *c, const Node *n)
{
    const Module *m = c->module;
    const OpInfo *info = op_info(n->op);
    const char *name = info->attrs == ATTR_leaf ? n->attrs.leaf.name : "";
    if (!name)
        return fail_node(c, n, "has no name attribute");
    if (info->data == LEAF_INPUT) {
        const Input *i = module_input(m, name);
        return check_named_leaf(c, n, i ? &i->type : NULL);
    }
    if (info->data == LEAF_STATE) {
        const State *s = module_state(m, name);
        return check_named_leaf(c, n, s ? &s->type : NULL);
    }
    if (info->data == LEAF_ARG)
        return check_arg(c, n);
    if (info->data == LEAF_HYPER && !module_hyper(m, name))
        return check_named_leaf(c, n, NULL);
    RunValue value;
    if (info->data == LEAF_SCALAR)
        return run_value_find(name, &value)
                   ? check_scalar_leaf(c, n, DT_F64, run_value_per_model(value))
                   : fail_node(c, n, "names no scalar of the run");
    if (info->data != LEAF_CONST)
        return check_scalar_leaf(c, n, info->data == LEAF_SEED ? DT_I64 : DT_F64, true);
    const int64_t have = n->attrs.value.data.n;
    if (have != 1 && have != shape_count(&n->type.shape))
        return fail_node(c, n, "has neither one value nor one for each element");
    for (int64_t i = 0; i < have; i++)
        if (!is_constant_of(n->type.dtype, n->attrs.value.data.v[i]))
            return fail_node(c, n, "has a value that its element type does not hold");
    return type_per_model(&n->type) ? fail_node(c, n, "a constant is shared") : NULL;
}

static Interval join(Interval a, Interval b)
{
    if (a.hi == 0)
        return b;
    if (b.hi == 0)
        return a;
    return (Interval){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static const char *check_type(const Verifier *c, const Node *n)
{
    const ShapeContext silent = {.arena = c->scratch, .samples = c->module->batch};
    Type expected = {0};
    const char *bad = node_is_loop(n) ? loop_check(n, c->module->arena) : NULL;
    if (bad)
        return fail_node(c, n, bad);
    if (!op_info(n->op)->shape(&silent, n, &expected))
        return fail_node(c, n, "operands and attributes do not fit (its shape rule fails)");
    if (op_info(n->op)->kind == KIND_LEAF)
        return check_leaf(c, n);
    expected.models = (Interval){0, 0};
    for (int i = 0; i < n->n_in; i++)
        expected.models = join(expected.models, n->in[i]->type.models);
    return type_equal(&n->type, &expected) ? NULL : fail_types(c, n, "should be", &expected);
}

static const char *check_marks(const Verifier *c, const Node *n)
{
    const Shape *s = &n->type.shape;
    for (int i = 0; i < s->rank; i++)
        if (s->batch[i] < BATCH_MIXED || (s->batch[i] > 0 && s->dim[i] % s->batch[i]))
            return fail_node(c, n, "a batch mark does not divide its axis");
    return NULL;
}

static const char *check_models(const Verifier *c, const Node *n)
{
    const Interval i = n->type.models;
    const bool fits =
        (i.lo == 0 && i.hi == 0) || (i.lo >= 0 && i.lo < i.hi && i.hi <= c->module->n_models);
    return fits ? NULL : fail_node(c, n, "its models are not among the module's");
}

static const char *check_graph(Verifier *c, const Graph *g);

/* The body as a graph of its own, and its ties to the loop. */
static const char *check_body(Verifier *c, const Node *loop)
{
    const Verifier outside = *c;
    if (loop->body->owner != loop || loop->body->outer != c->graph)
        return fail_node(c, loop, "its body belongs to another loop");
    const char *bad = check_graph(c, loop->body);
    if (bad)
        return bad; /* c->node is in the body */
    *c = outside;
    return NULL;
}

static bool is_order(const IntList *order, int rank)
{
    unsigned seen = 0;
    for (int i = 0; i < order->n; i++) {
        if (order->v[i] < 0 || order->v[i] >= rank || seen >> order->v[i] & 1)
            return false;
        seen |= 1u << order->v[i];
    }
    return order->n == 0 || order->n == rank;
}

static const char *check_node(Verifier *c, Node *n, int position)
{
    const char *bad;
    if (n->id != position)
        return fail_node(c, n, "its id is not its position");
    if (strcmp(names_take(c->names, n->name, n), n->name) != 0)
        return fail_node(c, n, "its name is taken, or not one that .hir can write");
    if (op_info(n->op)->kind == KIND_META && !meta_allowed(c->module, n->op))
        return fail_node(c, n, "must be gone at this stage");
    if ((bad = check_operands(c, n)) || (bad = check_models(c, n)))
        return bad;
    if ((bad = check_type(c, n)) || (bad = check_marks(c, n)))
        return bad;
    if (!is_order(&n->order, n->type.shape.rank))
        return fail_node(c, n, "is stored in no order of its axes");
    return node_is_loop(n) ? check_body(c, n) : NULL;
}

static const char *fail_output(const Verifier *c, const Output *o, const char *what)
{
    return arena_printf(c->module->arena, "graph @%s: output \"%s\": %s", c->graph->name,
                        o->name ? o->name : "", what);
}

static bool in_graph(const Graph *g, const Node *n)
{
    return n && n->id >= 0 && n->id < g->n_nodes && g->nodes[n->id] == n;
}

static bool is_scalar_of(const Node *n, DType t)
{
    return n->type.dtype == t && n->type.shape.rank == 0;
}

static const char *check_state_output(Verifier *c, const Output *o)
{
    const State *s = module_state(c->module, o->name);
    if (!s)
        return fail_output(c, o, "there is no such state");
    if (s->type.dtype != o->value->type.dtype ||
        !shape_equal(&s->type.shape, &o->value->type.shape) ||
        (type_per_model(&o->value->type) && !type_per_model(&s->type)))
        return fail_output(c, o,
                           arena_printf(c->module->arena, "the state is %s, but %%%s is %s",
                                        type_text(c->module->arena, &s->type), o->value->name,
                                        type_text(c->module->arena, &o->value->type)));
    if (o->guarded && dtype_class(s->type.dtype) != DTC_REAL)
        return fail_output(c, o, "only a state of reals can be guarded");
    if (map_get(c->written, o->name) >= 0)
        return fail_output(c, o, "is written twice");
    map_set(c->written, o->name, 0);
    return NULL;
}

static const char *check_tensor_output(const Verifier *c, const Output *o)
{
    const Type *value = &o->value->type, *host = o->host_type ? o->host_type : value;
    if (host->shape.rank > MAX_STORED_RANK)
        return fail_output(c, o, "has too many axes for an output");
    if (host->dtype != value->dtype || host->models.lo != value->models.lo ||
        host->models.hi != value->models.hi ||
        shape_count(&host->shape) != shape_count(&value->shape))
        return fail_output(c, o, "its value is not what the host sees in another shape");
    return NULL;
}

static const char *check_output(Verifier *c, const Output *o)
{
    if (!in_graph(c->graph, o->value))
        return fail_output(c, o, "its value is not in the graph");
    if ((o->kind == OUT_NEXT || o->kind == OUT_STACK) != (c->graph->owner != NULL))
        return fail_output(c, o, "is not of a kind that its graph has");
    if (o->kind < OUT_FAULT && !o->name)
        return fail_output(c, o, "has no name");
    switch (o->kind) {
    case OUT_STATE:
        return check_state_output(c, o);
    case OUT_OK:
        if (c->graph->entry != ENTRY_TRAIN || c->has_ok)
            return fail_output(c, o, "says whether a step was done: there is one, in @train");
        c->has_ok = true;
        /* fall through */
    case OUT_RESULT:
    case OUT_LOSS:
    case OUT_FACTOR:
    case OUT_CAUSE:
        return is_scalar_of(o->value, DT_F64) ? NULL
                                              : fail_output(c, o, "a result must be f64[]");
    case OUT_TENSOR:
        return check_tensor_output(c, o);
    case OUT_NEXT:
    case OUT_STACK:
        return NULL;
    case OUT_FAULT:
        if (!in_graph(c->graph, o->value2))
            return fail_output(c, o, "its second value is not in the graph");
        if (!is_scalar_of(o->value, DT_I64) || !is_scalar_of(o->value2, DT_I64))
            return fail_output(c, o, "a fault's values must be i64[]");
        if (o->input && !module_input(c->module, o->input))
            return fail_output(c, o, "names an input that the module does not declare");
        return NULL;
    }
    return fail_output(c, o, "is of no known kind");
}

static const char *check_graph(Verifier *c, const Graph *g)
{
    const char *bad;
    c->graph = g;
    c->names = names_new(c->scratch);
    c->written = map_of_texts(c->scratch);
    c->has_ok = false;
    for (int i = 0; i < g->n_nodes; i++) {
        c->node = g->nodes[i];
        if ((bad = check_node(c, g->nodes[i], i)))
            return bad;
    }
    c->node = NULL;
    for (int i = 0; i < g->n_outputs; i++) {
        c->node = in_graph(g, g->outputs[i].value) ? g->outputs[i].value : NULL;
        if ((bad = check_output(c, &g->outputs[i])))
            return bad;
    }
    c->node = NULL;
    return NULL;
}

static const char *fail_state(const Module *m, const State *s, const char *what)
{
    return arena_printf(m->arena, "%s \"%s\": %s", state_role_text(s->role), s->name, what);
}

/* What a state of that role is, wherever the run reads or writes it by its role: a scalar of this
 * type; DT_COUNT: anything. */
static DType scalar_of_role(StateRole r)
{
    switch (r) {
    case ROLE_COUNTER:
    case ROLE_BATCH_COUNTER:
        return DT_I64;
    case ROLE_EPOCH_METRIC:
    case ROLE_METRIC:
        return DT_F64;
    case ROLE_PARAM:
    case ROLE_BUFFER:
    case ROLE_OPTIM:
    case ROLE_GRADIENT:
    case ROLE_SCHEDULE:
        return DT_COUNT;
    }
    return DT_COUNT;
}

/* Is there one of that role at most? */
static bool is_single_role(StateRole r)
{
    return r == ROLE_COUNTER || r == ROLE_BATCH_COUNTER || r == ROLE_EPOCH_METRIC;
}

static const char *check_state(const Module *m, const State *s)
{
    const DType scalar = scalar_of_role(s->role);
    if (scalar != DT_COUNT && (s->type.dtype != scalar || s->type.shape.rank != 0))
        return fail_state(m, s, arena_printf(m->arena, "must be %s[]", dtype_text(scalar)));
    if (is_single_role(s->role) && module_state_of(m, s->role) != s)
        return fail_state(m, s, "there is another one");
    if (state_role_has_parameter(s->role) != (s->parameter != NULL))
        return fail_state(m, s,
                          s->parameter ? "belongs to no parameter" : "lacks its parameter");
    const State *p = s->parameter ? module_state(m, s->parameter) : NULL;
    if (s->parameter && (!p || p->role != ROLE_PARAM))
        return fail_state(m, s,
                          arena_printf(m->arena, "there is no parameter \"%s\"", s->parameter));
    return NULL;
}

static const char *check_entry(const Module *m, const Graph *g)
{
    if (g->entry == ENTRY_NONE)
        return arena_printf(m->arena, "graph @%s is no entry point", g->name);
    return module_graph(m, g->entry) == g
               ? NULL
               : arena_printf(m->arena, "there are two graphs @%s", g->name);
}

const char *module_check_at(const Module *m, const Node **where)
{
    Verifier c = {.module = m, .scratch = arena_new()};
    const char *bad = NULL;
    for (int i = 0; i < m->n_states && !bad; i++)
        bad = check_state(m, &m->states[i]);
    for (int i = 0; i < m->n_graphs && !bad; i++)
        if (!(bad = check_entry(m, m->graphs[i])))
            bad = check_graph(&c, m->graphs[i]);
    *where = bad ? c.node : NULL;
    arena_free(c.scratch);
    return bad;
}

const char *module_check(const Module *m)
{
    const Node *where;
    return module_check_at(m, &where);
}

static bool can_be_printed(const Graph *g)
{
    graph_foreach (g, n) {
        for (int k = 0; k < n->n_in; k++)
            if (!n->in[k])
                return false;
        if (node_is_loop(n) && (!n->body || !can_be_printed(n->body)))
            return false;
    }
    for (int k = 0; k < g->n_outputs; k++)
        if (!g->outputs[k].value || (g->outputs[k].kind == OUT_FAULT && !g->outputs[k].value2))
            return false;
    return true;
}

/* A broken graph may have operands that are missing; everything else can be printed. */
static const char *dump(const Module *m)
{
    for (int i = 0; i < m->n_graphs; i++)
        if (!can_be_printed(m->graphs[i]))
            return NULL;
    Text text;
    text_init(&text, m->arena);
    module_print(&text, m);
    return text.s;
}

void module_verify(const Module *m, const char *pass)
{
    const char *bad = module_check(m);
    if (bad)
        diag_internal(dump(m), "after %s: %s", pass, bad);
}
