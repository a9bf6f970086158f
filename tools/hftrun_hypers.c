/* Hyper-parameters of a sweep: lists, ranges, grids and tables to one value per model and hyper.
 *
 *     lr=1e-3             every model
 *     lr=1e-4,3e-4,1e-3   one each, zipped with the other lists
 *     lr=0..0.5           spread evenly; (0..0.5) is the same
 *     lr=log(1e-4..1e-1)  spread by magnitude
 *     n=int(3..20)        whole numbers
 *
 * All ranges together are a centred Latin hypercube, from --seed: each range is cut into one piece
 * per model, and each model takes the middle of a piece, in an order of its own per hyper. */
#include "tools/hftrun.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/open_file.h"

enum {
    LINE_BYTES = 65536, /* of a table */
    NUMBER_BYTES = 64,
    NAME_BYTES = 128
};

typedef enum SpecKind {
    SPEC_LIST,
    SPEC_LINEAR,
    SPEC_LOG,
    SPEC_INT
} SpecKind;

typedef struct Spec {
    hftac_hyper hyper;
    const char *name;
    SpecKind kind;
    double lo, hi;
    double *list;
    int n;
} Spec;

static double parse_number(const char *text, const char *end, const char *what)
{
    char buffer[NUMBER_BYTES];
    while (text < end && isspace((unsigned char)*text))
        text++;
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    const size_t n = (size_t)(end - text);
    char *rest = buffer;
    double v = 0;
    if (n > 0 && n < sizeof buffer) {
        memcpy(buffer, text, n);
        buffer[n] = 0;
        errno = 0;
        v = strtod(buffer, &rest);
    }
    if (rest == buffer || *rest || !isfinite(v))
        die(EXIT_USAGE, "'%.*s' in %s is not a number", (int)n, text, what);
    return v;
}

static void parse_list(Spec *s, const char *text, const char *what)
{
    int n = 1;
    for (const char *p = text; *p; p++)
        n += *p == ',';
    s->list = allocate((size_t)n, sizeof *s->list);
    for (const char *p = text; s->n < n; s->n++) {
        const char *end = p + strcspn(p, ",");
        s->list[s->n] = parse_number(p, end, what);
        p = *end ? end + 1 : end;
    }
}

static void parse_range(Spec *s, const char *text, const char *dots, const char *what)
{
    const char *end = text + strlen(text), *open = strchr(text, '(');
    s->kind = SPEC_LINEAR;
    if (open) {
        const size_t n = (size_t)(open - text);
        if (end[-1] != ')' ||
            (n && !(n == 3 && (!memcmp(text, "log", 3) || !memcmp(text, "int", 3)))))
            die(EXIT_USAGE, "a range is (a..b), log(a..b) or int(a..b), not '%s' (%s)", text,
                what);
        if (n)
            s->kind = text[0] == 'l' ? SPEC_LOG : SPEC_INT;
        text = open + 1;
        end--;
    }
    s->lo = parse_number(text, dots, what);
    s->hi = parse_number(dots + 2, end, what);
    if (!(s->lo <= s->hi) || (s->kind == SPEC_LOG && s->lo <= 0))
        die(EXIT_USAGE, "%s: the range %g .. %g is empty%s", what, s->lo, s->hi,
            s->kind == SPEC_LOG ? " or not positive" : "");
}

static Spec parse_spec(const char *text, const hftac_array *a)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        die(EXIT_USAGE, "--hyper needs NAME=VALUE[,VALUE...] or NAME=log(A..B), got '%s'",
            text);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    Spec s = {0};
    if (hftac_find_hyper(a, name, &s.hyper))
        die(EXIT_USAGE, "%s", hftac_last_error());
    s.name = hftac_describe_hyper(a, s.hyper)->name;
    const char *dots = strstr(eq + 1, "..");
    if (dots)
        parse_range(&s, eq + 1, dots, text);
    else
        parse_list(&s, eq + 1, text);
    return s;
}

static Spec *parse_specs(const Options *o, const hftac_array *a)
{
    Spec *specs = allocate((size_t)o->specs.n, sizeof *specs);
    for (int i = 0; i < o->specs.n; i++)
        specs[i] = parse_spec(o->specs.text[i], a);
    return specs;
}

static void free_specs(Spec *specs, int n)
{
    for (int i = 0; i < n; i++)
        free(specs[i].list);
    free(specs);
}

static FILE *open_table(const char *path)
{
    struct stat st;
    const int fd = hft_open_regular(path, &st);
    if (fd < 0 && hft_not_regular(errno))
        die(EXIT_FILE, "cannot read '%s': it is not a regular file", path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f)
        die(EXIT_FILE, "cannot read '%s': %s", path, strerror(errno));
    return f;
}

static int table_rows(const char *path)
{
    FILE *f = open_table(path);
    int n = -1; /* the header */
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, f))
        n += line[strspn(line, " \t\r\n")] != 0;
    fclose(f);
    if (n < 1)
        die(EXIT_INPUT,
            "%s: a header line with names of hyper-parameters and one line per model are "
            "needed",
            path);
    return n;
}

static int specs_count(const Options *o, const Spec *specs, int n)
{
    int64_t count = 0;
    if (o->grid) {
        count = 1;
        for (int i = 0; i < n; i++) {
            if (specs[i].kind != SPEC_LIST)
                die(EXIT_USAGE, "--grid takes lists; %s is a range", specs[i].name);
            count *= specs[i].n;
            if (count > MAX_MODELS)
                die(EXIT_USAGE, "--grid has over %d models", MAX_MODELS);
        }
        return (int)count;
    }
    for (int i = 0; i < n; i++)
        if (specs[i].kind == SPEC_LIST && specs[i].n > 1) {
            if (count && count != specs[i].n)
                die(EXIT_USAGE,
                    "lists of hyper-parameters have 1 or all the same number of values: %s has "
                    "%d, another %d",
                    specs[i].name, specs[i].n, (int)count);
            count = specs[i].n;
        }
    return (int)count;
}

int hypers_count(const Options *o, const hftac_array *a)
{
    Spec *specs = parse_specs(o, a);
    int count = specs_count(o, specs, o->specs.n);
    free_specs(specs, o->specs.n);
    if (o->hypers_table) {
        const int rows = table_rows(o->hypers_table);
        if (count > 1 && count != rows)
            die(EXIT_USAGE, "%s has %d models, the lists have %d", o->hypers_table, rows,
                count);
        count = rows;
    }
    return count;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void spread(const Spec *s, uint64_t seed, int n, double *out, int stride)
{
    int *piece = allocate((size_t)n, sizeof *piece);
    uint64_t state = seed;
    for (const char *p = s->name; *p; p++)
        state = (state ^ (unsigned char)*p) * 0x100000001b3u;
    for (int i = 0; i < n; i++)
        piece[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(mix(&state) % (uint64_t)(i + 1)), t = piece[i];
        piece[i] = piece[j];
        piece[j] = t;
    }
    for (int i = 0; i < n; i++) {
        const double u = (piece[i] + 0.5) / n;
        if (s->kind == SPEC_LOG)
            out[i * stride] = exp(log(s->lo) + u * (log(s->hi) - log(s->lo)));
        else if (s->kind == SPEC_INT)
            out[i * stride] = fmin(floor(s->lo + u * (s->hi - s->lo + 1)), s->hi);
        else
            out[i * stride] = s->lo + u * (s->hi - s->lo);
    }
    free(piece);
}

static void fill_specs(const Options *o, const Spec *specs, int n, HyperTable *t)
{
    int period = 1; /* of the grid: the last list varies fastest */
    for (int i = n - 1; i >= 0; i--) {
        const Spec *s = &specs[i];
        double *column = t->value + s->hyper;
        t->given[s->hyper] = true;
        if (s->kind != SPEC_LIST) {
            spread(s, o->seed, t->n_models, column, t->n_hypers);
            continue;
        }
        if (!o->grid && s->n != 1 && s->n != t->n_models)
            die(EXIT_USAGE, "%s has %d values for %d models; give 1 or %d", s->name, s->n,
                t->n_models, t->n_models);
        for (int b = 0; b < t->n_models; b++)
            column[b * t->n_hypers] = s->list[o->grid ? b / period % s->n : s->n == 1 ? 0 : b];
        period *= s->n;
    }
}

static void fill_table(const char *path, const hftac_array *a, HyperTable *t)
{
    FILE *f = open_table(path);
    hftac_hyper *column = allocate((size_t)t->n_hypers, sizeof *column);
    int n = 0, row = -1;
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, f) && row < t->n_models) {
        if (!line[strspn(line, " \t\r\n")])
            continue;
        int i = 0;
        char *save = NULL;
        for (char *cell = strtok_r(line, ",\r\n", &save); cell;
             cell = strtok_r(NULL, ",\r\n", &save), i++) {
            cell += strspn(cell, " \t");
            for (size_t len = strlen(cell); len && isspace((unsigned char)cell[len - 1]);)
                cell[--len] = 0;
            if (row < 0) {
                hftac_hyper hyper;
                if (hftac_find_hyper(a, cell, &hyper))
                    die(EXIT_INPUT, "%s: %s", path, hftac_last_error());
                if (t->given[hyper])
                    die(EXIT_INPUT, "%s: two columns are called %s", path, cell);
                column[n++] = hyper;
                t->given[hyper] = true;
            } else if (i < n) {
                t->value[row * t->n_hypers + column[i]] =
                    parse_number(cell, cell + strlen(cell), path);
            }
        }
        if (row >= 0 && i != n)
            die(EXIT_INPUT, "%s: model %d has %d values, the header has %d", path, row, i, n);
        row++;
    }
    free(column);
    fclose(f);
}

HyperTable hypers_read(const Options *o, const hftac_array *a, int n_models)
{
    Spec *specs = parse_specs(o, a);
    const int n_hypers = hftac_describe(a)->n_hypers;
    HyperTable t = {.n_models = n_models, .n_hypers = n_hypers};
    t.value = allocate((size_t)n_models * (size_t)(n_hypers + 1), sizeof *t.value);
    t.given = allocate((size_t)n_hypers + 1, sizeof *t.given);
    for (int b = 0; b < n_models; b++)
        for (int h = 0; h < n_hypers; h++)
            t.value[b * n_hypers + h] = hftac_describe_hyper(a, h)->value;
    if (o->hypers_table)
        fill_table(o->hypers_table, a, &t);
    fill_specs(o, specs, o->specs.n, &t);
    free_specs(specs, o->specs.n);
    return t;
}

void hypers_apply(const HyperTable *t, hftac_array *a, bool quiet)
{
    for (int h = 0; h < t->n_hypers; h++) {
        const char *name = hftac_describe_hyper(a, h)->name;
        int outside = 0, first = 0;
        for (int b = t->n_models; b-- > 0;) {
            const double v = t->value[b * t->n_hypers + h];
            if (hftac_set_hyper(a, h, b, v))
                die(EXIT_USAGE, "%s", hftac_last_error());
            if (!hftac_hyper_in_domain(a, h, v)) {
                outside++;
                first = b;
            }
        }
        if (outside && !quiet)
            fprintf(stderr, "hftrun: warning: %s = %g of model %d is outside its domain%s\n",
                    name, t->value[first * t->n_hypers + h], first,
                    outside > 1 ? ", and others" : "");
    }
}

void hypers_free(HyperTable *t)
{
    free(t->value);
    free(t->given);
}

void seeds_apply(const Options *o, hftac_array *a, int n_models)
{
    if (!o->seeds)
        return;
    int n = 0;
    uint64_t first = 0;
    for (const char *p = o->seeds; *p;) {
        char *end;
        errno = 0;
        const uint64_t seed = strtoull(p, &end, 0);
        if (errno || end == p || *p == '-' || (*end && *end != ','))
            die(EXIT_USAGE, "--seeds needs whole numbers, got '%s'", o->seeds);
        if (n == n_models)
            die(EXIT_USAGE, "--seeds has more than %d values", n_models);
        if (n == 0)
            first = seed;
        check(hftac_set_seed(a, n++, seed));
        p = *end ? end + 1 : end;
    }
    if (n != 1 && n != n_models)
        die(EXIT_USAGE, "--seeds has %d values for %d models; give 1 or %d", n, n_models,
            n_models);
    for (int b = 1; n == 1 && b < n_models; b++)
        check(hftac_set_seed(a, b, first));
}
