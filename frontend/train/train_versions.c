/* Several updates in one step: what a clause computes sees the parameters as the clauses before
 * have left them.
 *
 * The model is elaborated once, over the parameters from before the step.  For a clause, the part
 * of its loss that depends on a parameter updated since is made again with the new value in its
 * place; everything else is shared: random masks, because they read no parameter, and statistics,
 * because they are never followed.  The new value stands behind a detach, so that no gradient
 * flows through an optimizer.
 *
 * A state written by `:=` in a block advances once for each textual call of the block that some
 * clause evaluates, in the order in which the clauses evaluate them, from the values of the first
 * clause that does. */
#include "frontend/train/train.h"

#include <string.h>

#include "ir/loop.h"

typedef struct UpdatedParam {
    const char *name;
    Node *value; /* behind a detach */
} UpdatedParam;

struct Versions {
    Elab *e;
    Graph *graph;
    int n;       /* nodes of the model; later ones are nobody's version */
    Node **now;  /* by id: the version of the current clause, or NULL */
    Node **told; /* by id: the value of a `:=` that has been evaluated */
    bool *is_write;
    int *clause; /* by write: the first to evaluate it, or -1 */
    UpdatedParam *updated;
    int n_updated, cap_updated;
};

static Node *updated_value(const Versions *v, const char *state)
{
    for (int i = 0; i < v->n_updated; i++)
        if (strcmp(v->updated[i].name, state) == 0)
            return v->updated[i].value;
    return NULL;
}

/* Marks what `root` needs; of what there is a version of, nothing more is needed. */
static bool *cone_of(const Versions *v, const Node *root)
{
    bool *in = arena_array(v->e->arena, (size_t)v->n, sizeof *in);
    if (root->id < v->n)
        in[root->id] = true;
    for (int i = root->id < v->n ? root->id : -1; i >= 0; i--)
        for (int k = 0; in[i] && v->now[i] == NULL && k < v->graph->nodes[i]->n_in; k++)
            in[v->graph->nodes[i]->in[k]->id] = true;
    return in;
}

/* A call is evaluated if anything it computes is needed; leaves are shared by calls. */
static bool evaluates(const Versions *v, const bool *cone, const StateWrite *w)
{
    const int hi = w->hi < v->n ? w->hi : v->n;
    for (int i = w->lo; i < hi; i++)
        if (cone[i] && v->graph->nodes[i]->n_in > 0)
            return true;
    return false;
}

Versions *versions_new(Elab *e, int n_losses, Node *const *loss)
{
    Versions *v = arena_alloc(e->arena, sizeof *v);
    *v = (Versions){.e = e, .graph = e->b.graph, .n = e->b.graph->n_nodes};
    v->now = arena_array(e->arena, (size_t)v->n, sizeof *v->now);
    v->told = arena_array(e->arena, (size_t)v->n, sizeof *v->told);
    v->is_write = arena_array(e->arena, (size_t)v->n, sizeof *v->is_write);
    v->clause = arena_array(e->arena, (size_t)e->n_writes + 1, sizeof *v->clause);
    for (int i = 0; i < e->n_writes; i++) {
        v->clause[i] = -1;
        if (e->writes[i].value->id < v->n)
            v->is_write[e->writes[i].value->id] = true;
    }
    for (int k = 0; k < n_losses; k++) {
        const bool *cone = cone_of(v, loss[k]);
        for (int i = 0; i < e->n_writes; i++)
            if (v->clause[i] < 0 && evaluates(v, cone, &e->writes[i]))
                v->clause[i] = k;
    }
    return v;
}

/* A loop's body belongs to one node. */
static Graph *copy_body(Versions *v, const Graph *from)
{
    Graph *body = loop_body_new(v->e->module, from->name);
    Node **copy = arena_array(v->e->arena, (size_t)from->n_nodes + 1, sizeof(Node *));
    for (int i = 0; i < from->n_nodes; i++) {
        Node n = *from->nodes[i];
        n.in = arena_array(v->e->arena, (size_t)n.n_in + 1, sizeof(Node *));
        for (int k = 0; k < n.n_in; k++)
            n.in[k] = copy[from->nodes[i]->in[k]->id];
        if (n.body != NULL)
            n.body = copy_body(v, n.body);
        copy[i] = graph_append(body, &n);
        if (n.body != NULL) {
            n.body->owner = copy[i];
            n.body->outer = body;
        }
    }
    for (int i = 0; i < from->n_outputs; i++) {
        Output o = from->outputs[i];
        o.value = copy[o.value->id];
        graph_add_output(body, &o);
    }
    body->depth = from->depth;
    return body;
}

static Node *remade(Versions *v, const Node *n)
{
    Node copy = *n;
    copy.in = arena_array(v->e->arena, (size_t)n->n_in + 1, sizeof(Node *));
    for (int k = 0; k < n->n_in; k++)
        copy.in[k] = v->now[n->in[k]->id];
    if (n->body != NULL)
        copy.body = copy_body(v, n->body);
    Node *made = graph_append(v->graph, &copy);
    if (made->body != NULL) {
        made->body->owner = made;
        made->body->outer = v->graph;
    }
    return made;
}

static Node *version_one(Versions *v, Node *n)
{
    if (v->told[n->id] != NULL)
        return v->told[n->id];
    if (n->op == OP_STATE) {
        Node *value = updated_value(v, n->attrs.leaf.name);
        return value != NULL ? value : n;
    }
    for (int k = 0; k < n->n_in; k++)
        if (v->now[n->in[k]->id] != n->in[k])
            return remade(v, n);
    return n;
}

static Node *version_of(Versions *v, Node *root)
{
    if (root->id >= v->n)
        return root;
    const bool *cone = cone_of(v, root);
    for (int i = 0; i <= root->id; i++)
        if (cone[i] && v->now[i] == NULL) {
            v->now[i] = version_one(v, v->graph->nodes[i]);
            if (v->is_write[i])
                v->told[i] = v->now[i];
        }
    return v->now[root->id];
}

/* Forgets the versions of whatever depends on a marked node; marks it too. */
static void forget_dependents(Versions *v, bool *marked)
{
    for (int i = 0; i < v->n; i++) {
        const Node *n = v->graph->nodes[i];
        for (int k = 0; k < n->n_in && !v->is_write[i]; k++)
            marked[i] |= marked[n->in[k]->id];
        if (marked[i])
            v->now[i] = NULL;
    }
}

/* What the write's state is now: the last write evaluated, or its value from before the step. */
static Node *state_so_far(const Versions *v, int write)
{
    const Elab *e = v->e;
    Node *now = NULL;
    int best = -1;
    for (int i = 0; i < e->n_writes; i++) {
        const StateWrite *w = &e->writes[i];
        if (strcmp(w->state, e->writes[write].state) != 0 || i == write)
            continue;
        Node *told = w->value->id < v->n ? v->told[w->value->id] : NULL;
        if (v->clause[i] >= 0 && told != NULL && v->clause[i] >= best) {
            best = v->clause[i];
            now = told;
        }
    }
    if (now != NULL)
        return now;
    return build_state(&v->e->b, e->writes[write].state);
}

/* The `:=` number i under the current versions.  Where the clauses evaluate the calls in another
 * order than the text, what stood before it is replaced while its value is made. */
static void advance(Versions *v, int i)
{
    const StateWrite *w = &v->e->writes[i];
    if (w->value->id >= v->n || v->told[w->value->id] != NULL)
        return;
    Node *before = w->before, *so_far = state_so_far(v, i);
    const bool unknown =
        before->id < v->n && v->is_write[before->id] && v->told[before->id] == NULL;
    if (unknown || version_of(v, before) != so_far) {
        Node **kept = arena_array(v->e->arena, (size_t)v->n, sizeof *kept);
        bool *marked = arena_array(v->e->arena, (size_t)v->n, sizeof *marked);
        memcpy(kept, v->now, (size_t)v->n * sizeof *kept);
        marked[before->id] = true;
        forget_dependents(v, marked);
        v->now[w->value->id] = NULL;
        v->now[before->id] = so_far;
        v->told[w->value->id] = version_of(v, w->value);
        for (int k = 0; k < v->n; k++)
            if (marked[k])
                v->now[k] = kept[k];
    }
    v->told[w->value->id] = version_of(v, w->value);
}

Node *versions_loss(Versions *v, int clause, Node *loss)
{
    Node *made = version_of(v, loss);
    for (int i = 0; i < v->e->n_writes; i++)
        if (v->clause[i] == clause)
            advance(v, i);
    return made;
}

Node *versions_param(Versions *v, const char *name)
{
    return version_of(v, build_state(&v->e->b, name));
}

void versions_update(Versions *v, const char *name, Node *value)
{
    Elab *e = v->e;
    e->b.hint = arena_printf(e->arena, "%s.updated", name);
    Node *detached = build1(&e->b, OP_DETACH, value);
    for (int i = 0; i < v->n_updated; i++)
        if (strcmp(v->updated[i].name, name) == 0) {
            v->updated[i].value = detached;
            return;
        }
    if (v->n_updated == v->cap_updated)
        v->updated = arena_grow(e->arena, v->updated, &v->cap_updated, sizeof *v->updated);
    v->updated[v->n_updated++] = (UpdatedParam){name, detached};
}

void versions_next(Versions *v, int n, const char *const *names)
{
    bool *marked = arena_array(v->e->arena, (size_t)v->n, sizeof *marked);
    for (int i = 0; i < n; i++) {
        const Node *state = build_state(&v->e->b, names[i]);
        if (state->id < v->n)
            marked[state->id] = true;
    }
    forget_dependents(v, marked);
}

void versions_end(Versions *v)
{
    Elab *e = v->e;
    for (int i = 0; i < e->n_writes; i++) {
        const StateWrite *w = &e->writes[i];
        bool any = false;
        Node *now = w->before;
        int best = -1;
        for (int k = 0; k < e->n_writes; k++)
            if (strcmp(e->writes[k].state, w->state) == 0 && v->clause[k] >= 0 &&
                v->clause[k] >= best) {
                any = true;
                best = v->clause[k];
                now = v->told[e->writes[k].value->id];
            }
        if (any)
            state_next(e, w->state, now, w->loc);
        else
            state_unwrite(e, w->state);
    }
}
