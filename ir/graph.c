/* Modules and graphs: tables that grow in the arena, and the rewrites that every pass needs.
 * Look-ups of inputs and hypers are linear: there are few; those of states, and of leaves in a
 * graph, are not. */
#include "ir/graph.h"

#include <string.h>

#include "ir/names.h"

const char *form_text(Form f)
{
    static const char *const texts[] = {"none", "shared", "batched", "wide"};
    return texts[f];
}

const char *state_role_text(StateRole r)
{
    static const char *const texts[N_ROLES] = {
        [ROLE_PARAM] = "param",
        [ROLE_BUFFER] = "buffer",
        [ROLE_OPTIM] = "optim",
        [ROLE_COUNTER] = "counter",
        [ROLE_METRIC] = "metric",
        [ROLE_GRADIENT] = "gradient",
        [ROLE_BATCH_COUNTER] = "batch_counter",
        [ROLE_SCHEDULE] = "schedule",
        [ROLE_EPOCH_METRIC] = "epoch_metric",
    };
    return texts[r];
}

bool state_role_has_parameter(StateRole r)
{
    return r == ROLE_OPTIM || r == ROLE_GRADIENT;
}

const char *output_kind_text(OutputKind k)
{
    static const char *const texts[N_OUTPUT_KINDS] = {
        [OUT_STATE] = "state",   [OUT_RESULT] = "result", [OUT_LOSS] = "loss",
        [OUT_OK] = "ok",         [OUT_FACTOR] = "factor", [OUT_CAUSE] = "cause",
        [OUT_TENSOR] = "output", [OUT_FAULT] = "fault",   [OUT_NEXT] = "next",
        [OUT_STACK] = "stack",
    };
    return texts[k];
}

const char *entry_text(EntryKind k)
{
    static const char *const texts[] = {
        [ENTRY_INIT] = "init",         [ENTRY_TRAIN] = "train",     [ENTRY_EVAL] = "eval",
        [ENTRY_EVAL_END] = "eval_end", [ENTRY_PREDICT] = "predict", [ENTRY_NONE] = "none",
    };
    return texts[k];
}

EntryKind entry_find(const char *text)
{
    int k = 0;
    while (k < N_ENTRIES && strcmp(entry_text((EntryKind)k), text) != 0)
        k++;
    return (EntryKind)k;
}

const char *module_stage_text(ModuleStage s)
{
    static const char *const texts[N_MODULE_STAGES] = {
        [MODULE_IR] = "ir",
        [MODULE_GRAD] = "grad",
        [MODULE_MASKED] = "masked",
        [MODULE_SIMPLE] = "simple",
        [MODULE_FUSED] = "fused",
        [MODULE_LOWERED] = "lowered",
        [MODULE_PREPARED] = "prepared",
    };
    return texts[s];
}

ModuleStage module_stage_find(const char *text)
{
    int s = 0;
    while (s < N_MODULE_STAGES && strcmp(module_stage_text((ModuleStage)s), text) != 0)
        s++;
    return (ModuleStage)s;
}

Module *module_new(Arena *a, Diag *d, const char *name)
{
    Module *m = arena_alloc(a, sizeof *m);
    *m = (Module){.arena = a, .diag = d, .name = arena_strdup(a, name)};
    m->state_numbers = map_of_texts(a);
    return m;
}

Graph *graph_new(Module *m, EntryKind entry)
{
    Graph *g = arena_alloc(m->arena, sizeof *g);
    *g = (Graph){.module = m, .entry = entry, .name = entry_text(entry)};
    if (entry == ENTRY_NONE)
        return g;
    if (m->n_graphs == m->cap_graphs)
        m->graphs = arena_grow(m->arena, m->graphs, &m->cap_graphs, sizeof(Graph *));
    m->graphs[m->n_graphs++] = g;
    return g;
}

Graph *module_graph(const Module *m, EntryKind entry)
{
    for (int i = 0; i < m->n_graphs; i++)
        if (m->graphs[i]->entry == entry)
            return m->graphs[i];
    return NULL;
}

State *module_add_state(Module *m, const State *what)
{
    if (m->n_states == m->cap_states)
        m->states = arena_grow(m->arena, m->states, &m->cap_states, sizeof *m->states);
    m->states[m->n_states] = *what;
    m->states[m->n_states].name = arena_strdup(m->arena, what->name);
    if (what->parameter)
        m->states[m->n_states].parameter = arena_strdup(m->arena, what->parameter);
    map_set(m->state_numbers, m->states[m->n_states].name, m->n_states);
    return &m->states[m->n_states++];
}

Input *module_add_input(Module *m, const Input *what)
{
    if (m->n_inputs == m->cap_inputs)
        m->inputs = arena_grow(m->arena, m->inputs, &m->cap_inputs, sizeof *m->inputs);
    m->inputs[m->n_inputs] = *what;
    m->inputs[m->n_inputs].name = arena_strdup(m->arena, what->name);
    return &m->inputs[m->n_inputs++];
}

Hyper *module_add_hyper(Module *m, const Hyper *what)
{
    if (m->n_hypers == m->cap_hypers)
        m->hypers = arena_grow(m->arena, m->hypers, &m->cap_hypers, sizeof *m->hypers);
    m->hypers[m->n_hypers] = *what;
    m->hypers[m->n_hypers].name = arena_strdup(m->arena, what->name);
    return &m->hypers[m->n_hypers++];
}

/* The frontend takes the last states back when it gives a loop up. */
State *module_state(const Module *m, const char *name)
{
    const int i = map_get(m->state_numbers, name);
    return i >= 0 && i < m->n_states && strcmp(m->states[i].name, name) == 0 ? &m->states[i]
                                                                             : NULL;
}

State *module_state_of(const Module *m, StateRole role)
{
    for (int i = 0; i < m->n_states; i++)
        if (m->states[i].role == role)
            return &m->states[i];
    return NULL;
}

Input *module_input(const Module *m, const char *name)
{
    for (int i = 0; i < m->n_inputs; i++)
        if (strcmp(m->inputs[i].name, name) == 0)
            return &m->inputs[i];
    return NULL;
}

Hyper *module_hyper(const Module *m, const char *name)
{
    for (int i = 0; i < m->n_hypers; i++)
        if (strcmp(m->hypers[i].name, name) == 0)
            return &m->hypers[i];
    return NULL;
}

void graph_set_whole(Graph *g, SrcRange at, const char *why)
{
    unsigned line, col;
    if (g->whole)
        return;
    g->whole = why;
    if (at.file < 0)
        return;
    diag_line_col(g->module->diag, at, &line, &col);
    g->whole = arena_printf(g->module->arena, "%s:%u:%u: %s",
                            diag_path(g->module->diag, at.file), line, col, why);
}

Output *graph_add_output(Graph *g, const Output *what)
{
    Arena *a = g->module->arena;
    if (g->n_outputs == g->cap_outputs)
        g->outputs = arena_grow(a, g->outputs, &g->cap_outputs, sizeof *g->outputs);
    Output *o = &g->outputs[g->n_outputs++];
    *o = *what;
    o->name = o->name ? arena_strdup(a, o->name) : NULL;
    o->input = o->input ? arena_strdup(a, o->input) : NULL;
    return o;
}

/* Leaves in the order in which they were appended, those of one name in a row of their own. */
typedef struct Leaf {
    Node *node;
    int next; /* of that name, -1: none */
} Leaf;

typedef struct LeafTable {
    Map *by_name; /* the first of its row */
    Leaf *v;
    int n, cap;
} LeafTable;

static bool has_leaf_name(OpCode op)
{
    return op_info(op)->kind == KIND_LEAF && op_info(op)->attrs == ATTR_leaf;
}

static void note_leaf(Graph *g, Node *n)
{
    Arena *a = g->module->arena;
    if (!g->leaves) {
        g->leaves = arena_alloc(a, sizeof *g->leaves);
        g->leaves->by_name = map_of_texts(a);
    }
    LeafTable *t = g->leaves;
    if (t->n == t->cap)
        t->v = arena_grow(a, t->v, &t->cap, sizeof *t->v);
    t->v[t->n] = (Leaf){.node = n, .next = -1};
    int last = map_get(t->by_name, n->attrs.leaf.name);
    while (last >= 0 && t->v[last].next >= 0)
        last = t->v[last].next;
    if (last >= 0)
        t->v[last].next = t->n;
    else
        map_set(t->by_name, n->attrs.leaf.name, t->n);
    t->n++;
}

static bool is_listed(const Graph *g, const Node *n)
{
    return n->id >= 0 && n->id < g->n_nodes && g->nodes[n->id] == n;
}

Node *graph_leaf(const Graph *g, OpCode op, const char *name)
{
    const LeafTable *t = g->leaves;
    for (int i = t ? map_get(t->by_name, name) : -1; i >= 0; i = t->v[i].next)
        if (t->v[i].node->op == op && is_listed(g, t->v[i].node))
            return t->v[i].node;
    return NULL;
}

Node *graph_append(Graph *g, const Node *what)
{
    Arena *a = g->module->arena;
    /* A pass that empties a graph and appends its nodes again keeps their names. */
    if (!g->names || g->n_nodes == 0)
        g->names = names_new(a);
    Node *n = arena_alloc(a, sizeof *n);
    *n = *what;
    n->id = g->n_nodes;
    n->name = names_take(g->names, what->name ? what->name : op_info(what->op)->text, n);
    n->in = arena_array(a, (size_t)what->n_in, sizeof(Node *));
    if (what->n_in)
        memcpy(n->in, what->in, (size_t)what->n_in * sizeof(Node *));
    if (g->n_nodes == g->cap_nodes)
        g->nodes = arena_grow(a, g->nodes, &g->cap_nodes, sizeof(Node *));
    g->nodes[g->n_nodes++] = n;
    if (has_leaf_name(n->op))
        note_leaf(g, n);
    return n;
}

Node *graph_find(const Graph *g, const char *name)
{
    return g->names ? names_owner(g->names, name) : NULL;
}

bool output_is_watched(const Output *o)
{
    return o->guarded &&
           (o->value->op != OP_STATE || strcmp(o->value->attrs.leaf.name, o->name) != 0);
}

int *graph_uses(const Graph *g, Arena *a)
{
    int *uses = arena_array(a, (size_t)g->n_nodes, sizeof *uses);
    graph_foreach (g, n)
        for (int i = 0; i < n->n_in; i++)
            uses[n->in[i]->id]++;
    for (int i = 0; i < g->n_outputs; i++) {
        uses[g->outputs[i].value->id]++;
        if (g->outputs[i].value2)
            uses[g->outputs[i].value2->id]++;
    }
    return uses;
}

void graph_replace(Graph *g, const Node *from, Node *to)
{
    graph_foreach (g, n)
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] == from)
                n->in[i] = to;
    for (int i = 0; i < g->n_outputs; i++) {
        Output *o = &g->outputs[i];
        if (o->value == from)
            o->value = to;
        if (o->value2 == from)
            o->value2 = to;
    }
}

static Node *last_of(Node *const *to, Node *n)
{
    while (n && to[n->id])
        n = to[n->id];
    return n;
}

void graph_replace_all(Graph *g, Node *const *to)
{
    graph_foreach (g, n)
        for (int i = 0; i < n->n_in; i++)
            n->in[i] = last_of(to, n->in[i]);
    for (int i = 0; i < g->n_outputs; i++) {
        g->outputs[i].value = last_of(to, g->outputs[i].value);
        g->outputs[i].value2 = last_of(to, g->outputs[i].value2);
    }
}

static void renumber(Graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        g->nodes[i]->id = i;
}

/* A stack of nodes for walks that would otherwise recurse as deep as the graph is long. */
typedef struct Stack {
    Arena *arena;
    Node **v;
    int n, cap;
} Stack;

static void push(Stack *s, Node *n)
{
    if (s->n == s->cap)
        s->v = arena_grow(s->arena, s->v, &s->cap, sizeof *s->v);
    s->v[s->n++] = n;
}

static void mark_needed(Stack *s, bool *needed, Node *root)
{
    if (!root || needed[root->id])
        return;
    needed[root->id] = true;
    push(s, root);
    while (s->n > 0) {
        const Node *n = s->v[--s->n];
        for (int i = 0; i < n->n_in; i++)
            if (!needed[n->in[i]->id]) {
                needed[n->in[i]->id] = true;
                push(s, n->in[i]);
            }
    }
}

int graph_drop_dead(Graph *g)
{
    Arena *scratch = arena_new();
    Stack stack = {.arena = scratch};
    bool *needed = arena_array(scratch, (size_t)g->n_nodes, sizeof *needed);
    renumber(g);
    for (int i = 0; i < g->n_outputs; i++) {
        mark_needed(&stack, needed, g->outputs[i].value);
        mark_needed(&stack, needed, g->outputs[i].value2);
    }
    int kept = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (needed[i])
            g->nodes[kept++] = g->nodes[i];
    const int dropped = g->n_nodes - kept;
    g->n_nodes = kept;
    renumber(g);
    arena_free(scratch);
    return dropped;
}

typedef enum Mark {
    MARK_NEW,
    MARK_OPEN, /* on the stack: its operands are being placed */
    MARK_PLACED
} Mark;

/* Places root after what it needs: depth first, operands from left to right. */
static void place(const Graph *g, Stack *s, unsigned char *mark, Node *root, Node **order,
                  int *n_order)
{
    push(s, root);
    while (s->n > 0) {
        Node *n = s->v[s->n - 1];
        if (mark[n->id] == MARK_NEW) {
            mark[n->id] = MARK_OPEN;
            for (int i = n->n_in - 1; i >= 0; i--) {
                if (mark[n->in[i]->id] == MARK_OPEN)
                    diag_internal(NULL, "graph @%s: %%%s depends on itself", g->name, n->name);
                if (mark[n->in[i]->id] == MARK_NEW)
                    push(s, n->in[i]);
            }
            continue;
        }
        s->n--;
        if (mark[n->id] == MARK_OPEN) {
            mark[n->id] = MARK_PLACED;
            order[(*n_order)++] = n;
        }
    }
}

void graph_sort(Graph *g)
{
    Arena *scratch = arena_new();
    Stack stack = {.arena = scratch};
    unsigned char *mark = arena_array(scratch, (size_t)g->n_nodes, sizeof *mark);
    Node **order = arena_array(scratch, (size_t)g->n_nodes, sizeof *order);
    int n_order = 0;
    renumber(g);
    for (int i = 0; i < g->n_nodes; i++)
        if (mark[i] == MARK_NEW)
            place(g, &stack, mark, g->nodes[i], order, &n_order);
    if (n_order)
        memcpy(g->nodes, order, (size_t)n_order * sizeof *order);
    renumber(g);
    arena_free(scratch);
}
