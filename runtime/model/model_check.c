/* Is the descriptor inside a model.so what model_abi.h says?
 *
 * A section is followed only if it lies in the block and the block in the file's own segments, a
 * position only if it is one of a row that is there, a function only if it lies in an executable
 * segment, and every number that later code relies on (offsets in the state block, positions of
 * results, bytes of a shape) is checked here once. */
#include <elf.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/model/model.h"
#include "runtime/plain.h"

enum {
    MAX_MODELS = 1 << 20,
    MAX_ROW_BYTES = 1 << 16,
    MAX_SECTIONS = 1 << 12
};

typedef struct ModelCheck {
    const ElfFile *file;
    const Mapping *mapping;
    Model *m;
    uint64_t address; /* of the block, as the file says */
    uint64_t bytes;
    uint64_t n_listed; /* steps in lists that were checked */
    const char *fault; /* the first one found */
} ModelCheck;

static bool fault(ModelCheck *c, const char *what)
{
    if (!c->fault)
        c->fault = what;
    return false;
}

/* ---- sections ---- */

/* What a section's rows must have. */
static const uint32_t least_bytes[HFTAC_N_SECTIONS] = {
    [HFTAC_SECTION_INFO] = sizeof(HftacInfo),
    [HFTAC_SECTION_TEXT] = 1,
    [HFTAC_SECTION_REALS] = sizeof(double),
    [HFTAC_SECTION_INPUTS] = sizeof(HftacInput),
    [HFTAC_SECTION_HYPERS] = sizeof(HftacHyper),
    [HFTAC_SECTION_STATES] = sizeof(HftacState),
    [HFTAC_SECTION_OUTPUTS] = sizeof(HftacOutput),
    [HFTAC_SECTION_RESULTS] = sizeof(HftacResult),
    [HFTAC_SECTION_ENTRIES] = sizeof(HftacEntry),
    [HFTAC_SECTION_STEPS] = sizeof(HftacStep),
    [HFTAC_SECTION_VARIANTS] = sizeof(HftacVariant),
    [HFTAC_SECTION_CODE] = sizeof(HftacCode),
    [HFTAC_SECTION_KERNELS] = sizeof(HftacKernel),
    [HFTAC_SECTION_PLACES] = sizeof(HftacPlace),
    [HFTAC_SECTION_LISTS] = sizeof(uint32_t),
    [HFTAC_SECTION_ADDRESSES] = sizeof(int64_t),
};

static bool check_section(ModelCheck *c, const HftacSection *s)
{
    if (s->tag & HFTAC_SECTION_NEEDED)
        return fault(c, "it needs a newer libhftac");
    if (s->tag == 0 || s->tag >= HFTAC_N_SECTIONS)
        return true;
    Table *t = &c->m->table[s->tag];
    const bool text = s->tag == HFTAC_SECTION_TEXT, list = s->tag == HFTAC_SECTION_LISTS;
    if (t->rows)
        return fault(c, "a section is there twice");
    if (s->offset > c->bytes || s->bytes > c->bytes - s->offset || s->offset % 8 != 0)
        return fault(c, "a section lies outside the descriptor");
    if (s->row_bytes < least_bytes[s->tag] || s->row_bytes > MAX_ROW_BYTES ||
        (text   ? s->row_bytes != 1
         : list ? s->row_bytes != sizeof(uint32_t)
                : s->row_bytes % 8 != 0) ||
        s->bytes % s->row_bytes != 0 || s->bytes / s->row_bytes > UINT32_MAX)
        return fault(c, "a section's size is wrong");
    *t = (Table){c->m->block + s->offset, (uint32_t)(s->bytes / s->row_bytes), s->row_bytes};
    return true;
}

static uint32_t count(const ModelCheck *c, int tag)
{
    return c->m->table[tag].n;
}

/* Programs print names and source places: no text commands a terminal. */
static bool is_plain(const char *texts, size_t n)
{
    for (size_t i = 0; i < n;) {
        const PlainPiece piece = hft_plain_piece(texts + i, n - i);
        if (texts[i] && !piece.plain)
            return false;
        i += piece.bytes;
    }
    return true;
}

static bool read_sections(ModelCheck *c, const HftacModel *head)
{
    const uint64_t all = (uint64_t)head->n_sections * head->section_bytes;
    if (head->n_sections > MAX_SECTIONS || head->section_bytes < sizeof(HftacSection) ||
        head->section_bytes % 8 != 0 || head->section_bytes > MAX_ROW_BYTES ||
        all > c->bytes - sizeof *head)
        return fault(c, "its table of sections is wrong");
    for (uint32_t i = 0; i < head->n_sections; i++) {
        HftacSection s;
        memcpy(&s, c->m->block + sizeof *head + (size_t)i * head->section_bytes, sizeof s);
        if (!check_section(c, &s))
            return false;
    }
    const Table *text = &c->m->table[HFTAC_SECTION_TEXT];
    if (count(c, HFTAC_SECTION_INFO) != 1 || count(c, HFTAC_SECTION_VARIANTS) != 1 ||
        count(c, HFTAC_SECTION_CODE) < 1)
        return fault(c, "a section is missing");
    if (!text->n || text->rows[0] != 0 || text->rows[text->n - 1] != 0)
        return fault(c, "its texts have no end");
    return is_plain((const char *)text->rows, text->n)
               ? true
               : fault(c, "a text in it has characters that no terminal may be sent");
}

/* ---- rows ---- */

static bool check_text(ModelCheck *c, HftacText text)
{
    return text < count(c, HFTAC_SECTION_TEXT) ? true
                                               : fault(c, "a text lies outside its section");
}

static bool check_name(ModelCheck *c, HftacText text)
{
    if (!check_text(c, text))
        return false;
    return *hft_model_text(c->m, text) ? true : fault(c, "a name is empty");
}

static bool check_rows(ModelCheck *c, int tag, uint32_t first, uint32_t n)
{
    return first <= count(c, tag) && n <= count(c, tag) - first
               ? true
               : fault(c, "a row names rows that are not there");
}

static bool check_shape(ModelCheck *c, const HftacShape *shape, int32_t batch_axis,
                        int64_t per_sample, uint64_t bytes)
{
    uint64_t need = 0;
    if (!hft_shape_bytes(shape, &need) || need > bytes)
        return fault(c, "a shape and its bytes disagree");
    if (batch_axis < -1 || batch_axis >= (int32_t)shape->rank)
        return fault(c, "a batch axis is out of range");
    if (batch_axis >= 0 && (per_sample <= 0 || shape->dim[batch_axis] % per_sample != 0 ||
                            shape->dim[batch_axis] / per_sample != c->m->info->batch))
        return fault(c, "a batch axis does not have the batch's size");
    return true;
}

static bool check_layout(ModelCheck *c, const HftacState *s)
{
    unsigned seen = 0;
    for (uint32_t k = 0; k < s->shape.rank; k++)
        if (s->layout[k] < s->shape.rank)
            seen |= 1u << s->layout[k];
    return seen == (1u << s->shape.rank) - 1
               ? true
               : fault(c, "a state's layout is not a permutation of its axes");
}

static bool is_scalar_of(const HftacState *s, uint32_t dtype)
{
    return s->shape.dtype == dtype && s->shape.rank == 0;
}

/* What the library reads or writes by its role is what it takes it for. */
static bool check_role(ModelCheck *c, const HftacState *s)
{
    switch (s->role) {
    case HFTAC_ROLE_COUNTER:
    case HFTAC_ROLE_BATCH_COUNTER:
        return is_scalar_of(s, HFTAC_DT_I64) || fault(c, "a counter is no i64[]");
    case HFTAC_ROLE_EPOCH_METRIC:
        return is_scalar_of(s, HFTAC_DT_F64) || fault(c, "a schedule's metric is no f64[]");
    default:
        return s->role < HFTAC_N_ROLES || fault(c, "a state has an unknown role");
    }
}

static bool check_state(ModelCheck *c, const HftacState *s)
{
    if (!check_name(c, s->name) || !check_shape(c, &s->shape, -1, 1, s->bytes) ||
        !check_layout(c, s))
        return false;
    const uint64_t all = (uint64_t)c->m->info->n_models * c->m->variant->state_bytes;
    const uint64_t element = hftac_type_bytes((hftac_type)s->shape.dtype);
    uint64_t last = 0;
    if (__builtin_mul_overflow((uint64_t)c->m->info->n_models - 1, s->model_bytes, &last) ||
        last > all || s->offset > all - last || s->bytes > all - last - s->offset)
        return fault(c, "a state lies outside the models' memory");
    if (s->model_bytes < s->bytes || s->offset % element != 0 || s->model_bytes % element != 0)
        return fault(c, "the distance of a state from model to model is wrong");
    return check_role(c, s);
}

static bool check_hyper(ModelCheck *c, const HftacHyper *h)
{
    return check_name(c, h->name) &&
           check_rows(c, HFTAC_SECTION_REALS, h->first_set, h->n_set) &&
           (h->domain <= HFTAC_DOMAIN_SET || fault(c, "a hyper's domain is unknown"));
}

static bool check_result(ModelCheck *c, const HftacResult *r)
{
    const uint32_t n = c->m->info->n_results;
    if (!check_text(c, r->name))
        return false;
    if (r->index >= n || (r->kind == HFTAC_RESULT_FAULT && r->index + 1 >= n))
        return fault(c, "a result's position is out of range");
    if (r->input < -1 || r->input >= (int64_t)count(c, HFTAC_SECTION_INPUTS))
        return fault(c, "a result names an input that is not there");
    const bool named = r->kind == HFTAC_RESULT_VALUE || r->kind == HFTAC_RESULT_FACTOR ||
                       r->kind == HFTAC_RESULT_CAUSE || r->kind == HFTAC_RESULT_KEPT;
    return !named || check_name(c, r->name);
}

/* In every code the address of that number lies in a segment that has these PF_* flags. */
static bool check_address(ModelCheck *c, uint32_t number, uint32_t flags)
{
    for (uint32_t i = 0; i < count(c, HFTAC_SECTION_CODE); i++) {
        const HftacCode *code = hft_model_row(c->m, HFTAC_SECTION_CODE, i);
        if (number >= code->n_addresses)
            return fault(c, "a function or constant is named that is not there");
        const int64_t *distance =
            hft_model_row(c->m, HFTAC_SECTION_ADDRESSES, code->first_address + number);
        if (!hft_elf_has(c->file, c->address + (uint64_t)*distance, 1, flags))
            return fault(c, "a function or constant lies outside the file's segments");
    }
    return true;
}

static bool check_function(ModelCheck *c, uint32_t number)
{
    return check_address(c, number, PF_X);
}

/* Parts name places in front of them, so that there is an end. */
static bool check_place(ModelCheck *c, uint32_t at)
{
    const HftacPlace *p = hft_model_row(c->m, HFTAC_SECTION_PLACES, at);
    switch (p->space) {
    case HFTAC_PLACE_PART:
        return (p->base < at && p->odd_base < at && p->depth <= HFTAC_MAX_LOOPS) ||
               fault(c, "a part of a place names places that are not there");
    case HFTAC_PLACE_INPUT:
        return p->index < count(c, HFTAC_SECTION_INPUTS) ||
               fault(c, "a place names an input that is not there");
    case HFTAC_PLACE_OUTPUT:
        return p->index < count(c, HFTAC_SECTION_OUTPUTS) ||
               fault(c, "a place names an output that is not there");
    case HFTAC_PLACE_CONST:
        return check_address(c, p->index, PF_R);
    default:
        return p->space < HFTAC_PLACE_PART || fault(c, "a place is of an unknown kind");
    }
}

/* A list stands behind the row that has it, so that no list is inside itself. */
static bool check_list(ModelCheck *c, uint32_t at, const HftacStep *s)
{
    return s->first_step > at || s->n_steps == 0
               ? check_rows(c, HFTAC_SECTION_STEPS, s->first_step, s->n_steps)
               : fault(c, "a list of steps is inside itself");
}

/* A step of a kind that this library does not know cannot be left out. */
static bool check_step(ModelCheck *c, uint32_t at)
{
    const HftacStep *s = hft_model_row(c->m, HFTAC_SECTION_STEPS, at);
    switch (s->kind) {
    case HFTAC_STEP_SHARED:
    case HFTAC_STEP_MODELS:
        return check_function(c, s->function) && check_list(c, at, s);
    case HFTAC_STEP_BARRIER:
        return true;
    case HFTAC_STEP_KERNEL:
        return s->kernel < count(c, HFTAC_SECTION_KERNELS) ||
               fault(c, "a step names a kernel that is not there");
    case HFTAC_STEP_LOOP:
        return (s->count >= 0 || fault(c, "a loop has a negative number of rounds")) &&
               check_list(c, at, s);
    default:
        return fault(c, "a step is of an unknown kind");
    }
}

static bool is_single(const HftacStep *s)
{
    return s->kind == HFTAC_STEP_KERNEL || s->kind == HFTAC_STEP_LOOP;
}

/* A list of kernels and loops, `depth` loops around it.  No row belongs to two lists, so there is
 * an end. */
static bool check_singles(ModelCheck *c, const HftacStep *list, int depth)
{
    if (depth > HFTAC_MAX_LOOPS)
        return fault(c, "loops are nested too deep");
    c->n_listed += list->n_steps;
    if (c->n_listed > count(c, HFTAC_SECTION_STEPS))
        return fault(c, "a step is in two lists");
    for (uint32_t i = 0; i < list->n_steps; i++) {
        const HftacStep *s = hft_model_row(c->m, HFTAC_SECTION_STEPS, list->first_step + i);
        if (!is_single(s))
            return fault(c, "a list has a step of an unexpected kind");
        if (s->kind == HFTAC_STEP_LOOP && !check_singles(c, s, depth + 1))
            return false;
    }
    return true;
}

/* An entry's own steps are runs and barriers, those below them kernels and loops. */
static bool check_steps(ModelCheck *c, const HftacEntry *e)
{
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const HftacStep *s = hft_entry_step(c->m, e, i);
        if (is_single(s))
            return fault(c, "an entry point has a step of an unexpected kind");
        if (s->kind != HFTAC_STEP_BARRIER && !check_singles(c, s, 0))
            return false;
    }
    return true;
}

static bool check_kernel(ModelCheck *c, const HftacKernel *k)
{
    if (!check_text(c, k->name) || !check_text(c, k->source) ||
        !check_function(c, k->function) ||
        !check_rows(c, HFTAC_SECTION_LISTS, k->first_place, k->n_places))
        return false;
    for (uint32_t i = 0; i < k->n_places; i++) {
        const uint32_t *place = hft_model_row(c->m, HFTAC_SECTION_LISTS, k->first_place + i);
        if (*place >= count(c, HFTAC_SECTION_PLACES))
            return fault(c, "a kernel names a place that is not there");
    }
    return k->n_work >= 1 || fault(c, "a kernel has no work");
}

static bool check_entry(ModelCheck *c, const HftacEntry *e)
{
    const uint32_t n_inputs = count(c, HFTAC_SECTION_INPUTS);
    if (!check_text(c, e->whole) ||
        !check_rows(c, HFTAC_SECTION_RESULTS, e->first_result, e->n_results) ||
        !check_rows(c, HFTAC_SECTION_STEPS, e->first_step, e->n_steps))
        return false;
    for (uint32_t i = 0; i < HFTAC_MAX_INPUTS; i++)
        if ((e->input_mask[i / 64] >> (i % 64) & 1) && i >= n_inputs)
            return fault(c, "an entry point reads an input that is not there");
    for (uint32_t i = 0; i < e->n_results; i++)
        if (!check_result(c, hft_entry_result(c->m, e, i)))
            return false;
    return check_steps(c, e);
}

static bool check_code(ModelCheck *c, const HftacCode *code)
{
    return check_text(c, code->march) && check_text(c, code->features) &&
           check_rows(c, HFTAC_SECTION_ADDRESSES, code->first_address, code->n_addresses);
}

static bool check_numbers(ModelCheck *c)
{
    const HftacInfo *i = c->m->info;
    const HftacVariant *v = c->m->variant;
    const uint64_t limit = UINT64_C(1) << 46;
    if (i->n_models < 1 || i->n_models > MAX_MODELS || i->batch < 1 || i->epochs < 0)
        return fault(c, "its number of models, batch or epochs makes no sense");
    if (v->lo != 0 || v->hi != i->n_models)
        return fault(c, "its variants are not all of its models");
    if (v->state_bytes > limit || i->shared_bytes > limit || i->scratch_bytes > limit ||
        v->state_bytes % 64 != 0)
        return fault(c, "its memory sizes make no sense");
    if (count(c, HFTAC_SECTION_INPUTS) > HFTAC_MAX_INPUTS || i->n_results > MAX_MODELS)
        return fault(c, "it has too many inputs or results");
    return check_text(c, i->version) && check_text(c, i->name) &&
           check_rows(c, HFTAC_SECTION_STATES, v->first_state, v->n_states) &&
           check_rows(c, HFTAC_SECTION_ENTRIES, v->first_entry, v->n_entries);
}

static bool check_entries(ModelCheck *c)
{
    const HftacVariant *v = c->m->variant;
    unsigned seen = 0;
    for (uint32_t i = 0; i < v->n_entries; i++) {
        const HftacEntry *e = hft_model_row(c->m, HFTAC_SECTION_ENTRIES, v->first_entry + i);
        if (e->kind < HFTAC_N_ENTRIES && (seen >> e->kind & 1))
            return fault(c, "an entry point is there twice");
        seen |= e->kind < HFTAC_N_ENTRIES ? 1u << e->kind : 0;
        if (!check_entry(c, e))
            return false;
    }
    if (v->n_states && !hft_model_entry(c->m, HFTAC_ENTRY_INIT))
        return fault(c, "it cannot make initial values");
    if (hft_model_entry(c->m, HFTAC_ENTRY_EVAL) && !hft_model_entry(c->m, HFTAC_ENTRY_EVAL_END))
        return fault(c, "it can begin an evaluation but not end it");
    return true;
}

static bool check_tables(ModelCheck *c)
{
    bool ok = check_numbers(c);
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_INPUTS); i++) {
        const HftacInput *in = hft_model_input(c->m, i);
        ok =
            check_name(c, in->name) && check_shape(c, &in->shape, in->batch_axis, 1, in->bytes);
    }
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_OUTPUTS); i++) {
        const HftacOutput *out = hft_model_output(c->m, i);
        ok = check_name(c, out->name) &&
             check_shape(c, &out->shape, out->batch_axis, out->per_sample, out->bytes);
    }
    for (uint32_t i = 0; ok && i < c->m->variant->n_states; i++)
        ok = check_state(c, hft_model_state(c->m, i));
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_HYPERS); i++)
        ok = check_hyper(c, hft_model_hyper(c->m, i));
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_CODE); i++)
        ok = check_code(c, hft_model_row(c->m, HFTAC_SECTION_CODE, i));
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_PLACES); i++)
        ok = check_place(c, i);
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_KERNELS); i++)
        ok = check_kernel(c, hft_model_row(c->m, HFTAC_SECTION_KERNELS, i));
    for (uint32_t i = 0; ok && i < count(c, HFTAC_SECTION_STEPS); i++)
        ok = check_step(c, i);
    return ok && check_entries(c);
}

/* ---- the whole ---- */

/* The note tells where the block lies, relative to its own field. */
static hftac_status find_block(ModelCheck *c, HftacModel *head)
{
    HftacNote note;
    memcpy(&note, c->mapping->memory + c->file->note, sizeof note);
    c->address = c->file->note + offsetof(HftacNote, model) + (uint64_t)note.model;
    if (!hft_elf_has(c->file, c->address, sizeof *head, 0) || c->address % 8 != 0)
        return hft_elf_unusable(c->file, "its descriptor lies outside of it");
    c->m->block = c->mapping->memory + c->address;
    memcpy(head, c->m->block, sizeof *head);
    c->bytes = head->bytes;
    if (memcmp(head->magic, HFTAC_ABI_MAGIC, sizeof head->magic) != 0)
        return hft_elf_unusable(c->file, "its descriptor has a wrong mark");
    if (head->abi_major != HFTAC_ABI_MAJOR)
        return hft_elf_unusable(c->file, "its descriptor is of another version than its note");
    if (head->bytes < sizeof *head || !hft_elf_has(c->file, c->address, head->bytes, 0))
        return hft_elf_unusable(c->file, "its descriptor has a wrong size");
    return HFTAC_OK;
}

/* The best of the codes that this CPU can run; else what the last one said. */
static hftac_status choose_code(const ElfFile *f, Model *m)
{
    hftac_status s = HFTAC_OK;
    for (uint32_t i = m->table[HFTAC_SECTION_CODE].n; i-- > 0;) {
        m->code = hft_model_row(m, HFTAC_SECTION_CODE, i);
        s = hft_cpu_check(f->path, hft_model_text(m, m->code->features));
        if (!s)
            return s;
    }
    return s;
}

hftac_status hft_model_find(const ElfFile *f, const Mapping *mapping, Model *m)
{
    ModelCheck c = {.file = f, .mapping = mapping, .m = m};
    HftacModel head;
    *m = (Model){0};
    const hftac_status s = find_block(&c, &head);
    if (s)
        return s;
    if (read_sections(&c, &head)) {
        m->info = hft_model_row(m, HFTAC_SECTION_INFO, 0);
        m->variant = hft_model_row(m, HFTAC_SECTION_VARIANTS, 0);
        check_tables(&c);
    }
    return c.fault ? hft_fail(HFTAC_MODEL, "%s: damaged model.so: %s", f->path, c.fault)
                   : choose_code(f, m);
}
