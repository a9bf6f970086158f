/* Programs from the templates of check_grad_layers.c. */
#include "tests/check/check_grad_library.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/check_grad.h"

/* A case being written. */
typedef struct Fill {
    Source *out;
    Random *random;
    int number;
    int64_t extent[26];
    char choices[128]; /* the alternatives taken, for messages */
} Fill;

static void draw_extents(Fill *f)
{
    for (int i = 0; i < 26; i++) {
        const char letter = (char)('A' + i);
        f->extent[i] = strchr("HWL", letter)   ? random_between(f->random, 5, 9)
                       : strchr("GNT", letter) ? random_between(f->random, 1, 3)
                                               : random_between(f->random, 1, 9);
    }
}

/* A product of letters and digits up to one of ",>: " or the end. */
static int64_t read_extent(const Fill *f, const char **p)
{
    int64_t n = 1;
    for (; **p && !strchr(",>: ", **p); ++*p) {
        if (isdigit((unsigned char)**p))
            n *= **p - '0';
        else if (isupper((unsigned char)**p))
            n *= f->extent[**p - 'A'];
        else
            fatal("a template's shape has a '%c'", **p);
    }
    return n;
}

/* Extents separated by commas. */
static int read_shape(const Fill *f, const char **p, int64_t *dim)
{
    int n = 0;
    while (**p && !strchr(">: ", **p)) {
        dim[n++] = read_extent(f, p);
        *p += **p == ',';
    }
    return n;
}

static void write_shape(Source *s, int n, const int64_t *dim)
{
    for (int i = 0; i < n; i++)
        add(s, "%s%lld", i ? ", " : "[", (long long)dim[i]);
    add(s, n ? "]" : "[]");
}

/* index:N,L:C signs:N bits:N,L reals:N */
static void write_random(Fill *f, const char *kind, const char **p)
{
    int64_t dim[HFTAC_MAX_DIMS], count = 1, below = 2;
    const int n = read_shape(f, p, dim);
    for (int i = 0; i < n; i++)
        count *= dim[i];
    if (**p == ':') {
        ++*p;
        below = read_extent(f, p);
    }
    const bool reals = !strcmp(kind, "reals"), bits = !strcmp(kind, "bits"),
               signs = !strcmp(kind, "signs");
    add(f->out, reals ? "reshape([" : "cast(reshape([");
    for (int64_t i = 0; i < count; i++) {
        const int64_t v = random_below(f->random, reals ? 998 : below);
        add(f->out, i ? ", " : "");
        if (reals)
            add(f->out, "0.%03lld", (long long)v + 1);
        else
            add(f->out, "%lld", (long long)(signs ? 2 * v - 1 : v));
    }
    add(f->out, "], ");
    write_shape(f->out, n, dim);
    add(f->out, reals ? ")" : bits ? "), \"bool\")" : "), \"i64\")");
}

/* Behind a '<'. */
static const char *write_angle(Fill *f, const char *p)
{
    const size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyz");
    int64_t dim[HFTAC_MAX_DIMS];
    if (word) {
        char kind[16];
        snprintf(kind, sizeof kind, "%.*s", (int)word, p);
        p += word + 1;
        write_random(f, kind, &p);
    } else {
        const bool list = memchr(p, ',', strcspn(p, ">")) != NULL;
        const int n = read_shape(f, &p, dim);
        if (list)
            write_shape(f->out, n, dim);
        else
            add(f->out, "%lld", (long long)dim[0]);
    }
    if (*p != '>')
        fatal("a template lacks its '>'");
    return p + 1;
}

static void write_text(Fill *f, const char *p, const char *end);

/* Behind a '{': one of the alternatives up to the '}'. */
static const char *write_choice(Fill *f, const char *p)
{
    const char *end = p + strcspn(p, "}"), *at = p;
    int n = 1;
    for (const char *c = p; c < end; c++)
        n += *c == '|';
    for (int64_t skip = random_below(f->random, n); skip > 0; skip--)
        at += strcspn(at, "|") + 1;
    const char *stop = at + strcspn(at, "|}");
    const size_t used = strlen(f->choices);
    snprintf(f->choices + used, sizeof f->choices - used, " %.*s", (int)(stop - at), at);
    write_text(f, at, stop);
    return end + 1;
}

static void write_text(Fill *f, const char *p, const char *end)
{
    while (p < end) {
        if (*p == '@') {
            const bool twice = p[1] == '@';
            if (twice)
                add(f->out, "@");
            else
                add(f->out, "c%d_", f->number);
            p += twice ? 2 : 1;
        } else if (*p == '{') {
            p = write_choice(f, p + 1);
        } else if (*p == '<' && (isalnum((unsigned char)p[1]))) {
            p = write_angle(f, p + 1);
        } else {
            add(f->out, "%c%s", *p, *p == '\n' ? "  " : "");
            p++;
        }
    }
}

static void write_params(Fill *f, const char *p)
{
    while (*p) {
        const size_t name = strcspn(p, "=");
        int64_t dim[HFTAC_MAX_DIMS];
        add(f->out, "  c%d_%.*s = Param(", f->number, (int)name, p);
        p += name + 1;
        write_shape(f->out, read_shape(f, &p, dim), dim);
        add(f->out, ")\n");
        p += *p == ' ';
    }
}

static void write_case(Fill *f, const LibraryCase *c, GradCase *out)
{
    const size_t from = f->out->len;
    f->choices[0] = 0;
    draw_extents(f);
    write_params(f, c->params);
    add(f->out, strstr(c->text, "@y = ") ? "  " : "  c%d_y = ", f->number);
    write_text(f, c->text, c->text + strlen(c->text));
    add(f->out, "\n  c%d_kept = Kept()\n  c%d_loss = c%d_kept(weighed(c%d_y, %.3f))\n",
        f->number, f->number, f->number, f->number, 0.5 + 2 * random_unit(f->random));
    const char *param = strchr(f->out->text + from, '[');
    snprintf(out->name, sizeof out->name, "%s,%s, the first parameter %.*s", c->name,
             f->choices, param ? (int)strcspn(param, ")") : 0, param ? param : "");
    out->lo = c->lo;
    out->hi = c->hi;
    out->exact_by = 0;
}

static const char head[] =
    "hdl 1\n"
    "hyper some = 0.3\n"
    "optimizer Keep() on (p, g) {\n  state grad = 0\n  grad := g\n  return p\n}\n"
    "block Kept on (y) {\n  state value : f32[] = 0\n  if training {\n    value := y\n  }\n  "
    "return y\n}\n"
    "fn weighed(y, phase) {\n  flat = reshape(y, [_])\n"
    "  return sum(flat * sin(arange(len(flat)) * 1.7 + phase))\n}\n"
    "model Case {\n";

GradProgram grad_library_program(const int *which, int n, uint64_t seed)
{
    static Source s;
    Random random = {seed};
    GradProgram p = {.suffix = ".hdl", .n_cases = n};
    s.len = 0;
    add(&s, "%s", head);
    for (int i = 0; i < n; i++) {
        Fill f = {.out = &s, .random = &random, .number = i};
        write_case(&f, &grad_library[which[i]], &p.cases[i]);
    }
    add(&s, "  loss ");
    for (int i = 0; i < n; i++)
        add(&s, "%sc%d_loss", i ? " + " : "", i);
    add(&s, "\n}\ntrain Case {\n  batch N = 1\n  optimizer Keep()\n}\n");
    p.text = strdup(s.text);
    return p;
}

int grad_library_count(void)
{
    return grad_library_length;
}

const char *grad_library_name(int i)
{
    return grad_library[i].name;
}
