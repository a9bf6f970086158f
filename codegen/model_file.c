/* From a planned program to the descriptor's bytes.
 *
 * Each section grows in a buffer of its own, row by row; at the end they are laid one behind the
 * other, with the table of sections in front.  A row that names others holds their position, so
 * it is written after them. */
#include "codegen/model_file.h"

#include <string.h>

#include "ir/run_value.h"
#include "ir/support/map.h"
#include "ir/support/plain.h"
#include "runtime/model_abi.h"

typedef struct Section {
    Text bytes;
    uint32_t row_bytes;
} Section;

typedef struct Writer {
    Arena *arena;
    const Plan *plan;
    const Module *module;
    Section section[HFTAC_N_SECTIONS]; /* by tag */
    Map *place_numbers;                /* by buffer */
} Writer;

/* The same numbers in ir/ and in the file. */
#define DTYPE(NAME, text, bytes, cls) \
    static_assert((int)DT_##NAME == (int)HFTAC_DT_##NAME, "element types");
#include "ir/dtypes.def"
static_assert((int)ROLE_PARAM == HFTAC_ROLE_PARAM && (int)ROLE_BUFFER == HFTAC_ROLE_BUFFER &&
                  (int)ROLE_OPTIM == HFTAC_ROLE_OPTIM &&
                  (int)ROLE_COUNTER == HFTAC_ROLE_COUNTER &&
                  (int)ROLE_METRIC == HFTAC_ROLE_METRIC &&
                  (int)ROLE_GRADIENT == HFTAC_ROLE_GRADIENT &&
                  (int)ROLE_BATCH_COUNTER == HFTAC_ROLE_BATCH_COUNTER &&
                  (int)ROLE_SCHEDULE == HFTAC_ROLE_SCHEDULE &&
                  (int)ROLE_EPOCH_METRIC == HFTAC_ROLE_EPOCH_METRIC &&
                  (int)N_ROLES == HFTAC_N_ROLES,
              "roles");
static_assert((int)RUN_CLOCK_COUNT == HFTAC_N_CLOCK &&
                  (int)RUN_BATCH_COUNT == HFTAC_N_SCALARS &&
                  (int)RUN_EPOCH == HFTAC_CLOCK_EPOCH &&
                  (int)RUN_EPOCHS == HFTAC_CLOCK_EPOCHS &&
                  (int)RUN_STEPS_PER_EPOCH == HFTAC_CLOCK_STEPS_PER_EPOCH &&
                  (int)RUN_N_VALID == HFTAC_N_CLOCK + HFTAC_SCALAR_N_VALID,
              "scalars of the run");
static_assert((int)ENTRY_INIT == HFTAC_ENTRY_INIT && (int)ENTRY_TRAIN == HFTAC_ENTRY_TRAIN &&
                  (int)ENTRY_EVAL == HFTAC_ENTRY_EVAL &&
                  (int)ENTRY_EVAL_END == HFTAC_ENTRY_EVAL_END &&
                  (int)ENTRY_PREDICT == HFTAC_ENTRY_PREDICT &&
                  (int)N_ENTRIES == HFTAC_N_ENTRIES,
              "entry points");
static_assert((int)DOMAIN_NONE == HFTAC_DOMAIN_KIND_NONE &&
                  (int)DOMAIN_RANGE == HFTAC_DOMAIN_KIND_RANGE &&
                  (int)DOMAIN_LOG == HFTAC_DOMAIN_KIND_LOG &&
                  (int)DOMAIN_INT == HFTAC_DOMAIN_KIND_INT &&
                  (int)DOMAIN_SET == HFTAC_DOMAIN_KIND_SET,
              "domains");
static_assert((int)MAX_STORED_RANK == HFTAC_MAX_RANK && (int)MAX_INPUTS == HFTAC_MAX_INPUTS,
              "limits");

/* ---- rows ---- */

static uint32_t count_rows(const Writer *w, int tag)
{
    const Section *s = &w->section[tag];
    return s->row_bytes ? (uint32_t)(s->bytes.len / s->row_bytes) : 0;
}

/* Appends a row; its position. */
static uint32_t put(Writer *w, int tag, const void *row, size_t bytes)
{
    Section *s = &w->section[tag];
    const uint32_t at = count_rows(w, tag);
    s->row_bytes = (uint32_t)bytes;
    text_addn(&s->bytes, row, bytes);
    return at;
}

/* Texts are plain (runtime/plain.h), for programs print them; a source file's path need not be. */
static HftacText put_text(Writer *w, const char *s)
{
    Section *t = &w->section[HFTAC_SECTION_TEXT];
    if (!s || !*s)
        return 0;
    const HftacText at = (HftacText)t->bytes.len;
    t->row_bytes = 1;
    plain_add(&t->bytes, s);
    text_addn(&t->bytes, "", 1);
    return at;
}

static HftacShape shape_row(DType t, const Shape *s)
{
    HftacShape r = {.dtype = (uint32_t)t, .rank = (uint32_t)s->rank};
    memcpy(r.dim, s->dim, (size_t)s->rank * sizeof r.dim[0]);
    return r;
}

/* The first axis that is all samples, once; -1: there is none. */
static int batch_axis(const Module *m, const Shape *s)
{
    const int64_t samples = m->batch > 0 ? m->batch : 1;
    for (int i = 0; i < s->rank; i++)
        if (s->batch[i] > 0 && s->dim[i] == s->batch[i] * samples)
            return i;
    return -1;
}

static uint64_t type_bytes(const Type *t)
{
    return (uint64_t)(shape_count(&t->shape) * dtype_bytes(t->dtype));
}

static void put_inputs(Writer *w)
{
    for (int i = 0; i < w->module->n_inputs; i++) {
        const Input *in = &w->module->inputs[i];
        const HftacInput row = {.name = put_text(w, in->name),
                                .batch_axis = batch_axis(w->module, &in->type.shape),
                                .shape = shape_row(in->type.dtype, &in->type.shape),
                                .is_target = in->target,
                                .is_each = in->each,
                                .is_drawn = in->drawn,
                                .bytes = type_bytes(&in->type)};
        put(w, HFTAC_SECTION_INPUTS, &row, sizeof row);
    }
}

static void put_hypers(Writer *w)
{
    for (int i = 0; i < w->module->n_hypers; i++) {
        const Hyper *h = &w->module->hypers[i];
        const HftacHyper row = {.name = put_text(w, h->name),
                                .is_integer = h->integer,
                                .domain = (uint32_t)h->domain,
                                .first_set = count_rows(w, HFTAC_SECTION_REALS),
                                .n_set = (uint32_t)h->set.n,
                                .value = h->value,
                                .lo = h->lo,
                                .hi = h->hi,
                                .step = h->step};
        for (int64_t k = 0; k < h->set.n; k++)
            put(w, HFTAC_SECTION_REALS, &h->set.v[k], sizeof h->set.v[k]);
        put(w, HFTAC_SECTION_HYPERS, &row, sizeof row);
    }
}

static void put_states(Writer *w)
{
    for (int i = 0; i < w->module->n_states; i++) {
        const State *s = &w->module->states[i];
        HftacState row = {.name = put_text(w, s->name),
                          .role = (uint32_t)s->role,
                          .shape = shape_row(s->type.dtype, &s->type.shape),
                          .offset = (uint64_t)w->plan->states[i].offset,
                          .model_bytes = (uint64_t)w->plan->states[i].model_bytes,
                          .bytes = (uint64_t)w->plan->states[i].bytes};
        for (int k = 0; k < HFTAC_MAX_RANK; k++)
            row.layout[k] = (uint32_t)(k < s->layout.n ? s->layout.v[k] : k);
        put(w, HFTAC_SECTION_STATES, &row, sizeof row);
    }
}

static void put_outputs(Writer *w)
{
    const Graph *g = module_graph(w->module, ENTRY_PREDICT);
    for (int i = 0; g && i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        if (o->kind != OUT_TENSOR)
            continue;
        const Type *t = o->host_type ? o->host_type : &o->value->type;
        const int axis = batch_axis(w->module, &t->shape);
        const HftacOutput row = {.name = put_text(w, o->name),
                                 .batch_axis = axis,
                                 .shape = shape_row(t->dtype, &t->shape),
                                 .per_sample = axis < 0 ? 0 : t->shape.batch[axis],
                                 .bytes = type_bytes(t)};
        put(w, HFTAC_SECTION_OUTPUTS, &row, sizeof row);
    }
}

/* ---- entries ---- */

static void put_result(Writer *w, const Output *o, int kind, uint32_t *index)
{
    const Input *input = o->input ? module_input(w->module, o->input) : NULL;
    HftacResult row = {.name = put_text(w, o->name ? o->name : ""),
                       .kind = (uint32_t)kind,
                       .index = (*index)++,
                       .is_loss = o->kind == OUT_LOSS,
                       .input = input ? (int32_t)(input - w->module->inputs) : -1};
    if (kind == HFTAC_RESULT_FAULT) {
        row.lo = o->lo;
        row.hi = o->hi;
        row.ignore = o->ignore;
        row.has_ignore = o->has_ignore;
    }
    put(w, HFTAC_SECTION_RESULTS, &row, sizeof row);
}

/* In the order of the graph's outputs, a fault being two results: the order of BUF_RESULT. */
static void put_results(Writer *w, const EntryPlan *e)
{
    const Graph *g = e->graph;
    uint32_t n = 0;
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        switch (o->kind) {
        case OUT_RESULT:
        case OUT_LOSS:
            put_result(w, o, HFTAC_RESULT_VALUE, &n);
            break;
        case OUT_OK:
            put_result(w, o, HFTAC_RESULT_OK, &n);
            break;
        case OUT_FACTOR:
            put_result(w, o, HFTAC_RESULT_FACTOR, &n);
            break;
        case OUT_CAUSE:
            put_result(w, o, HFTAC_RESULT_CAUSE, &n);
            break;
        case OUT_STATE:
            if (output_is_watched(o))
                put_result(w, o, HFTAC_RESULT_KEPT, &n);
            break;
        case OUT_FAULT:
            put_result(w, o, HFTAC_RESULT_FAULT, &n);
            put_result(w, o, HFTAC_RESULT_FAULT_VALUE, &n);
            break;
        case OUT_TENSOR: /* in memory of its own */
        case OUT_NEXT:
        case OUT_STACK:
            break;
        }
    }
    if ((int)n != e->n_results)
        diag_internal(NULL, "@%s has %u results, its plan %d", g->name, n, e->n_results);
}

static void mark_inputs(const Writer *w, const Graph *g, HftacEntry *row)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; g->nodes[i]->op == OP_INPUT && k < w->module->n_inputs; k++)
            if (!strcmp(w->module->inputs[k].name, g->nodes[i]->attrs.leaf.name))
                row->input_mask[k / 64] |= UINT64_C(1) << (k % 64);
}

/* "model.hdl:12"; NULL: the node has no place in a source. */
static const char *source_of(const Writer *w, const Node *n)
{
    unsigned line, column;
    const char *path = n->loc.file >= 0 ? diag_path(w->module->diag, n->loc.file) : NULL;
    if (!path)
        return NULL;
    diag_line_col(w->module->diag, n->loc, &line, &column);
    return arena_printf(w->arena, "%s:%u", path, line);
}

#define SAME(NAME) static_assert((int)BUF_##NAME == (int)HFTAC_PLACE_##NAME, "places");
SAME(STATE)
SAME(INPUT)
SAME(HYPER)
SAME(CLOCK)
SAME(SCALAR)
SAME(SEED)
SAME(CONST)
SAME(SHARED)
SAME(SCRATCH)
SAME(RESULT)
SAME(OUTPUT)
#undef SAME

/* Memory of its own. */
static HftacPlace whole_place(const Buffer *b, int address)
{
    return (HftacPlace){.space = (uint32_t)b->space,
                        .index = (uint32_t)(b->space == BUF_CONST ? address : b->index),
                        .offset = b->offset,
                        .model_bytes = b->model_bytes};
}

/* The place's number; those that it is a part of stand in front of it. */
static uint32_t put_place(Writer *w, const Buffer *b, int address)
{
    const int same = map_get(w->place_numbers, b);
    if (same >= 0)
        return (uint32_t)same;
    HftacPlace row = b->base ? (HftacPlace){.space = HFTAC_PLACE_PART,
                                            .base = put_place(w, b->base, address),
                                            .depth = (uint32_t)b->depth,
                                            .offset = b->shift,
                                            .step = b->step}
                             : whole_place(b, address);
    if (b->base)
        row.odd_base = b->odd_base ? put_place(w, b->odd_base, address) : row.base;
    const uint32_t at = put(w, HFTAC_SECTION_PLACES, &row, sizeof row);
    map_set(w->place_numbers, b, (int)at);
    return at;
}

static uint32_t put_kernel(Writer *w, const Kernel *k, const KernelCode *code)
{
    const uint32_t first = count_rows(w, HFTAC_SECTION_LISTS);
    for (int i = 0; i < code->n_places; i++) {
        const uint32_t at = put_place(w, code->places[i].buffer, code->places[i].address);
        put(w, HFTAC_SECTION_LISTS, &at, sizeof at);
    }
    const HftacKernel row = {.name = put_text(w, k->name),
                             .source = put_text(w, source_of(w, k->stores[0].value)),
                             .kind = (uint32_t)k->kind,
                             .is_per_model = k->per_model,
                             .function = (uint32_t)code->function,
                             .first_place = first,
                             .n_places = (uint32_t)code->n_places,
                             .n_work = code->n_work,
                             .operations = code->operations,
                             .bytes_read = code->bytes_read,
                             .bytes_written = code->bytes_written};
    return put(w, HFTAC_SECTION_KERNELS, &row, sizeof row);
}

/* Room for n steps; their positions are known before what they name is written. */
static uint32_t reserve_steps(Writer *w, int n)
{
    const uint32_t first = count_rows(w, HFTAC_SECTION_STEPS);
    const HftacStep empty = {0};
    for (int i = 0; i < n; i++)
        put(w, HFTAC_SECTION_STEPS, &empty, sizeof empty);
    return first;
}

static void fill_step(Writer *w, uint32_t at, const HftacStep *row)
{
    memcpy(w->section[HFTAC_SECTION_STEPS].bytes.s + at * sizeof *row, row, sizeof *row);
}

static const uint32_t step_kinds[] = {[STEP_SHARED] = HFTAC_STEP_SHARED,
                                      [STEP_MODELS] = HFTAC_STEP_MODELS,
                                      [STEP_BARRIER] = HFTAC_STEP_BARRIER,
                                      [STEP_KERNEL] = HFTAC_STEP_KERNEL,
                                      [STEP_LOOP] = HFTAC_STEP_LOOP};

/* The list of an entry or of something in it; run: functions of the runs, NULL below them.  The
 * position of its first step. */
static uint32_t put_steps(Writer *w, const EntryPlan *e, const Step *list, int n,
                          const KernelCode *code, const int *run)
{
    const uint32_t first = reserve_steps(w, n);
    for (int i = 0; i < n; i++) {
        const Step *s = &list[i];
        HftacStep row = {.kind = step_kinds[s->kind], .n_steps = (uint32_t)s->n_list};
        if (s->kind == STEP_KERNEL)
            row.kernel = put_kernel(w, &e->kernels[s->kernel], &code[s->kernel]);
        if (step_is_run(s)) {
            row.function = (uint32_t)run[i];
            row.first_step = put_steps(w, e, s->list, s->n_list, code, NULL);
        }
        if (s->kind == STEP_LOOP) {
            const LoopPlan *loop = e->kernels[s->kernel].loop;
            row.count = loop->count;
            row.first_step =
                put_steps(w, loop->body, s->list, s->n_list, code[s->kernel].body, NULL);
        }
        fill_step(w, first + (uint32_t)i, &row);
    }
    return first;
}

static void put_entry(Writer *w, int kind, const EntryPlan *e, const EntryCode *code)
{
    HftacEntry row = {.kind = (uint32_t)kind,
                      .first_result = count_rows(w, HFTAC_SECTION_RESULTS)};
    put_results(w, e);
    row.n_steps = (uint32_t)e->n_steps;
    row.first_step = put_steps(w, e, e->steps, e->n_steps, code->kernels, code->run);
    row.n_results = count_rows(w, HFTAC_SECTION_RESULTS) - row.first_result;
    row.whole = e->graph->whole ? put_text(w, e->graph->whole) : 0;
    mark_inputs(w, e->graph, &row);
    put(w, HFTAC_SECTION_ENTRIES, &row, sizeof row);
}

static void put_entries(Writer *w, const EntryCode *entries)
{
    for (int kind = 0; kind < HFTAC_N_ENTRIES; kind++)
        for (int i = 0; i < w->plan->n_entries; i++)
            if ((int)w->plan->entries[i].graph->entry == kind)
                put_entry(w, kind, &w->plan->entries[i], &entries[i]);
}

/* ---- the whole ---- */

static void put_info(Writer *w, const char *version)
{
    const Module *m = w->module;
    const HftacInfo row = {.version = put_text(w, version),
                           .name = put_text(w, m->name),
                           .n_models = m->n_models,
                           .batch = m->batch > 0 ? m->batch : 1,
                           .epochs = m->epochs,
                           .shared_bytes = (uint64_t)w->plan->shared_bytes,
                           .scratch_bytes = (uint64_t)w->plan->scratch_bytes,
                           .n_results = (uint32_t)w->plan->n_results};
    put(w, HFTAC_SECTION_INFO, &row, sizeof row);
}

static void put_variant(Writer *w)
{
    const HftacVariant row = {.hi = w->module->n_models,
                              .n_states = count_rows(w, HFTAC_SECTION_STATES),
                              .n_entries = count_rows(w, HFTAC_SECTION_ENTRIES),
                              .state_bytes = (uint64_t)w->plan->state_bytes};
    put(w, HFTAC_SECTION_VARIANTS, &row, sizeof row);
}

static int put_codes(Writer *w, int n, const CodeVersion *codes)
{
    int n_addresses = 0;
    for (int i = 0; i < n; i++) {
        const HftacCode row = {.march = put_text(w, codes[i].march),
                               .features = put_text(w, codes[i].features),
                               .first_address = (uint32_t)n_addresses,
                               .n_addresses = (uint32_t)codes[i].n_addresses};
        put(w, HFTAC_SECTION_CODE, &row, sizeof row);
        n_addresses += codes[i].n_addresses;
    }
    return n_addresses;
}

static uint64_t rounded(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

/* Head, table of sections, sections in the order of their tags; the words of addresses would come
 * next. */
static ModelFile lay_out(Writer *w, int n_addresses)
{
    HftacSection table[HFTAC_N_SECTIONS];
    uint32_t n = 0;
    for (int tag = 1; tag < HFTAC_N_SECTIONS; tag++)
        n += tag == HFTAC_SECTION_ADDRESSES || w->section[tag].bytes.len;
    uint64_t at = sizeof(HftacModel) + n * sizeof(HftacSection);
    n = 0;
    for (int tag = 1; tag < HFTAC_SECTION_ADDRESSES; tag++) {
        const Section *s = &w->section[tag];
        if (!s->bytes.len)
            continue;
        table[n++] = (HftacSection){(uint32_t)tag, s->row_bytes, at, s->bytes.len};
        at += rounded(s->bytes.len);
    }
    const uint64_t words = (uint64_t)n_addresses * sizeof(int64_t);
    table[n++] = (HftacSection){HFTAC_SECTION_ADDRESSES, sizeof(int64_t), at, words};
    const HftacModel head = {
        HFTAC_ABI_MAGIC, HFTAC_ABI_MAJOR, HFTAC_ABI_MINOR, at + words, n, sizeof(HftacSection)};
    ModelFile f = {.bytes = arena_alloc(w->arena, at), .n = at, .n_addresses = n_addresses};
    memcpy(f.bytes, &head, sizeof head);
    memcpy(f.bytes + sizeof head, table, n * sizeof table[0]);
    for (uint32_t i = 0; i + 1 < n; i++)
        memcpy(f.bytes + table[i].offset, w->section[table[i].tag].bytes.s, table[i].bytes);
    return f;
}

ModelFile model_file_write(Arena *a, const Plan *plan, const char *version,
                           const EntryCode *entries, int n_codes, const CodeVersion *codes)
{
    Writer w = {
        .arena = a, .plan = plan, .module = plan->module, .place_numbers = map_of_addresses(a)};
    for (int tag = 0; tag < HFTAC_N_SECTIONS; tag++)
        text_init(&w.section[tag].bytes, a);
    text_addn(&w.section[HFTAC_SECTION_TEXT].bytes, "", 1);
    put_info(&w, version);
    put_inputs(&w);
    put_hypers(&w);
    put_states(&w);
    put_outputs(&w);
    put_entries(&w, entries);
    put_variant(&w);
    return lay_out(&w, put_codes(&w, n_codes, codes));
}
