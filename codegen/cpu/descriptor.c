/* Rows are unpacked LLVM structs of i32, i64, double and pointers, whose layout is that of the C structs on
 * x86-64; every row's size is compared with its C struct. */
#include "codegen/cpu/descriptor.h"

#include <string.h>

#include "runtime/model_abi.h"

enum {
    MAX_FIELDS = 48
};

typedef struct Writer {
    Arena *arena;
    LLVMModuleRef module;
    LLVMContextRef context;
    const DescriptorInput *in;
    int n_strings;
    LLVMValueRef field[MAX_FIELDS]; /* of the row being written */
    int n;
} Writer;

static const char *const entry_names[HFTAC_N_ENTRIES] = {
    [HFTAC_ENTRY_INIT] = "init",       [HFTAC_ENTRY_TRAIN] = "train",
    [HFTAC_ENTRY_EVAL] = "eval",       [HFTAC_ENTRY_EVAL_END] = "eval_end",
    [HFTAC_ENTRY_PREDICT] = "predict",
};

static void put(Writer *w, LLVMValueRef v)
{
    if (w->n == MAX_FIELDS)
        diag_internal(NULL, "a row of the descriptor has more than %d fields", MAX_FIELDS);
    w->field[w->n++] = v;
}

static void put_i32(Writer *w, int64_t v)
{
    put(w, LLVMConstInt(LLVMInt32TypeInContext(w->context), (uint64_t)v, 1));
}

static LLVMValueRef i64_of(Writer *w, int64_t v)
{
    return LLVMConstInt(LLVMInt64TypeInContext(w->context), (uint64_t)v, 1);
}

static void put_i64(Writer *w, int64_t v)
{
    put(w, i64_of(w, v));
}

static void put_real(Writer *w, double v)
{
    put(w, LLVMConstReal(LLVMDoubleTypeInContext(w->context), v));
}

/* NULL: a null pointer. */
static void put_pointer(Writer *w, LLVMValueRef v)
{
    put(w, v ? v : LLVMConstNull(LLVMPointerTypeInContext(w->context, 0)));
}

static LLVMValueRef data(Writer *w, const char *name, LLVMValueRef init)
{
    LLVMValueRef g = LLVMAddGlobal(w->module, LLVMTypeOf(init), name);
    LLVMSetInitializer(g, init);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    return g;
}

static void put_text(Writer *w, const char *s)
{
    LLVMValueRef init = LLVMConstStringInContext(w->context, s, (unsigned)strlen(s), 0);
    put(w, data(w, arena_printf(w->arena, "text.%d", w->n_strings++), init));
}

static void put_shape(Writer *w, DType t, const Shape *s)
{
    LLVMValueRef dim[HFTAC_MAX_RANK];
    for (int i = 0; i < HFTAC_MAX_RANK; i++)
        dim[i] = i64_of(w, i < s->rank ? s->dim[i] : 0);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(w->context);
    LLVMValueRef field[3] = {
        LLVMConstInt(i32, (unsigned)t, 0), LLVMConstInt(i32, (unsigned)s->rank, 0),
        LLVMConstArray2(LLVMInt64TypeInContext(w->context), dim, HFTAC_MAX_RANK)};
    put(w, LLVMConstStructInContext(w->context, field, 3, 0));
}

/* The row written since the last one. */
static LLVMValueRef row(Writer *w, size_t size, const char *what)
{
    LLVMValueRef r = LLVMConstStructInContext(w->context, w->field, (unsigned)w->n, 0);
    w->n = 0;
    const uint64_t have = LLVMABISizeOfType(w->in->layout, LLVMTypeOf(r));
    if (have != size)
        diag_internal(NULL, "descriptor: a row of %s has %llu bytes instead of %zu", what,
                      (unsigned long long)have, size);
    return r;
}

static LLVMValueRef table(Writer *w, const char *name, LLVMValueRef *rows, int n)
{
    if (n == 0)
        return NULL;
    return data(w, name, LLVMConstArray2(LLVMTypeOf(rows[0]), rows, (uint64_t)n));
}

static LLVMValueRef *row_array(Writer *w, int n)
{
    return arena_array(w->arena, (size_t)n, sizeof(LLVMValueRef));
}

static int batch_axis(const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->batch[i])
            return i;
    return -1;
}

static int64_t type_bytes(const Type *t)
{
    return shape_count(&t->shape) * dtype_bytes(t->dtype);
}

static LLVMValueRef inputs(Writer *w)
{
    const Module *m = w->in->plan->module;
    LLVMValueRef *rows = row_array(w, m->n_inputs);
    for (int i = 0; i < m->n_inputs; i++) {
        const Input *in = &m->inputs[i];
        put_text(w, in->name);
        put_shape(w, in->type.dtype, &in->type.shape);
        put_i32(w, batch_axis(&in->type.shape));
        put_i32(w, in->target);
        put_i32(w, in->each);
        put_i32(w, in->drawn);
        put_i64(w, type_bytes(&in->type));
        rows[i] = row(w, sizeof(HftacInput), "inputs");
    }
    return table(w, "inputs", rows, m->n_inputs);
}

static LLVMValueRef real_table(Writer *w, const char *name, const RealList *l)
{
    if (l->n == 0)
        return NULL;
    LLVMTypeRef real = LLVMDoubleTypeInContext(w->context);
    LLVMValueRef *v = arena_array(w->arena, (size_t)l->n, sizeof *v);
    for (int64_t i = 0; i < l->n; i++)
        v[i] = LLVMConstReal(real, l->v[i]);
    return data(w, name, LLVMConstArray2(real, v, (uint64_t)l->n));
}

static LLVMValueRef hypers(Writer *w)
{
    const Module *m = w->in->plan->module;
    LLVMValueRef *rows = row_array(w, m->n_hypers);
    for (int i = 0; i < m->n_hypers; i++) {
        const Hyper *h = &m->hypers[i];
        put_text(w, h->name);
        put_real(w, h->value);
        put_i32(w, h->integer);
        put_i32(w, (int)h->domain);
        put_real(w, h->lo);
        put_real(w, h->hi);
        put_real(w, h->step);
        put_i64(w, h->set.n);
        put_pointer(w, real_table(w, arena_printf(w->arena, "set.%s", h->name), &h->set));
        rows[i] = row(w, sizeof(HftacHyper), "hypers");
    }
    return table(w, "hypers", rows, m->n_hypers);
}

static void put_layout(Writer *w, const State *s)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(w->context);
    LLVMValueRef axis[HFTAC_MAX_RANK];
    for (int i = 0; i < HFTAC_MAX_RANK; i++)
        axis[i] = LLVMConstInt(i32, (uint64_t)(i < s->layout.n ? s->layout.v[i] : i), 0);
    put(w, LLVMConstArray2(i32, axis, HFTAC_MAX_RANK));
}

static LLVMValueRef states(Writer *w)
{
    const Module *m = w->in->plan->module;
    LLVMValueRef *rows = row_array(w, m->n_states);
    for (int i = 0; i < m->n_states; i++) {
        const State *s = &m->states[i];
        put_text(w, s->name);
        put_shape(w, s->type.dtype, &s->type.shape);
        put_i32(w, (int)s->role);
        put_layout(w, s);
        put_i32(w, 0);
        put_i64(w, w->in->plan->states[i].offset);
        put_i64(w, w->in->plan->states[i].bytes);
        rows[i] = row(w, sizeof(HftacState), "states");
    }
    return table(w, "states", rows, m->n_states);
}

static LLVMValueRef outputs(Writer *w, int *count)
{
    const Graph *g = module_graph(w->in->plan->module, "predict");
    *count = 0;
    if (!g)
        return NULL;
    LLVMValueRef *rows = row_array(w, g->n_outputs);
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        if (o->kind != OUT_TENSOR)
            continue;
        const Shape *s = &o->value->type.shape;
        const int axis = batch_axis(s);
        put_text(w, o->name);
        put_shape(w, o->value->type.dtype, s);
        put_i32(w, axis);
        put_i32(w, 0);
        put_i64(w, axis < 0 ? 0 : s->batch[axis]);
        put_i64(w, type_bytes(&o->value->type));
        rows[(*count)++] = row(w, sizeof(HftacOutput), "outputs");
    }
    return table(w, "outputs", rows, *count);
}

static LLVMValueRef result_row(Writer *w, const Output *o, const char *name, int kind,
                               int index)
{
    const bool fault = kind == HFTAC_RESULT_FAULT;
    put_text(w, name);
    put_i32(w, kind);
    put_i32(w, index);
    put_i64(w, fault ? o->lo : 0);
    put_i64(w, fault ? o->hi : 0);
    put_i64(w, fault ? o->ignore : 0);
    put_i32(w, fault && o->has_ignore);
    put_i32(w, 0);
    return row(w, sizeof(HftacResult), "results");
}

static int result_kind(const Graph *g, const char *name)
{
    if (!strcmp(g->name, "train") && !strcmp(name, "ok"))
        return HFTAC_RESULT_OK;
    if (!strcmp(g->name, "train") &&
        (!strcmp(name, "schedule") || !strncmp(name, "schedule.", 9)))
        return HFTAC_RESULT_FACTOR;
    return HFTAC_RESULT_VALUE;
}

/* In the order of the graph's outputs, a fault being two results: the order of BUF_RESULT. */
static LLVMValueRef results(Writer *w, const EntryPlan *e)
{
    const Graph *g = e->graph;
    LLVMValueRef *rows = row_array(w, 2 * g->n_outputs);
    int n = 0;
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        const char *name = o->kind == OUT_FAULT && o->input ? o->input : o->name ? o->name : "";
        if (o->kind == OUT_RESULT) {
            rows[n] = result_row(w, o, name, result_kind(g, name), n);
            n++;
        } else if (o->kind == OUT_FAULT) {
            rows[n] = result_row(w, o, name, HFTAC_RESULT_FAULT, n);
            n++;
            rows[n] = result_row(w, o, name, HFTAC_RESULT_FAULT_VALUE, n);
            n++;
        }
    }
    if (n != e->n_results)
        diag_internal(NULL, "@%s has %d results, its plan %d", g->name, n, e->n_results);
    return table(w, arena_printf(w->arena, "results.%s", g->name), rows, n);
}

static void put_input_mask(Writer *w, const Graph *g)
{
    const Module *m = w->in->plan->module;
    uint64_t mask[2] = {0, 0};
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        for (int k = 0; n->op == OP_INPUT && k < m->n_inputs && k < 128; k++)
            if (!strcmp(m->inputs[k].name, n->attrs.leaf.name))
                mask[k / 64] |= UINT64_C(1) << (k % 64);
    }
    LLVMValueRef word[2] = {i64_of(w, (int64_t)mask[0]), i64_of(w, (int64_t)mask[1])};
    put(w, LLVMConstArray2(LLVMInt64TypeInContext(w->context), word, 2));
}

static void put_no_mask(Writer *w)
{
    LLVMValueRef word[2] = {i64_of(w, 0), i64_of(w, 0)};
    put(w, LLVMConstArray2(LLVMInt64TypeInContext(w->context), word, 2));
}

static LLVMValueRef entry_row(Writer *w, const char *name)
{
    const Plan *p = w->in->plan;
    for (int i = 0; i < p->n_entries; i++) {
        const EntryPlan *e = &p->entries[i];
        if (strcmp(e->graph->name, name))
            continue;
        LLVMValueRef rows = results(w, e);
        put_i32(w, 1);
        put_i32(w, e->n_results);
        put_pointer(w, w->in->regions[i].shared);
        put_pointer(w, w->in->regions[i].models);
        put_pointer(w, rows);
        put_input_mask(w, e->graph);
        return row(w, sizeof(HftacEntry), "entries");
    }
    put_i32(w, 0);
    put_i32(w, 0);
    put_pointer(w, NULL);
    put_pointer(w, NULL);
    put_pointer(w, NULL);
    put_no_mask(w);
    return row(w, sizeof(HftacEntry), "entries");
}

static LLVMValueRef entries(Writer *w)
{
    LLVMValueRef rows[HFTAC_N_ENTRIES];
    for (int i = 0; i < HFTAC_N_ENTRIES; i++)
        rows[i] = entry_row(w, entry_names[i]);
    return table(w, "entries", rows, HFTAC_N_ENTRIES);
}

static void put_header(Writer *w)
{
    const Plan *p = w->in->plan;
    const Module *m = p->module;
    put(w, LLVMConstStringInContext(w->context, HFTAC_ABI_MAGIC, sizeof HFTAC_ABI_MAGIC, 1));
    put_i32(w, HFTAC_ABI_MAJOR);
    put_i32(w, HFTAC_ABI_MINOR);
    put_i64(w, (int64_t)sizeof(HftacModel));
    put_text(w, w->in->options->version ? w->in->options->version : "");
    put_text(w, m->name);
    put_text(w, w->in->options->march);
    put_text(w, w->in->features);
    put_i64(w, m->n_models);
    put_i64(w, m->batch > 0 ? m->batch : 1);
    put_i64(w, m->epochs);
    put_i64(w, p->state_bytes);
    put_i64(w, p->shared_bytes);
    put_i64(w, p->scratch_bytes);
}

/* The address of `to` less that of field `field` of the note: the linker knows it, nothing is
 * left to relocate. */
static LLVMValueRef distance(Writer *w, LLVMValueRef to, LLVMValueRef note, LLVMTypeRef type,
                             unsigned field)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(w->context),
                i64 = LLVMInt64TypeInContext(w->context);
    LLVMValueRef at[2] = {LLVMConstInt(i32, 0, 0), LLVMConstInt(i32, field, 0)};
    LLVMValueRef from = LLVMConstInBoundsGEP2(type, note, at, 2);
    return LLVMConstSub(LLVMConstPtrToInt(to, i64), LLVMConstPtrToInt(from, i64));
}

/* The ELF note by which libhftac finds the descriptor; its hash is filled in after linking. */
static void note_emit(Writer *w, LLVMValueRef model)
{
    enum {
        MODEL_FIELD = 6
    };
    static const char name[8] = HFTAC_NOTE_NAME;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(w->context),
                i64 = LLVMInt64TypeInContext(w->context),
                byte = LLVMInt8TypeInContext(w->context),
                text = LLVMArrayType2(byte, sizeof name),
                hash = LLVMArrayType2(byte, HFTAC_HASH_BYTES);
    LLVMTypeRef fields[] = {i32, i32, i32, text, i32, i32, i64, hash};
    LLVMTypeRef type = LLVMStructTypeInContext(w->context, fields, 8, 1);
    LLVMValueRef note = LLVMAddGlobal(w->module, type, "note");
    LLVMValueRef value[] = {
        LLVMConstInt(i32, sizeof HFTAC_NOTE_NAME, 0),
        LLVMConstInt(i32, sizeof(HftacNote), 0),
        LLVMConstInt(i32, HFTAC_NOTE_TYPE, 0),
        LLVMConstStringInContext(w->context, name, sizeof name, 1),
        LLVMConstInt(i32, HFTAC_ABI_MAJOR, 0),
        LLVMConstInt(i32, HFTAC_ABI_MINOR, 0),
        distance(w, model, note, type, MODEL_FIELD),
        LLVMConstNull(hash),
    };
    LLVMSetInitializer(note, LLVMConstStructInContext(w->context, value, 8, 1));
    LLVMSetGlobalConstant(note, 1);
    LLVMSetSection(note, HFTAC_NOTE_SECTION);
    LLVMSetAlignment(note, 4);
    LLVMSetVisibility(note, LLVMHiddenVisibility);
}

void descriptor_emit(Arena *a, LLVMModuleRef module, const DescriptorInput *in)
{
    Writer w = {.arena = a, .module = module, .in = in};
    w.context = LLVMGetModuleContext(module);
    const Module *m = in->plan->module;
    int n_outputs;
    LLVMValueRef input_rows = inputs(&w), hyper_rows = hypers(&w), state_rows = states(&w);
    LLVMValueRef output_rows = outputs(&w, &n_outputs), entry_rows = entries(&w);
    put_header(&w);
    const int64_t count[6] = {m->n_inputs, m->n_hypers,         m->n_states,
                              n_outputs,   in->plan->n_results, HFTAC_N_ENTRIES};
    for (int i = 0; i < 6; i++)
        put_i32(&w, count[i]);
    const size_t size[6] = {sizeof(HftacInput),  sizeof(HftacHyper),  sizeof(HftacState),
                            sizeof(HftacOutput), sizeof(HftacResult), sizeof(HftacEntry)};
    for (int i = 0; i < 6; i++)
        put_i32(&w, (int64_t)size[i]);
    put_pointer(&w, input_rows);
    put_pointer(&w, hyper_rows);
    put_pointer(&w, state_rows);
    put_pointer(&w, output_rows);
    put_pointer(&w, entry_rows);
    LLVMValueRef init = row(&w, sizeof(HftacModel), "the model");
    LLVMValueRef g = data(&w, "model", init);
    LLVMSetAlignment(g, 64);
    LLVMAddAlias2(module, LLVMTypeOf(init), 0, g, HFTAC_ABI_SYMBOL);
    note_emit(&w, g);
}
