/* Building loops, looking into them, taking away what nobody needs. */
#include "ir/loop.h"

#include <string.h>

#include "ir/names.h"
#include "ir/shape_rules.h"

typedef struct LoopDraftArg {
    Node *arg, *operand;
    LoopRole role;
} LoopDraftArg;

bool node_is_loop(const Node *n)
{
    return op_info(n->op)->kind == KIND_LOOP && op_info(n->op)->data == LOOP_REGION;
}

bool node_is_result(const Node *n)
{
    return op_info(n->op)->kind == KIND_LOOP && op_info(n->op)->data == LOOP_RESULT;
}

bool node_is_arg(const Node *n)
{
    return op_info(n->op)->kind == KIND_LEAF && op_info(n->op)->data == LEAF_ARG;
}

LoopRole loop_role(const Node *loop, int64_t i)
{
    if (i < loop->attrs.loop.carried)
        return LOOP_CARRIED;
    return i < loop->attrs.loop.carried + loop->attrs.loop.scanned ? LOOP_SCANNED
                                                                   : LOOP_INVARIANT;
}

Node *loop_origin(const Graph **g, Node *n)
{
    while (node_is_arg(n) && (*g)->owner &&
           loop_role((*g)->owner, n->attrs.slot.index) == LOOP_INVARIANT) {
        n = (*g)->owner->in[n->attrs.slot.index];
        *g = (*g)->outer;
    }
    return n;
}

Node *loop_arg(const Node *loop, int i)
{
    graph_foreach (loop->body, n)
        if (node_is_arg(n) && n->attrs.slot.index == i)
            return n;
    return NULL;
}

int loop_n_results(const Node *loop)
{
    return loop->body->n_outputs;
}

bool loop_result_type(const Node *loop, int64_t i, Type *out)
{
    if (!loop->body || i < 0 || i >= loop->body->n_outputs)
        return false;
    const Output *o = &loop->body->outputs[i];
    *out = (Type){.dtype = o->value->type.dtype, .shape = o->value->type.shape};
    if (o->kind == OUT_NEXT)
        return true;
    Shape s = {.rank = out->shape.rank + 1, .dim = {loop->attrs.loop.count}};
    if (s.rank > MAX_RANK)
        return false;
    for (int k = 1; k < s.rank; k++) {
        s.dim[k] = out->shape.dim[k - 1];
        s.batch[k] = out->shape.batch[k - 1];
    }
    out->shape = s;
    return true;
}

/* ---- checks ---- */

static bool is_element(const Shape *element, const Shape *all, int64_t count)
{
    if (all->rank != element->rank + 1 || all->dim[0] != count)
        return false;
    for (int i = 0; i < element->rank; i++)
        if (element->dim[i] != all->dim[i + 1])
            return false;
    return true;
}

static const char *check_arg(const Node *loop, const Node *n, Arena *a)
{
    const int64_t i = n->attrs.slot.index;
    if (i < 0 || i >= loop->n_in)
        return arena_printf(a, "its argument %%%s stands for no operand", n->name);
    const Type *x = &loop->in[i]->type;
    const bool fits = loop_role(loop, i) == LOOP_SCANNED
                          ? is_element(&n->type.shape, &x->shape, loop->attrs.loop.count)
                          : shape_equal(&n->type.shape, &x->shape);
    if (x->dtype != n->type.dtype || !fits)
        return arena_printf(a, "its argument %%%s is %s, but the operand is %s", n->name,
                            type_text(a, &n->type), type_text(a, x));
    return NULL;
}

static const char *check_output(const Node *loop, int i, Arena *a)
{
    const Output *o = &loop->body->outputs[i];
    const bool carried = i < loop->attrs.loop.carried;
    if (o->kind != (carried ? OUT_NEXT : OUT_STACK) || !o->value)
        return arena_printf(a, "output %d of its body is not of the kind that it must be", i);
    const Type *t = &o->value->type;
    if (!carried)
        return t->shape.rank < MAX_RANK ? NULL : "a stacked value has too many axes";
    const Type *x = &loop->in[i]->type;
    if (x->dtype != t->dtype || !shape_equal(&x->shape, &t->shape))
        return arena_printf(a, "the next value %%%s is %s, but the carried one is %s",
                            o->value->name, type_text(a, t), type_text(a, x));
    return NULL;
}

static const char *check_leaf(const Node *loop, const Node *n, Arena *a)
{
    const OpInfo *info = op_info(n->op);
    if (info->kind != KIND_LEAF)
        return NULL;
    if (info->data == LEAF_ARG)
        return check_arg(loop, n, a);
    if (info->data == LEAF_INPUT || info->data == LEAF_STATE)
        return arena_printf(a, "its body reads %%%s without an argument", n->name);
    return NULL;
}

const char *loop_check(const Node *loop, Arena *a)
{
    const char *bad = NULL;
    const int64_t n = loop->n_in, c = loop->attrs.loop.carried, s = loop->attrs.loop.scanned;
    if (!loop->body)
        return "it has no body";
    if (loop->attrs.loop.count < 1 || c < 0 || s < 0 || c > n || s > n - c)
        return "count, carried or scanned do not fit its operands";
    if (loop->body->n_outputs < c)
        return "its body has too few next values";
    for (int i = 0; i < loop->body->n_outputs && !bad; i++)
        bad = check_output(loop, i, a);
    for (int i = 0; i < loop->body->n_nodes && !bad; i++)
        bad = check_leaf(loop, loop->body->nodes[i], a);
    return bad;
}

bool shape_rule_loop(const ShapeContext *c, const Node *n, Type *type)
{
    const char *bad = loop_check(n, c->arena);
    *type = (Type){.dtype = DT_BOOL};
    return !bad || shape_fail(c, "loop: %s", bad);
}

bool shape_rule_result(const ShapeContext *c, const Node *n, Type *type)
{
    if (!node_is_loop(n->in[0]))
        return shape_fail(c, "result: %%%s is no loop", n->in[0]->name);
    if (!loop_result_type(n->in[0], n->attrs.slot.index, type))
        return shape_fail(c, "result: the loop has no result %lld",
                          (long long)n->attrs.slot.index);
    return shape_fits(c, n, &type->shape);
}

/* ---- building ---- */

Graph *loop_body_new(Module *m, const char *name)
{
    Graph *g = arena_alloc(m->arena, sizeof *g);
    *g = (Graph){.module = m, .entry = ENTRY_NONE, .name = name};
    return g;
}

void loop_begin(LoopDraft *d, Builder *b, Graph *body, int64_t count, bool reverse)
{
    *d = (LoopDraft){.b = b, .body = body, .count = count, .reverse = reverse};
}

static Arena *draft_arena(const LoopDraft *d)
{
    return d->body->module->arena;
}

static Node *append_arg(Graph *body, const char *name, const Type *type, SrcRange loc)
{
    Node n = {.op = OP_ARG, .name = name, .type = *type, .loc = loc};
    attrs_default(op_info(n.op)->attrs, &n.attrs);
    return graph_append(body, &n);
}

static Node *add_arg(LoopDraft *d, LoopRole role, const char *name, Node *operand,
                     const Type *type)
{
    if (d->n_args == d->cap_args)
        d->args = arena_grow(draft_arena(d), d->args, &d->cap_args, sizeof *d->args);
    Node *arg = append_arg(d->body, name, type, operand->loc);
    d->args[d->n_args++] = (LoopDraftArg){.arg = arg, .operand = operand, .role = role};
    return arg;
}

static Node *known_arg(const LoopDraft *d, LoopRole role, const Node *operand)
{
    for (int i = 0; i < d->n_args; i++)
        if (d->args[i].role == role && d->args[i].operand == operand)
            return d->args[i].arg;
    return NULL;
}

Node *loop_draft_operand(const LoopDraft *d, const Node *arg, LoopRole role)
{
    for (int i = 0; i < d->n_args; i++)
        if (d->args[i].arg == arg)
            return d->args[i].role == role ? d->args[i].operand : NULL;
    return NULL;
}

Node *loop_carried(LoopDraft *d, const char *name, Node *init, const Type *type)
{
    return init ? add_arg(d, LOOP_CARRIED, name, init, type) : NULL;
}

Node *loop_scanned(LoopDraft *d, Node *operand)
{
    Node *known = operand ? known_arg(d, LOOP_SCANNED, operand) : NULL;
    if (known || !operand)
        return known;
    Type t = operand->type;
    t.shape.rank--;
    for (int i = 0; i < t.shape.rank; i++) {
        t.shape.dim[i] = operand->type.shape.dim[i + 1];
        t.shape.batch[i] = operand->type.shape.batch[i + 1];
    }
    return add_arg(d, LOOP_SCANNED, operand->name, operand, &t);
}

Node *loop_invariant(LoopDraft *d, Node *operand)
{
    Node *known = operand ? known_arg(d, LOOP_INVARIANT, operand) : NULL;
    if (known || !operand)
        return known;
    return add_arg(d, LOOP_INVARIANT, operand->name, operand, &operand->type);
}

void loop_next(LoopDraft *d, Node *value)
{
    if (d->n_next == d->cap_next)
        d->next = arena_grow(draft_arena(d), d->next, &d->cap_next, sizeof *d->next);
    d->next[d->n_next++] = value;
}

int loop_stack(LoopDraft *d, Node *value)
{
    for (int i = 0; i < d->n_stack; i++)
        if (d->stack[i] == value)
            return i;
    if (d->n_stack == d->cap_stack)
        d->stack = arena_grow(draft_arena(d), d->stack, &d->cap_stack, sizeof *d->stack);
    d->stack[d->n_stack] = value;
    return d->n_stack++;
}

static bool add_outputs(const LoopDraft *d)
{
    for (int i = 0; i < d->n_next + d->n_stack; i++) {
        const bool next = i < d->n_next;
        Node *value = next ? d->next[i] : d->stack[i - d->n_next];
        if (!value)
            return false;
        graph_add_output(d->body,
                         &(Output){.kind = next ? OUT_NEXT : OUT_STACK, .value = value});
    }
    return true;
}

Node *loop_end(LoopDraft *d, const char *hint)
{
    Attrs attrs = {.loop = {.count = d->count, .reverse = d->reverse}};
    Node **in = arena_array(draft_arena(d), (size_t)d->n_args + 1, sizeof *in);
    int n = 0;
    for (int role = LOOP_CARRIED; role <= LOOP_INVARIANT; role++)
        for (int i = 0; i < d->n_args; i++) {
            if ((int)d->args[i].role != role)
                continue;
            attrs.loop.carried += role == LOOP_CARRIED;
            attrs.loop.scanned += role == LOOP_SCANNED;
            d->args[i].arg->attrs.slot.index = n;
            in[n++] = d->args[i].operand;
        }
    if (!add_outputs(d))
        return NULL;
    Node loop = {.op = OP_LOOP,
                 .name = hint,
                 .type = {.dtype = DT_BOOL},
                 .n_in = n,
                 .in = in,
                 .attrs = attrs,
                 .loc = d->b->loc,
                 .body = d->body};
    for (int i = 0; i < n; i++)
        if (type_per_model(&in[i]->type))
            loop.type.models = in[i]->type.models;
    Node *made = graph_append(d->b->graph, &loop);
    d->body->owner = made;
    d->body->outer = d->b->graph;
    d->body->depth = d->b->graph->depth + 1;
    return made;
}

Node *loop_result(Builder *b, Node *loop, int i, const char *hint)
{
    Attrs attrs = {.slot = {.index = i}};
    Builder named = *b;
    named.hint = hint;
    return build(&named, OP_RESULT, &attrs, 1, &loop);
}

Node *loop_stacked(Builder *b, Node *loop, int number, const char *hint)
{
    return loop_result(b, loop, (int)loop->attrs.loop.carried + number, hint);
}

Node *loop_add_invariant(Node *loop, Node *operand)
{
    Arena *a = loop->body->module->arena;
    for (int i = (int)(loop->attrs.loop.carried + loop->attrs.loop.scanned); i < loop->n_in;
         i++) {
        Node *arg = loop->in[i] == operand ? loop_arg(loop, i) : NULL;
        if (arg)
            return arg;
    }
    Node **in = arena_array(a, (size_t)loop->n_in + 1, sizeof *in);
    if (loop->n_in)
        memcpy(in, loop->in, (size_t)loop->n_in * sizeof *in);
    in[loop->n_in] = operand;
    loop->in = in;
    Node *arg = append_arg(loop->body, operand->name, &operand->type, operand->loc);
    arg->attrs.slot.index = loop->n_in++;
    arg->form = operand->form;
    return arg;
}

int loop_add_stack(Node *loop, Node *value)
{
    const int first = (int)loop->attrs.loop.carried;
    for (int i = first; i < loop->body->n_outputs; i++)
        if (loop->body->outputs[i].value == value)
            return i - first;
    graph_add_output(loop->body, &(Output){.kind = OUT_STACK, .value = value});
    return loop->body->n_outputs - 1 - first;
}

/* ---- taking away ---- */

/* Marks the nodes of the body that output i needs, by id. */
static void mark_needed(const Graph *body, int i, bool *needed)
{
    needed[body->outputs[i].value->id] = true;
    for (int k = body->n_nodes - 1; k >= 0; k--)
        for (int j = 0; needed[k] && j < body->nodes[k]->n_in; j++)
            needed[body->nodes[k]->in[j]->id] = true;
}

/* Which outputs of the body are needed: those with a result in g, and the next values of the
 * arguments that they need. */
static void find_wanted(const Graph *g, const Node *loop, bool *wanted, bool *needed)
{
    graph_foreach (g, n)
        if (node_is_result(n) && n->in[0] == loop)
            wanted[n->attrs.slot.index] = true;
    bool changed = true;
    for (int i = 0; i < loop->body->n_outputs; i++)
        if (wanted[i])
            mark_needed(loop->body, i, needed);
    while (changed) {
        changed = false;
        graph_foreach (loop->body, n) {
            const int64_t i = node_is_arg(n) ? n->attrs.slot.index : -1;
            if (i < 0 || i >= loop->attrs.loop.carried || !needed[n->id] || wanted[i])
                continue;
            wanted[i] = changed = true;
            mark_needed(loop->body, (int)i, needed);
        }
    }
}

static void keep_outputs(Graph *g, Node *loop, const bool *wanted, int *number)
{
    Graph *body = loop->body;
    int kept = 0;
    for (int i = 0; i < body->n_outputs; i++)
        if (wanted[i]) {
            number[i] = kept;
            body->outputs[kept++] = body->outputs[i];
        }
    body->n_outputs = kept;
    graph_foreach (g, n)
        if (node_is_result(n) && n->in[0] == loop)
            n->attrs.slot.index = number[n->attrs.slot.index];
}

/* Carried operands stay with their next values, others while an argument reads them. */
static void keep_operands(Node *loop, const bool *wanted, int *number)
{
    bool *read = arena_array(loop->body->module->arena, (size_t)loop->n_in + 1, sizeof *read);
    graph_foreach (loop->body, n)
        if (node_is_arg(n))
            read[n->attrs.slot.index] = true;
    int kept = 0, carried = 0, scanned = 0;
    for (int i = 0; i < loop->n_in; i++) {
        const LoopRole role = loop_role(loop, i);
        if (role == LOOP_CARRIED ? !wanted[i] : !read[i])
            continue;
        carried += role == LOOP_CARRIED;
        scanned += role == LOOP_SCANNED;
        number[i] = kept;
        loop->in[kept++] = loop->in[i];
    }
    graph_foreach (loop->body, n)
        if (node_is_arg(n))
            n->attrs.slot.index = number[n->attrs.slot.index];
    loop->n_in = kept;
    loop->attrs.loop.carried = carried;
    loop->attrs.loop.scanned = scanned;
}

bool loop_trim(Graph *g, Node *loop)
{
    Graph *body = loop->body;
    const int n_in = loop->n_in, n_out = body->n_outputs;
    Arena *scratch = arena_new();
    bool *wanted = arena_array(scratch, (size_t)n_out + 1, sizeof *wanted);
    bool *needed = arena_array(scratch, (size_t)body->n_nodes + 1, sizeof *needed);
    int *number =
        arena_array(scratch, (size_t)(n_in > n_out ? n_in : n_out) + 1, sizeof *number);
    find_wanted(g, loop, wanted, needed);
    keep_outputs(g, loop, wanted, number);
    const int dropped = graph_drop_dead(body);
    keep_operands(loop, wanted, number);
    arena_free(scratch);
    return dropped > 0 || loop->n_in < n_in || body->n_outputs < n_out;
}
