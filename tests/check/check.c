/* What the check programs share; see check.h.
 *
 * Golden files are safetensors whose metadata describes the case.  A program is compiled by
 * running the hftac that lies beside the check program, into a folder below /tmp that check_end
 * removes, and opened with libhftac as users do. */
#include "tests/check/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char compiler[512], work[64];

_Noreturn void fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("check: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(2);
}

void must(hftac_status status)
{
    if (status)
        fatal("%s", hftac_last_error());
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **list_files(const char *directory, int *n)
{
    DIR *d = opendir(directory);
    if (!d)
        fatal("cannot read directory '%s': %s", directory, strerror(errno));
    char **list = NULL;
    *n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".safetensors"))
            continue;
        list = realloc(list, (size_t)(*n + 1) * sizeof *list);
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        list[(*n)++] = strdup(path);
    }
    closedir(d);
    if (*n)
        qsort(list, (size_t)*n, sizeof *list, by_name);
    return list;
}

static hftac_type find_type(const char *text, const char *path)
{
#define HFTAC_ROW(name, number, t, bytes, file_name) \
    if (!strcmp(text, file_name))                    \
        return HFTAC_##name;
    HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
    fatal("%s: element type %s", path, text);
}

static void read_tensor(Golden *g, Tensor *t, const char *name, json_t *row, const char *data,
                        size_t bytes)
{
    snprintf(t->name, sizeof t->name, "%s", name);
    t->type = find_type(json_string_value(json_object_get(row, "dtype")), g->path);
    const json_t *shape = json_object_get(row, "shape"),
                 *at = json_object_get(row, "data_offsets");
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank && i < HFTAC_MAX_DIMS; i++)
        t->count *= t->dims[i] = json_integer_value(json_array_get(shape, (size_t)i));
    const json_int_t lo = json_integer_value(json_array_get(at, 0)),
                     hi = json_integer_value(json_array_get(at, 1));
    if (lo < 0 || hi < lo || (size_t)hi > bytes ||
        (size_t)(hi - lo) != (size_t)t->count * hftac_type_bytes(t->type))
        fatal("%s: tensor %s is damaged", g->path, name);
    t->values = data + lo;
}

Golden golden_read(const char *path)
{
    Golden g = {0};
    snprintf(g.path, sizeof g.path, "%s", path);
    const char *slash = strrchr(path, '/');
    snprintf(g.base, sizeof g.base, "%s", slash ? slash + 1 : path);
    *strrchr(g.base, '.') = 0;
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) || st.st_size < 8)
        fatal("cannot read '%s'", path);
    char *m = g.memory = malloc((size_t)st.st_size);
    if (fread(m, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        fatal("cannot read '%s'", path);
    fclose(f);
    uint64_t header;
    memcpy(&header, m, 8);
    if (header > (uint64_t)st.st_size - 8)
        fatal("%s: damaged header", path);
    json_t *rows = json_loadb(m + 8, header, 0, NULL);
    if (!rows)
        fatal("%s: damaged header", path);
    g.tensor = calloc(json_object_size(rows) + 1, sizeof *g.tensor);
    const char *name;
    json_t *row;
    json_object_foreach(rows, name, row)
    {
        if (!strcmp(name, "__metadata__"))
            g.meta = json_incref(row);
        else
            read_tensor(&g, &g.tensor[g.n++], name, row, m + 8 + header,
                        (size_t)st.st_size - 8 - header);
    }
    json_decref(rows);
    return g;
}

void golden_free(Golden *g)
{
    json_decref(g->meta);
    free(g->tensor);
    free(g->memory);
}

const Tensor *golden_find(const Golden *g, const char *name)
{
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->tensor[i].name, name))
            return &g->tensor[i];
    return NULL;
}

const char *golden_text(const Golden *g, const char *key)
{
    const char *s = json_string_value(json_object_get(g->meta, key));
    return s ? s : "";
}

json_t *golden_json(const Golden *g, const char *key)
{
    json_t *v = json_loads(golden_text(g, key), JSON_DECODE_ANY, NULL);
    if (!v)
        fatal("%s: metadata %s is no JSON", g->path, key);
    return v;
}

void add(Source *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(s->text + s->len, sizeof s->text - s->len, fmt, ap);
    va_end(ap);
    if (n < 0 || s->len + (size_t)n >= sizeof s->text)
        fatal("a generated program is too long");
    s->len += (size_t)n;
}

void add_shape(Source *s, const Tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        add(s, "%s%lld", i ? ", " : "[", (long long)t->dims[i]);
    add(s, t->rank ? "]" : "[]");
}

void add_json(Source *s, const json_t *v)
{
    if (json_is_null(v))
        add(s, "none");
    else if (json_is_boolean(v))
        add(s, json_is_true(v) ? "true" : "false");
    else if (json_is_integer(v))
        add(s, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        add(s, "%.17g", json_real_value(v));
    else if (json_is_string(v))
        add(s, "\"%s\"", json_string_value(v));
    else if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            add(s, i ? ", " : "[");
            add_json(s, json_array_get(v, i));
        }
        add(s, "]");
    }
}

void check_begin(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');
    snprintf(compiler, sizeof compiler, "%.*shftac", slash ? (int)(slash - argv0 + 1) : 0,
             argv0);
    strcpy(work, "/tmp/hftac-check-XXXXXX");
    if (!mkdtemp(work))
        fatal("cannot make a directory in /tmp: %s", strerror(errno));
}

void check_end(void)
{
    rmdir(work);
}

hftac_array *compile_file(const char *path, int n_models, const char *const *options)
{
    return compile_file_threads(path, n_models, options, 0);
}

/* argv[0] becomes the compiler; argv ends in NULL. */
static bool run_compiler(const char **argv)
{
    argv[0] = compiler;
    pid_t pid;
    if (posix_spawn(&pid, compiler, NULL, NULL, (char *const *)argv, environ))
        fatal("cannot run %s", compiler);
    int status;
    return waitpid(pid, &status, 0) == pid && !status;
}

hftac_array *compile_file_threads(const char *path, int n_models, const char *const *options,
                                  int threads)
{
    char so[128], count[32];
    snprintf(so, sizeof so, "%s/model.so", work);
    snprintf(count, sizeof count, "%d", n_models);
    const char *argv[64] = {compiler, "-q", "-w", path, "-B", count, "-o", so};
    int n = 8;
    const char *flag = getenv("CHECK_HFTAC_FLAG"); /* one more for all programs */
    if (flag)
        argv[n++] = flag;
    while (options && *options && n < 63)
        argv[n++] = *options++;
    if (!run_compiler(argv))
        return NULL;
    hftac_array *a;
    const hftac_options open_options = {.threads = threads};
    must(hftac_open(so, &open_options, &a));
    unlink(so);
    return a;
}

hftac_array *compile_text(const char *text, int n_models)
{
    return compile_text_options(text, n_models, NULL);
}

/* Into a file of this name; *path is where it lies. */
static void write_text(const char *text, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", work, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        fatal("cannot write '%s'", path);
}

char *emit_text(const char *text, const char *stage)
{
    char path[128], out[160], flag[64];
    write_text(text, "case.hdl", path);
    snprintf(out, sizeof out, "%s/case.out", work);
    snprintf(flag, sizeof flag, "--emit=%s", stage);
    const char *argv[] = {NULL, "-q", "-w", path, flag, "-o", out, NULL};
    char *result = NULL;
    if (run_compiler(argv)) {
        FILE *f = fopen(out, "rb");
        struct stat st;
        if (!f || fstat(fileno(f), &st))
            fatal("cannot read '%s'", out);
        result = calloc((size_t)st.st_size + 1, 1);
        if (fread(result, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
            fatal("cannot read '%s'", out);
        fclose(f);
    } else {
        fprintf(stderr, "%s", text);
    }
    unlink(path);
    unlink(out);
    return result;
}

hftac_array *compile_ir(const char *text, int n_models)
{
    char path[128];
    write_text(text, "case.hir", path);
    hftac_array *a = compile_file(path, n_models, NULL);
    unlink(path);
    return a;
}

hftac_array *compile_text_options(const char *text, int n_models, const char *const *options)
{
    char path[128];
    write_text(text, "case.hdl", path);
    hftac_array *a = compile_file(path, n_models, options);
    unlink(path);
    if (!a)
        fprintf(stderr, "%s", text);
    return a;
}

static double golden_value(const Tensor *t, int64_t i)
{
    switch (t->type) {
    case HFTAC_F32:
        return ((const float *)t->values)[i];
    case HFTAC_F64:
        return ((const double *)t->values)[i];
    case HFTAC_I64:
        return (double)((const int64_t *)t->values)[i];
    case HFTAC_BOOL:
    case HFTAC_U8:
    case HFTAC_I32:
        break;
    }
    fatal("tensor %s is not f32, f64 or i64", t->name);
}

bool close_enough(const char *what, const float *a, const Tensor *golden, double relative,
                  double absolute)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < golden->count; i++) {
        const double g = golden_value(golden, i), d = (double)a[i] == g ? 0 : a[i] - g;
        difference += d * d;
        norm += isfinite(g) ? g * g : 0;
    }
    difference = sqrt(difference);
    norm = sqrt(norm);
    if (difference <= relative * norm + absolute)
        return true;
    printf("FAILED: %s: off by %.3g of %.3g\n", what, difference, norm);
    return false;
}

double trace_error(const float *a, const Tensor *golden)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < golden->count; i++) {
        const double g = golden_value(golden, i), d = a[i] - g;
        difference += d * d;
        norm += g * g;
    }
    return sqrt(difference) / (sqrt(norm) + 1e-3 * sqrt((double)golden->count));
}

bool same_bits(const char *what, const void *a, const void *b, size_t bytes)
{
    if (!memcmp(a, b, bytes))
        return true;
    printf("FAILED: %s: not bit-equal to the run with B = 1\n", what);
    return false;
}

void *slot_values(const Tensor *t, int slot, int home)
{
    const size_t size = hftac_type_bytes(t->type), n = (size_t)t->count;
    char *out = malloc(n * size + 1);
    const size_t shift = n ? (size_t)((slot - home + SLOTS) % SLOTS) % n : 0;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * size, (const char *)t->values + (i + shift) % n * size, size);
    return out;
}

void set_param(hftac_array *a, const char *name, int model, const Tensor *like,
               const void *values)
{
    hftac_param p;
    must(hftac_find_param(a, name, &p));
    must(hftac_set_param(a, p, model, values,
                         (size_t)like->count * hftac_type_bytes(like->type)));
}

void *get_param(hftac_array *a, const char *name, int model, size_t *bytes)
{
    hftac_param p;
    must(hftac_find_param(a, name, &p));
    *bytes = hftac_describe_param(a, p)->bytes;
    void *out = malloc(*bytes + 1);
    must(hftac_get_param(a, p, model, out, *bytes));
    return out;
}

void feed(hftac_array *a, const char *name, const Tensor *t)
{
    hftac_input in;
    must(hftac_find_input(a, name, &in));
    must(hftac_feed(a, in, t->values, hftac_describe(a)->batch));
}
