/* The printer of .hir, and two more views of the same things: Graphviz and the operator list. */
#include "ir/print.h"

#include "ir/loop.h"
#include "ir/shape.h"

/* Marks are written where they differ from `inferred` (NULL: wherever there are any). */
static void print_extents(Text *out, const Shape *s, const Shape *inferred)
{
    for (int i = 0; i < s->rank; i++) {
        const int64_t mark = s->batch[i], expected = inferred ? inferred->batch[i] : 0;
        text_add(out, i ? ", " : "");
        if (mark == expected)
            text_printf(out, "%lld", (long long)s->dim[i]);
        else if (mark == BATCH_MIXED)
            text_printf(out, "%lld*?", (long long)s->dim[i]);
        else
            text_printf(out, "%lld*%lld", (long long)(mark ? s->dim[i] / mark : s->dim[i]),
                        (long long)mark);
    }
}

static void print_type(Text *out, const Type *t, const Shape *inferred)
{
    text_printf(out, "%s[", dtype_text(t->dtype));
    if (type_per_model(t)) {
        if (t->models.lo)
            text_printf(out, "%d..", t->models.lo);
        text_printf(out, "%d |%s", t->models.hi, t->shape.rank ? " " : "");
    }
    print_extents(out, &t->shape, inferred);
    text_add(out, "]");
}

/* What the reader will infer: for named leaves it is what the module declares, which is the
 * node's own. */
static Shape inferred_shape(Arena *a, const Node *n, int64_t samples)
{
    const OpInfo *info = op_info(n->op);
    Type type = {0};
    if (info->kind == KIND_LEAF)
        return info->attrs == ATTR_leaf ? n->type.shape : (Shape){0};
    const ShapeContext silent = {.arena = a, .samples = samples};
    if (!info->shape(&silent, n, &type) || type.shape.rank != n->type.shape.rank)
        return (Shape){0};
    return type.shape;
}

/* The form that a type alone suggests once there are models. */
static Form usual_form(const Type *t)
{
    return type_per_model(t) ? FORM_BATCHED : FORM_SHARED;
}

static void print_order(Text *out, const IntList *order)
{
    for (int i = 0; i < order->n; i++)
        text_printf(out, "%s%lld", i ? ", " : " stored=[", (long long)order->v[i]);
    text_add(out, order->n ? "]" : "");
}

static void print_node(Text *out, const Node *n, int64_t samples)
{
    const Shape inferred = inferred_shape(out->arena, n, samples);
    text_printf(out, "%%%s = %s", n->name, op_info(n->op)->text);
    for (int i = 0; i < n->n_in; i++)
        text_printf(out, "%s%%%s", i ? ", " : " ", n->in[i]->name);
    attrs_print(out, op_info(n->op)->attrs, &n->attrs);
    if (n->form != FORM_NONE && n->form != usual_form(&n->type))
        text_printf(out, " form=%s", form_text(n->form));
    print_order(out, &n->order);
    text_add(out, " : ");
    print_type(out, &n->type, &inferred);
}

void node_print(Text *out, const Node *n)
{
    print_node(out, n, 0);
}

static void print_fault(Text *out, const Output *o)
{
    text_add(out, "fault ");
    text_quoted(out, o->name ? o->name : "");
    text_printf(out, " %%%s, %%%s", o->value->name, o->value2->name);
    if (o->input) {
        text_add(out, " input=");
        text_quoted(out, o->input);
    }
    text_printf(out, " lo=%lld hi=%lld", (long long)o->lo, (long long)o->hi);
    if (o->has_ignore)
        text_printf(out, " ignore=%lld", (long long)o->ignore);
}

static void print_output(Text *out, const Output *o)
{
    if (o->kind == OUT_FAULT) {
        print_fault(out, o);
        return;
    }
    if (o->kind == OUT_NEXT || o->kind == OUT_STACK) {
        text_printf(out, "%s %%%s", output_kind_text(o->kind), o->value->name);
        return;
    }
    text_printf(out, "%s ", output_kind_text(o->kind));
    text_quoted(out, o->name);
    text_printf(out, " %%%s%s", o->value->name, o->guarded ? " guarded" : "");
    if (o->host_type) {
        text_add(out, " as ");
        print_type(out, o->host_type, NULL);
    }
}

static void indent(Text *out, int depth)
{
    text_printf(out, "%*s", 2 * depth, "");
}

/* Nodes and outputs, the bodies of loops nested. */
static void print_lines(Text *out, const Graph *g, int depth)
{
    graph_foreach (g, n) {
        indent(out, depth);
        print_node(out, n, g->module->batch);
        if (node_is_loop(n)) {
            text_add(out, " {\n");
            print_lines(out, n->body, depth + 1);
            indent(out, depth);
            text_add(out, "}");
        }
        text_add(out, "\n");
    }
    for (int i = 0; i < g->n_outputs; i++) {
        indent(out, depth);
        print_output(out, &g->outputs[i]);
        text_add(out, "\n");
    }
}

void graph_print(Text *out, const Graph *g)
{
    text_printf(out, "graph @%s", g->name);
    if (g->whole) {
        text_add(out, " whole=");
        text_quoted(out, g->whole);
    }
    text_add(out, " {\n");
    print_lines(out, g, 1);
    text_add(out, "}\n");
}

static void print_input(Text *out, const Input *i)
{
    text_add(out, i->target ? "target " : "input ");
    text_quoted(out, i->name);
    text_add(out, i->each ? " each" : "");
    text_add(out, i->drawn ? " drawn" : "");
    text_add(out, " : ");
    print_type(out, &i->type, NULL);
    text_add(out, "\n");
}

static void print_range(Text *out, const Hyper *h)
{
    text_real(out, h->lo);
    text_add(out, " .. ");
    text_real(out, h->hi);
    if (h->step != 0) {
        text_add(out, ", step = ");
        text_real(out, h->step);
    }
}

static void print_domain(Text *out, const Hyper *h)
{
    static const char *const open[] = {"", " in (", " in log(", " in int(", " in {"};
    static const char *const close[] = {"", ")", ")", ")", "}"};
    text_add(out, open[h->domain]);
    if (h->domain == DOMAIN_SET) {
        for (int64_t i = 0; i < h->set.n; i++) {
            text_add(out, i ? ", " : "");
            text_real(out, h->set.v[i]);
        }
    } else if (h->domain != DOMAIN_NONE) {
        print_range(out, h);
    }
    text_add(out, close[h->domain]);
}

static void print_hyper(Text *out, const Hyper *h)
{
    text_add(out, "hyper ");
    text_quoted(out, h->name);
    text_add(out, h->integer ? " integer = " : " = ");
    text_real(out, h->value);
    print_domain(out, h);
    text_add(out, "\n");
}

static void print_state(Text *out, const State *s)
{
    text_printf(out, "%s ", state_role_text(s->role));
    text_quoted(out, s->name);
    if (s->parameter) {
        text_add(out, " of ");
        text_quoted(out, s->parameter);
    }
    text_add(out, " : ");
    print_type(out, &s->type, NULL);
    for (int i = 0; i < s->layout.n; i++)
        text_printf(out, "%s%lld", i ? ", " : " layout=[", (long long)s->layout.v[i]);
    text_add(out, s->layout.n ? "]\n" : "\n");
}

static void print_setting(Text *out, const char *name, int64_t v)
{
    if (v)
        text_printf(out, " %s=%lld", name, (long long)v);
}

void module_print(Text *out, const Module *m)
{
    text_add(out, "hir 1\nmodule ");
    text_quoted(out, m->name);
    text_printf(out, " stage=%s", module_stage_text(m->stage));
    print_setting(out, "models", m->n_models);
    print_setting(out, "batch", m->batch);
    print_setting(out, "epochs", m->epochs);
    text_add(out, "\n");
    for (int i = 0; i < m->n_inputs; i++)
        print_input(out, &m->inputs[i]);
    for (int i = 0; i < m->n_hypers; i++)
        print_hyper(out, &m->hypers[i]);
    for (int i = 0; i < m->n_states; i++)
        print_state(out, &m->states[i]);
    for (int i = 0; i < m->n_graphs; i++)
        graph_print(out, m->graphs[i]);
}

/* Colours tell kinds apart: leaves, what is free, what is computed, what is dear. */
static const char *dot_color(OpKind k)
{
    static const char *const colors[] = {"lightblue",   "white",  "gray90", "gray90", "khaki",
                                         "lightsalmon", "salmon", "plum",   "pink"};
    return colors[k];
}

static void dot_label(Text *out, const Node *n)
{
    Text label;
    text_init(&label, out->arena);
    text_printf(&label, "%%%s\n%s", n->name, op_info(n->op)->text);
    attrs_print(&label, op_info(n->op)->attrs, &n->attrs);
    text_add(&label, "\n");
    type_print(&label, &n->type);
    text_quoted(out, label.s);
}

/* `key` begins the names of its nodes; a loop's body is a box in the box. */
static void dot_graph(Text *out, const Graph *g, const char *key)
{
    text_printf(out, "  subgraph cluster_%s {\n    label=", key);
    text_quoted(out, arena_printf(out->arena, g->owner ? "%%%s" : "@%s",
                                  g->owner ? g->owner->name : g->name));
    text_add(out, ";\n");
    graph_foreach (g, n) {
        text_printf(out, "    g%s_n%d [label=", key, n->id);
        dot_label(out, n);
        text_printf(out, ", fillcolor=%s];\n", dot_color(op_info(n->op)->kind));
        for (int i = 0; i < n->n_in; i++)
            text_printf(out, "    g%s_n%d -> g%s_n%d;\n", key, n->in[i]->id, key, n->id);
        if (node_is_loop(n))
            dot_graph(out, n->body, arena_printf(out->arena, "%s_%d", key, n->id));
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        text_printf(out, "    g%s_o%d [shape=ellipse, label=", key, i);
        text_quoted(out, o->name ? o->name : output_kind_text(o->kind));
        text_printf(out, "];\n    g%s_n%d -> g%s_o%d;\n", key, o->value->id, key, i);
    }
    text_add(out, "  }\n");
}

void module_print_dot(Text *out, const Module *m)
{
    text_add(out, "digraph ");
    text_quoted(out, m->name);
    text_add(out, " {\n  node [shape=box, style=filled, fontname=monospace];\n");
    for (int i = 0; i < m->n_graphs; i++)
        dot_graph(out, m->graphs[i], arena_printf(out->arena, "%d", i));
    text_add(out, "}\n");
}

void op_list_print(Text *out)
{
    text_printf(out, "%-12s %-8s %-9s %-10s %s\n", "operator", "operands", "kind", "gradient",
                "attributes");
    for (int i = 0; i < OP_COUNT_; i++) {
        const OpInfo *info = op_info((OpCode)i);
        char operands[12] = "N";
        if (info->n_in >= 0)
            operands[0] = (char)('0' + info->n_in);
        text_printf(out, "%-12s %-8s %-9s %-10s ", info->text, operands,
                    op_kind_text(info->kind), info->grad);
        attrs_print_fields(out, info->attrs);
        while (out->len > 0 && out->s[out->len - 1] == ' ')
            out->s[--out->len] = '\0';
        text_add(out, "\n");
    }
}
