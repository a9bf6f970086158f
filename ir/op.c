/* The tables expanded from ops.def, scalars.def and attrs.def, and what works on any attribute
 * record by walking its fields. */
#include "ir/op.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/shape_rules.h"

/* HAS_GRADIENT(none) is false, of any other rule true: only NO_RULE_none is a macro, and puts a
 * second argument in front of `true`. */
#define NO_RULE_none               , false
#define HAS_GRADIENT(rule)         SECOND_OF(NO_RULE_##rule, true, )
#define SECOND_OF(...)             SECOND(__VA_ARGS__)
#define SECOND(first, second, ...) second

static const OpInfo ops[] = {
#define OP(NAME, text_, in_, attrs_, shape_, grad_, kind_, data_) \
    {.name = #NAME,                                               \
     .text = text_,                                               \
     .n_in = in_,                                                 \
     .attrs = ATTR_##attrs_,                                      \
     .kind = KIND_##kind_,                                        \
     .data = data_,                                               \
     .grad = #grad_,                                              \
     .has_gradient = HAS_GRADIENT(grad_),                         \
     .shape = shape_rule_##shape_},
#include "ir/ops.def"
};

const OpInfo *op_info(OpCode op)
{
    return &ops[op];
}

OpCode op_find(const char *text)
{
    int op = 0;
    while (op < OP_COUNT_ && strcmp(ops[op].text, text) != 0)
        op++;
    return (OpCode)op;
}

const char *op_kind_text(OpKind k)
{
    static const char *const texts[] = {"leaf",     "expr",    "view", "index", "reduce",
                                        "contract", "scatter", "loop", "meta"};
    return texts[k];
}

typedef struct ScalarInfo {
    const char *text;
    int arity, cost;
} ScalarInfo;

static const ScalarInfo scalars[] = {
#define SCALAR(NAME, text_, in, attrs, shape, grad, cost_) \
    {.text = #NAME, .arity = in, .cost = cost_},
#include "ir/scalars.def"
};

int scalar_arity(ScalarFn f)
{
    return scalars[f].arity;
}

int scalar_cost(ScalarFn f)
{
    return scalars[f].cost;
}

const char *scalar_text(ScalarFn f)
{
    return scalars[f].text;
}

static const Attrs defaults[] = {
#define FIELD(kind, name, init) .name = init,
#define RECORD(name, ...)       [ATTR_##name] = {.name = {__VA_ARGS__}},
#include "ir/attrs.def"
};

typedef enum FieldKind {
    FIELD_ints,
    FIELD_reals,
    FIELD_int,
    FIELD_real,
    FIELD_bool,
    FIELD_str,
    FIELD_dtype
} FieldKind;

typedef struct Field {
    const char *name;
    FieldKind kind;
    size_t at; /* byte offset in Attrs */
} Field;

enum {
    MAX_FIELDS = 8
};

static void add_field(Field *list, int *n, const char *name, FieldKind kind, size_t at)
{
    if (*n < MAX_FIELDS)
        list[(*n)++] = (Field){.name = name, .kind = kind, .at = at};
}

/* The fields of a record; their number. */
static int fields_of(AttrKind kind, Field *list)
{
    const Attrs *a = &defaults[kind];
    int n = 0;
    switch (kind) {
#define FIELD(kind, name, init)              \
    add_field(list, &n, #name, FIELD_##kind, \
              (size_t)((const char *)&r->name - (const char *)a));
#define RECORD(name, ...)                        \
    case ATTR_##name: {                          \
        const __typeof__(a->name) *r = &a->name; \
        __VA_ARGS__                              \
    } break;
#include "ir/attrs.def"
    case ATTR_COUNT_:
        break;
    }
    return kind == ATTR_none ? 0 : n;
}

static const void *field_in(const Attrs *a, const Field *f)
{
    return (const char *)a + f->at;
}

void attrs_default(AttrKind kind, Attrs *a)
{
    *a = defaults[kind];
}

static bool ints_equal(const IntList *a, const IntList *b)
{
    return a->n == b->n && memcmp(a->v, b->v, (size_t)a->n * sizeof a->v[0]) == 0;
}

/* By bits: NaN equals itself, 0 and -0 differ. */
static bool reals_equal(const RealList *a, const RealList *b)
{
    return a->n == b->n && (a->n == 0 || a->v == b->v ||
                            memcmp(a->v, b->v, (size_t)a->n * sizeof a->v[0]) == 0);
}

static bool texts_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool field_equal(const Field *f, const Attrs *a, const Attrs *b)
{
    const void *x = field_in(a, f), *y = field_in(b, f);
    switch (f->kind) {
    case FIELD_ints:
        return ints_equal(x, y);
    case FIELD_reals:
        return reals_equal(x, y);
    case FIELD_int:
        return *(const int64_t *)x == *(const int64_t *)y;
    case FIELD_real:
        return memcmp(x, y, sizeof(double)) == 0;
    case FIELD_bool:
        return *(const bool *)x == *(const bool *)y;
    case FIELD_str:
        return texts_equal(*(const char *const *)x, *(const char *const *)y);
    case FIELD_dtype:
        return *(const DType *)x == *(const DType *)y;
    }
    return false;
}

bool attrs_equal(AttrKind kind, const Attrs *a, const Attrs *b)
{
    Field list[MAX_FIELDS];
    const int n = fields_of(kind, list);
    for (int i = 0; i < n; i++)
        if (!field_equal(&list[i], a, b))
            return false;
    return true;
}

static uint64_t hash_more(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t field_hash(uint64_t h, const Field *f, const Attrs *a)
{
    const void *x = field_in(a, f);
    switch (f->kind) {
    case FIELD_ints: {
        const IntList *l = x;
        return hash_more(h ^ (uint64_t)l->n, l->v, (size_t)l->n * sizeof l->v[0]);
    }
    case FIELD_reals: {
        const RealList *l = x;
        return hash_more(h ^ (uint64_t)l->n, l->v, (size_t)l->n * sizeof l->v[0]);
    }
    case FIELD_int:
        return hash_more(h, x, sizeof(int64_t));
    case FIELD_real:
        return hash_more(h, x, sizeof(double));
    case FIELD_bool:
        return hash_more(h, x, sizeof(bool));
    case FIELD_str: {
        const char *s = *(const char *const *)x;
        return s ? hash_more(h ^ 1, s, strlen(s)) : h;
    }
    case FIELD_dtype:
        return hash_more(h, x, sizeof(DType));
    }
    return h;
}

uint64_t attrs_hash(AttrKind kind, const Attrs *a)
{
    Field list[MAX_FIELDS];
    const int n = fields_of(kind, list);
    uint64_t h = UINT64_C(14695981039346656037) + kind;
    for (int i = 0; i < n; i++)
        h = field_hash(h, &list[i], a);
    return h;
}

static void print_ints(Text *out, const IntList *l)
{
    text_add(out, "[");
    for (int i = 0; i < l->n; i++)
        text_printf(out, "%s%lld", i ? ", " : "", (long long)l->v[i]);
    text_add(out, "]");
}

static void print_reals(Text *out, const RealList *l)
{
    if (l->n != 1)
        text_add(out, "[");
    for (int64_t i = 0; i < l->n; i++) {
        text_add(out, i ? ", " : "");
        text_real(out, l->v[i]);
    }
    if (l->n != 1)
        text_add(out, "]");
}

static void print_field(Text *out, const Field *f, const Attrs *a)
{
    const void *x = field_in(a, f);
    switch (f->kind) {
    case FIELD_ints:
        print_ints(out, x);
        break;
    case FIELD_reals:
        print_reals(out, x);
        break;
    case FIELD_int:
        text_printf(out, "%lld", (long long)*(const int64_t *)x);
        break;
    case FIELD_real:
        text_real(out, *(const double *)x);
        break;
    case FIELD_bool:
        text_add(out, *(const bool *)x ? "true" : "false");
        break;
    case FIELD_str:
        text_quoted(out, *(const char *const *)x ? *(const char *const *)x : "");
        break;
    case FIELD_dtype:
        text_add(out, dtype_text(*(const DType *)x));
        break;
    }
}

void attrs_print(Text *out, AttrKind kind, const Attrs *a)
{
    Field list[MAX_FIELDS];
    const int n = fields_of(kind, list);
    for (int i = 0; i < n; i++)
        if (!field_equal(&list[i], a, &defaults[kind])) {
            text_printf(out, " %s=", list[i].name);
            print_field(out, &list[i], a);
        }
}

void attrs_print_fields(Text *out, AttrKind kind)
{
    Field list[MAX_FIELDS];
    const int n = fields_of(kind, list);
    for (int i = 0; i < n; i++) {
        text_printf(out, "%s%s=", i ? " " : "", list[i].name);
        print_field(out, &list[i], &defaults[kind]);
    }
}

static bool read_int(const char **s, int64_t *out)
{
    char *end;
    errno = 0;
    const long long v = strtoll(*s, &end, 10);
    if (end == *s || errno == ERANGE)
        return false;
    *s = end;
    *out = v;
    return true;
}

/* Digits alone are an integer, which the double must be. */
static bool read_real(const char **s, double *out)
{
    char *end;
    *out = strtod(*s, &end);
    if (end == *s || !text_integer_exact(*s, end, *out))
        return false;
    *s = end;
    return true;
}

static void skip_space(const char **s)
{
    while (**s == ' ')
        ++*s;
}

/* Steps over the ',' between elements; false at the ']' that ends the list or at anything else. */
static bool next_element(const char **s)
{
    skip_space(s);
    if (**s != ',')
        return false;
    ++*s;
    return true;
}

static bool at_end(const char *s)
{
    skip_space(&s);
    return *s == '\0';
}

static bool list_end(const char *s)
{
    skip_space(&s);
    return *s == ']' && at_end(s + 1);
}

static bool read_ints(const char *s, IntList *out)
{
    IntList l = {0};
    if (*s++ != '[')
        return false;
    if (!list_end(s))
        do {
            if (l.n == MAX_RANK || !read_int(&s, &l.v[l.n++]))
                return false;
        } while (next_element(&s));
    *out = l;
    return list_end(s);
}

static bool read_reals(Arena *arena, const char *s, RealList *out)
{
    size_t cap = 1;
    for (const char *c = s; *c; c++)
        cap += *c == ',';
    double *v = arena_array(arena, cap, sizeof *v);
    int64_t n = 0;
    const bool list = *s == '[';
    s += list;
    if (!list || !list_end(s))
        do {
            if (!read_real(&s, &v[n++]))
                return false;
        } while (list && next_element(&s));
    *out = (RealList){.n = n, .v = v};
    return list ? list_end(s) : at_end(s);
}

static bool read_str(Arena *arena, const char *s, const char **out)
{
    if (*s++ != '"')
        return false;
    char *copy = arena_alloc(arena, strlen(s) + 1);
    size_t n = 0;
    for (; *s && *s != '"'; s++) {
        if (*s == '\\' && s[1]) {
            s++;
            copy[n++] = *s == 'n' ? '\n' : *s;
        } else {
            copy[n++] = *s;
        }
    }
    *out = arena_intern(arena, copy, n);
    return *s == '"' && at_end(s + 1);
}

static bool read_bool(const char *s, bool *out)
{
    *out = strcmp(s, "true") == 0;
    return *out || strcmp(s, "false") == 0;
}

static bool read_dtype(const char *s, DType *out)
{
    *out = dtype_find(s);
    return *out != DT_COUNT;
}

static bool read_field(Arena *arena, const Field *f, void *to, const char *value)
{
    switch (f->kind) {
    case FIELD_ints:
        return read_ints(value, to);
    case FIELD_reals:
        return read_reals(arena, value, to);
    case FIELD_int:
        return read_int(&value, to) && at_end(value);
    case FIELD_real:
        return read_real(&value, to) && at_end(value);
    case FIELD_bool:
        return read_bool(value, to);
    case FIELD_str:
        return read_str(arena, value, to);
    case FIELD_dtype:
        return read_dtype(value, to);
    }
    return false;
}

bool attrs_read(Arena *arena, AttrKind kind, Attrs *a, const char *field, const char *value)
{
    Field list[MAX_FIELDS];
    const int n = fields_of(kind, list);
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, field) == 0) {
            Attrs changed = *a;
            if (!read_field(arena, &list[i], (char *)&changed + list[i].at, value))
                return false;
            *a = changed;
            return true;
        }
    return false;
}

IntList ints_all(int n, int64_t v)
{
    IntList l = {.n = n};
    for (int i = 0; i < n; i++)
        l.v[i] = v;
    return l;
}

IntList ints_of(int n, const int64_t *v)
{
    IntList l = {.n = n};
    for (int i = 0; i < n; i++)
        l.v[i] = v[i];
    return l;
}
