/* The parser: programs parse and survive printing, bad text gives the right messages, hostile
 * text none worse.
 *   test_parse DIR...      every .hdl in each directory parses, and parse(print(tree)) is an
 *   equal tree */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/frontend.h"

static int failures;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "FAIL %s: %s\n", what, detail);
    failures++;
}

typedef struct Run {
    Arena *a;
    Diag *d;
    FILE *out;
    char *messages;
    size_t len;
    Ast *tree;
} Run;

static void run_open(Run *r, const char *text, size_t len)
{
    r->a = arena_new();
    r->out = open_memstream(&r->messages, &r->len);
    const DiagOptions o = {.out = r->out};
    r->d = diag_new(r->a, &o);
    r->tree = hdl_parse(r->a, r->d, diag_add_source(r->d, "t.hdl", text, len, false));
    fflush(r->out);
}

static void run_close(Run *r)
{
    fclose(r->out);
    free(r->messages);
    arena_free(r->a);
}

/* ---- round trip ---- */

static const char *dump(Run *r, const Ast *t)
{
    Text text;
    text_init(&text, r->a);
    ast_print(&text, t);
    return text.s;
}

/* Every node lies within its parent and its text, and ends after it begins. */
static bool ranges_hold(const Ast *t, size_t len)
{
    if (t->loc.lo > t->loc.hi || t->loc.hi > len)
        return false;
    for (int i = 0; i < t->n; i++) {
        const Ast *k = t->kid[i];
        if (k && (k->loc.lo < t->loc.lo || k->loc.hi > t->loc.hi || !ranges_hold(k, len)))
            return false;
    }
    return true;
}

static void check_program(const char *name, const char *text, size_t len)
{
    Run r, again;
    run_open(&r, text, len);
    if (!r.tree) {
        fail(name, r.messages);
        run_close(&r);
        return;
    }
    if (!ranges_hold(r.tree, len))
        fail(name, "a node's range leaves its parent's");
    Text printed, twice;
    text_init(&printed, r.a);
    hdl_print(&printed, r.tree);
    run_open(&again, printed.s, printed.len);
    if (!again.tree) {
        fail(name, again.messages);
    } else {
        if (strcmp(dump(&r, r.tree), dump(&again, again.tree)) != 0)
            fail(name, "the printed program parses to another tree");
        text_init(&twice, again.a);
        hdl_print(&twice, again.tree);
        if (strcmp(printed.s, twice.s) != 0)
            fail(name, "printing is not idempotent");
    }
    run_close(&again);
    run_close(&r);
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = malloc(1 << 20);
    *len = text ? fread(text, 1, 1 << 20, f) : 0;
    fclose(f);
    return text;
}

static void check_directory(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const size_t len = strlen(e->d_name);
        char file[4096];
        if (len < 4 || strcmp(e->d_name + len - 4, ".hdl") != 0)
            continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        size_t size = 0;
        char *text = read_file(file, &size);
        if (text)
            check_program(file, text, size);
        else
            fail(file, "cannot be read");
        free(text);
        n++;
    }
    if (dir)
        closedir(dir);
    if (n == 0)
        fail(path, "holds no .hdl file");
}

/* Everything the grammar has, where the programs do not use it. */
static const char whole_language[] =
    "hdl 1\n"
    "# comment\n"
    "include \"other.hdl\"; const a = 1_000, b = [(1, 2.5), [\"x\", true, false, none],]\n"
    "const f = relu if a == 1 else gelu, g = (1,), e = [], n = -2 ** -3, m = (-2) ** 2, k = "
    "1e-3\n"
    "hyper h = 1 in {1, 2,\n 3}, i = 2 in int(1 .. 9, step = 2)\n"
    "hyper j = 0.1 in log(1e-3 .. 1)\n"
    "arch w = 3 in {1, 2}\n"
    "fn F(x: [N], y = 2) = x\n"
    "fn G(x: f32[..., C], q: i64[], ) { return x }\n"
    "fn H() { y = 1; return y, [y, y], (y), }\n"
    "optimizer Mine(lr = 1e-3, betas = (0.9, 0.99)) on (p, g) {\n"
    "  state m = 0; state v : f32[] = 1\n"
    "  m := m + g\n"
    "  return p - lr * m }\n"
    "schedule S(gamma) = gamma ** epoch\n"
    "schedule T(a) { if a == 1 { return a } else if a == 2 { return 2 } else { return 3 } }\n"
    "block B(n, act = none) on (x: [N, C], mask) -> [N, C], i64[N] {\n"
    "  state running : f32[C] = 0\n"
    "  self[0] = Linear(3);  fc = Linear(n)\n"
    "  a, _, c = chunk(x[:, 0, 1:, :2, ..., 1:3], 3)\n"
    "  y : f32[N, _] = a if n == 1 else b if n == 2 else (c if n == 3 else d)\n"
    "  q[n // 2] : f32[N] = (a if n > 1 else b) |> f(c, d = e) |> g\n"
    "  t = not a == b and (c or not d) and not (e < f) or g\n"
    "  s = (a - (b - c)) * (d / (e / f)) @ -(-g) % (h |> i) ** (j ** k) ** l.m.n(1)[2].o\n"
    "  r = (a == b) == (c != d)\n"
    "  running := 0.9 * running\n"
    "  repeat i, row in rows { z[i] = row }\n"
    "  repeat i in reversed(0 .. n - 1) { z = f(self[i], 0.25) }\n"
    "  return x\n"
    "    |> fc   # comment\n"
    "    # another\n"
    "\n"
    "    |> out, y\n"
    "}\n"
    "model M { input x : f32[N, 3] each\n"
    "  input z : f32[N] = normal()\n"
    "  target y : i64[N] each\n"
    "  output = Linear(3); loss = 3; repeat = 1; hdl, const = 1, 2; model[0] = 1; train : "
    "f32[] = 0\n"
    "  state : f32[] = 1; each = on + minimize * with - then / per ** step + schedule + clip + "
    "fn\n"
    "  state count = 0\n"
    "  count := count + 1\n"
    "  h = x |> output\n"
    "  loss (h + 1) / 2\n"
    "  output probs = h\n"
    "  output h; metric acc = exp(avg(loss))\n"
    "  x = 1\n"
    "}\n"
    "train { batch N = 32; epochs 20; accumulate 4; freeze \"a.*\", \"b\"; no_decay \"*\",\n"
    "    \"c\"\n"
    "  init \"g.*.weight\" normal(std = 0.02)\n"
    "  schedule A(1) then B(2) then C per step\n"
    "  if a == 1 { clip norm(1.0) } else { clip value(2) }\n"
    "  update d, e minimize loss_d with Adam(lr) schedule A(1) then B(1) per step clip "
    "norm(1)\n"
    "  update g minimize loss_g with Adam(lr) clip value(1)\n"
    "  optimizer Adam(lr)\n"
    "}";

/* ---- messages ---- */

typedef struct Case {
    const char *text; /* after "hdl 1\n" */
    /* Messages, each "line:col: error: text" or "note", in this order, separated by |. */
    const char *says;
} Case;

static const Case cases[] = {
    {"const a = }\n", "2:11: error: expected expression, found '}'"},
    {"const a = 1 2\n", "2:13: error: expected end of statement, found '2'"},
    {"const a = f(1, 2\nconst b = 3\n",
     "3:1: error: expected ')' or ',', found 'const'|2:12: note: '(' is not closed"},
    {"model M {\n  x = \n  y = 1\n  z = [1, 2)\n  w = 3 +\n}\n",
     "4:5: error: expected end of statement, found '='|5:12: error: expected ']' or ',', found "
     "')'|"
     "5:7: note: '[' is not closed|7:1: error: expected expression, found '}'"},
    {"model M {\n  x = )\n  y = ]\n  z = *\n}\n",
     "3:7: error: expected expression, found ')'|4:7: error: expected expression, found ']'|"
     "5:7: error: expected expression, found '*'"},
    {"model M {\n  z = [1, 2)\n  y = 3 4\n}\n",
     "3:12: error: expected ']' or ',', found ')'|4:9: error: expected end of statement, found "
     "'4'"},
    {"model M {\n  x = 1\n",
     "error: expected statement or '}', found end of file|2:9: note: '{' is not closed"},
    {"model M { if a { x = 1 }\n else { x = 2 } }\n",
     "3:2: error: 'else' must follow the '}' of its 'if'"},
    {"model M {\n  epochs 3\n}\n", "3:3: error: 'epochs' does not belong in the model"},
    {"train {\n  if a { x = 3 }\n}\n",
     "3:10: error: a binding does not belong in the train section"},
    {"train {\n  if a { epochs 1 } else if b { epochs 2 } else { loss x }\n}\n",
     "3:51: error: 'loss' does not belong in the train section"},
    {"fn f(x) {\n  state s = 0\n  return x\n}\n",
     "3:3: error: 'state' does not belong in a fn"},
    {"const s = \"abc\n", "2:11: error: the string is not closed on its line"},
    {"const s = 1.\n", "2:11: error: a number has a digit on both sides of its dot"},
    {"const s = .5\n", "2:11: error: a number has a digit on both sides of its dot"},
    {"const s = 12ab\n", "2:11: error: malformed number"},
    {"const s = 1e999\n", "2:11: error: the number is too large"},
    {"const s = 9007199254740993\n", "2:11: error: the integer is above 2**53 and cannot be "
                                     "held exactly; as a real number (with "
                                     "`.0`) it is rounded"},
    {"const s = a ? b\n", "2:13: error: unexpected character"},
    {"const s = \xc3\xa9\n", "2:11: error: unexpected text"},
    {"const s = a < b < c\n", "2:17: error: expected end of statement, found '<'"},
    {"hyper h = 1 in exp(1 .. 2)\n", "2:16: error: unknown domain 'exp'"},
    {"hyper h = 1 in log(1 .. 2, step = 2)\n", "2:28: error: only int(a .. b, step = s)"},
    {"fn f(x: [N, ..., C]) = x\n", "2:13: error: '...' stands for leading dims only"},
    {"fn f(x y) = x\n", "2:8: error: expected "},
    {"fn f(x: f32) = x\n", "2:12: error: expected '[', found ')'"},
    {"block B on x { }\n", "2:12: error: expected '(', found 'x'"},
    {"fn f(x) {\n  g(x)\n  return x\n}\n",
     "3:4: error: expected '=' after the name that the statement binds, found '('"},
    {"nonsense\n", "2:1: error: expected declaration, found 'nonsense'"},
    {"model M { return = 1 }\n", "2:18: error: expected expression, found '='"},
    {"train { update d minimize loss Adam() }\n", "2:32: error: expected 'with', found 'Adam'"},
    {"model M { x = 1 }\nfn g( { y = 2\n z = 3 }\nconst c = )\n",
     "3:7: error: expected name, found '{'|3:5: note: '(' is not closed|5:11: error: expected "
     "expression, found ')'"},
};

static const char version_missing[] = "const a = 1\n";
static const char version_wrong[] = "hdl 2\nconst a = 1\n";

static void check_messages(const char *text, const char *says)
{
    Run r;
    run_open(&r, text, strlen(text));
    if (r.tree)
        fail(text, "parsed");
    const char *at = r.messages;
    char want[512];
    for (const char *w = says; *w;) {
        const size_t n = strcspn(w, "|");
        snprintf(want, sizeof want, "%.*s", (int)n, w);
        at = at ? strstr(at, want) : NULL;
        w += n + (w[n] == '|');
    }
    int n_want = 0, n_have = 0;
    for (const char *w = says; (w = strstr(w, "error:")); w++)
        n_want++;
    for (const char *m = r.messages; (m = strstr(m, "error:")); m++)
        n_have++;
    if (!at || n_want != n_have) {
        fprintf(stderr, "--- %s\n--- wanted %s\n--- got\n%s", text, says, r.messages);
        fail("messages", "differ");
    }
    run_close(&r);
}

/* ---- hostile text ---- */

/* head, then n times `unit`, then `tail`: must be refused with `says`, or parse if says is NULL. */
static void check_repeated(const char *head, const char *unit, int n, const char *tail,
                           const char *says)
{
    const size_t unit_len = strlen(unit), head_len = strlen(head);
    const size_t len = head_len + (size_t)n * unit_len + strlen(tail);
    char *text = malloc(len + 1);
    if (!text)
        exit(1);
    memcpy(text, head, head_len);
    for (int i = 0; i < n; i++)
        memcpy(text + head_len + (size_t)i * unit_len, unit, unit_len);
    strcpy(text + head_len + (size_t)n * unit_len, tail);
    Run r;
    run_open(&r, text, len);
    if (says ? r.tree || !strstr(r.messages, says) : !r.tree)
        fail(unit, r.len ? r.messages : "parsed");
    run_close(&r);
    free(text);
}

static void check_bytes(const char *text, size_t len, const char *says)
{
    Run r;
    run_open(&r, text, len);
    if (r.tree || !strstr(r.messages, says))
        fail(says, r.len ? r.messages : "parsed");
    run_close(&r);
}

static void check_hostile(void)
{
    check_repeated("hdl 1\nconst a = ", "(", 100000, "\n", "brackets are open");
    check_repeated("hdl 1\nconst a = ", "[", 200, "\n", "expected");
    check_repeated("hdl 1\nmodel M {", "if a {", 100000, "\n", "brackets are open");
    check_repeated("hdl 1\nconst a = ", "-", 100000, "1\n", "nested too deeply");
    check_repeated("hdl 1\nconst a = ", "not ", 100000, "1\n", "nested too deeply");
    check_repeated("hdl 1\nconst a = 1", " + 1", 100000, "\n", "nested too deeply");
    check_repeated("hdl 1\nconst a = 1", " ** 1", 100000, "\n", "nested too deeply");
    check_repeated("hdl 1\nconst a = 1", " if a else 1", 100000, "\n", "nested too deeply");
    check_repeated("hdl 1\nmodel M { if a { }", " else if a { }", 100000, "}\n",
                   "nested too deeply");
    check_repeated("hdl 1\nconst a = b", "()", 100000, "\n", "nested too deeply");
    check_repeated("hdl 1\nconst a = [", "1, ", 100000, "]\n", NULL);
    check_repeated("hdl 1\nmodel M {", "x = f(x)\n", 100000, "}\n", NULL);
    check_repeated("hdl 1\n", "\n# comment\n", 100000, "const a = 1", NULL);
    check_repeated("hdl 1\nconst a", "a", 1000000, " = 1\n", NULL);
    check_repeated("hdl 1\nconst a = ", "9", 1000000, "\n", "too large");
    check_repeated("hdl 1\nconst a = ", "?", 100000, "\n", "unexpected character");
    check_repeated("hdl 1\n", "} ", 100000, "\n", "expected declaration");
    check_repeated("hdl 1\n", "const a = )\n", 100000, "\n", "expected expression");
    check_repeated("", "", 0, "", "expected");
    check_bytes("hdl 1\nconst a\0 = 1\n", 18, "2:8: error: a NUL byte");
    check_bytes("hdl 1\n# \xff\n", 10, "2:3: error: not valid UTF-8");
    check_bytes("hdl 1\n# \xc0\x80\n", 11, "2:3: error: not valid UTF-8");
    check_bytes("hdl 1\n# \xed\xa0\x80\n", 12, "2:3: error: not valid UTF-8");
    check_bytes("hdl 1\n# \xe2\x82", 10, "2:3: error: not valid UTF-8");
}

/* Every prefix of a program and every program with one byte changed: a tree or a message. */
static void check_broken(void)
{
    static const char bytes[] = "({[)]},=.:\"\n#| 1ai;\0\xc3";
    const size_t len = sizeof whole_language - 1;
    char text[sizeof whole_language];
    for (size_t i = 0; i < len; i++) {
        memcpy(text, whole_language, len);
        text[i] = bytes[i % (sizeof bytes - 1)];
        for (size_t cut = 0; cut < 2; cut++) {
            Run r;
            run_open(&r, text, cut ? i : len);
            if (!r.tree && !diag_errors(r.d))
                fail("broken program", "refused without a message");
            if (r.tree && diag_errors(r.d))
                fail("broken program", "a tree in spite of errors");
            run_close(&r);
        }
    }
}

/* ---- includes ---- */

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        fail(path, "cannot be written");
}

/* Loads dir/name: n_files files (-1: an error that says `says`, and not_found as given). */
static void check_load(const char *dir, const char *name, int n_files, const char *says,
                       bool want_not_found)
{
    char path[512], more[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(more, sizeof more, "%s/more", dir);
    const char *const dirs[] = {"/nowhere", more};
    Run r = {.a = arena_new()};
    r.out = open_memstream(&r.messages, &r.len);
    const DiagOptions o = {.out = r.out};
    r.d = diag_new(r.a, &o);
    const FrontendOptions options = {.include_dirs = dirs, .n_include_dirs = 2};
    Program program;
    bool not_found = false;
    const bool good = program_load(r.a, r.d, path, &options, &program, &not_found);
    fflush(r.out);
    if (good != (n_files >= 0) || (good && program.n_files != n_files) ||
        not_found != want_not_found || (says && !strstr(r.messages, says)))
        fail(name, r.len ? r.messages : "loaded the wrong files");
    run_close(&r);
}

static void check_includes(void)
{
    char dir[] = "/tmp/test_parse.XXXXXX", path[512];
    static const char *const names[] = {"root.hdl", "a.hdl",   "more/b.hdl", "cycle.hdl",
                                        "lost.hdl", "bad.hdl", "broken.hdl"};
    if (!mkdtemp(dir)) {
        fail("mkdtemp", "no directory");
        return;
    }
    snprintf(path, sizeof path, "%s/more", dir);
    if (mkdir(path, 0700) != 0)
        fail(path, "cannot be made");
    write_file(dir, names[0],
               "hdl 1\ninclude \"a.hdl\"\ninclude \"b.hdl\"\ninclude \"./a.hdl\"\n");
    write_file(dir, names[1], "hdl 1\ninclude \"b.hdl\"\n");
    write_file(dir, names[2], "hdl 1\nconst a = 1\n");
    write_file(dir, names[3], "hdl 1\ninclude \"cycle.hdl\"\n");
    write_file(dir, names[4], "hdl 1\ninclude \"missing.hdl\"\n");
    write_file(dir, names[5], "hdl 1\nconst a 1\n");
    write_file(dir, names[6], "hdl 1\ninclude \"bad.hdl\"\n");
    check_load(dir, "root.hdl", 3, NULL, false);
    check_load(dir, "cycle.hdl", 1, NULL, false);
    check_load(dir, "lost.hdl", -1, "lost.hdl:2:1: error: cannot read", true);
    check_load(dir, "broken.hdl", -1, "bad.hdl:2:9: error: expected '='", false);
    check_load(dir, "nothing.hdl", -1, "No such file", true);
    check_load(dir, "more", -1, "Is a directory", true);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/more", dir);
    rmdir(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    check_program("the whole language", whole_language, sizeof whole_language - 1);
    for (int i = 1; i < argc; i++)
        check_directory(argv[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "hdl 1\n%s", cases[i].text);
        check_messages(text, cases[i].says);
    }
    check_messages(version_missing, "1:1: error: expected 'hdl 1' first, found 'const'");
    check_messages(version_wrong, "1:5: error: this compiler reads version 1");
    check_hostile();
    check_broken();
    check_includes();
    fprintf(stderr, failures ? "%d failures\n" : "test_parse: all good\n", failures);
    return failures ? 1 : 0;
}
