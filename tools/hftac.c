/* hftac: compiles a model description into a shared object that trains B models at once.
 *
 * Options, then phases in order: read, elaborate, passes, plan, code, link.  Each phase can be
 * looked at (--emit, --dump-after) and is timed (--time-report). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/read.h"
#include "ir/support/input.h"
#include "ir/verify.h"
#include "tools/hftac.h"

static const double MIB = 1 << 20;

void phase_begin(Compiler *c)
{
    c->started = now();
}

void phase_end(Compiler *c, const char *name)
{
    if (c->n_times < MAX_TIMINGS)
        c->times[c->n_times++] = (Timing){name, now() - c->started};
    c->started = now();
}

static int finish_report(Compiler *c)
{
    if (c->o.time_report) {
        double total = 0;
        for (int i = 0; i < c->n_times; i++) {
            fprintf(stderr, "%-12s %9.3f ms\n", c->times[i].name, 1e3 * c->times[i].seconds);
            total += c->times[i].seconds;
        }
        fprintf(stderr, "%-12s %9.3f ms, compiler memory %.1f MiB\n", "total", 1e3 * total,
                (double)arena_used(c->arena) / MIB);
    }
    return 0;
}

static Module *load_hir(Compiler *c)
{
    struct stat st;
    const bool is_stdin = !strcmp(c->o.input, "-");
    const int fd = is_stdin ? STDIN_FILENO : input_open(c->o.input, &st);
    size_t n = 0;
    const char *text = fd < 0 ? NULL : input_read(c->arena, fd, &n);
    if (!text)
        die(EXIT_FILE, "cannot read '%s': %s", c->o.input, input_error(errno));
    if (!is_stdin)
        close(fd);
    return module_read(c->arena, c->diag, diag_add_source(c->diag, c->o.input, text, n, false));
}

static void note_inputs(Compiler *c, const Program *p)
{
    const char **paths = arena_array(c->arena, (size_t)p->n_files + 1, sizeof *paths);
    for (int i = 0; i < p->n_files; i++)
        paths[i] = p->files[i]->name;
    c->inputs = (Inputs){.paths = paths, .n = p->n_files};
}

/* -D's texts at their '='; options_read has seen that there is one. */
static const Define *defines_of(Compiler *c)
{
    const OptionList *list = &c->o.defines;
    Define *d = arena_array(c->arena, (size_t)list->n + 1, sizeof *d);
    for (int i = 0; i < list->n; i++) {
        const char *eq = strchr(list->text[i], '=');
        d[i].name = arena_strndup(c->arena, list->text[i], (size_t)(eq - list->text[i]));
        d[i].value = eq + 1;
    }
    return d;
}

/* Text to module; exits where the text has mistakes or no later stage is wanted. */
static Module *front(Compiler *c)
{
    const size_t len = strlen(c->o.input);
    if (len > 4 && !strcmp(c->o.input + len - 4, ".hir")) {
        c->inputs = (Inputs){.paths = &c->o.input, .n = 1};
        Module *m = load_hir(c);
        phase_end(c, "read");
        return m;
    }
    const FrontendOptions fo = {.defines = defines_of(c),
                                .n_defines = c->o.defines.n,
                                .include_dirs = c->o.include_dirs.text,
                                .n_include_dirs = c->o.include_dirs.n,
                                .n_models = c->o.n_models,
                                .loop_from = c->o.loop_from,
                                .precision =
                                    c->o.precision == PRECISION_FP64 ? DT_F64 : DT_F32};
    Program p = {0};
    bool not_found = false;
    const bool loaded = program_load(c->arena, c->diag, c->o.input, &fo, &p, &not_found);
    phase_end(c, "parse");
    if (!loaded || diag_errors(c->diag))
        exit(not_found ? EXIT_FILE : EXIT_INPUT);
    note_inputs(c, &p);
    if (c->o.emit[STAGE_AST]) {
        Text t;
        text_init(&t, c->arena);
        for (int i = 0; i < p.n_files; i++)
            ast_print(&t, p.files[i]);
        write_text(c, stage_path(c, STAGE_AST), &t);
        if (!wants_beyond(&c->o, STAGE_AST))
            exit(finish_report(c));
    }
    phase_begin(c);
    Module *m = program_elaborate(c->arena, c->diag, &p, &fo);
    phase_end(c, "elaborate");
    if (m && c->o.emit[STAGE_HDL]) {
        Text t;
        text_init(&t, c->arena);
        program_print_hdl(&t, &p, m);
        write_text(c, stage_path(c, STAGE_HDL), &t);
    }
    if (m && c->o.depend)
        write_depend(c, &p, c->o.output ? c->o.output : default_output);
    return m;
}

/* A .hir text may stand after any pass: the ones that are done are not run again. */
static int first_pass(const Module *m)
{
    for (int i = pass_count; i-- > 0;)
        if (m->stage == pass_list[i].stage)
            return i + 1;
    return 0;
}

/* Prints the stage that stands after this pass, if it was asked for; ends there if nothing later
 * was. */
static void emit_after(Compiler *c, const Module *m, const char *pass)
{
    dump_after(c, m, pass);
    for (int s = 0; s < STAGE_COUNT; s++)
        if (stages[s].after && !strcmp(stages[s].after, pass)) {
            emit_module(c, m, (Stage)s);
            if (c->o.emit[s] && !wants_beyond(&c->o, (Stage)s))
                exit(finish_report(c));
        }
}

static bool run_passes(Compiler *c, Module *m, const Target *t)
{
    if (first_pass(m))
        emit_after(c, m, pass_list[first_pass(m) - 1].name);
    for (int i = first_pass(m); i < pass_count; i++) {
        phase_begin(c);
        if (!pass_list[i].run(m, c->o.n_models, t) || diag_errors(c->diag))
            return false;
        module_verify(m, pass_list[i].name);
        phase_end(c, pass_list[i].name);
        emit_after(c, m, pass_list[i].name);
    }
    return true;
}

static void check_memory(Compiler *c, const Plan *p)
{
    const double bytes = (double)p->state_bytes * c->o.n_models + (double)p->shared_bytes +
                         (double)p->scratch_bytes;
    if (c->o.max_memory && bytes > (double)c->o.max_memory)
        die(EXIT_INPUT, "%d models need %.0f bytes, more than --max-memory=%lld", c->o.n_models,
            bytes, c->o.max_memory);
}

static void say_whole(const Graph *g)
{
    fprintf(stderr, "hftac: @%s takes whole batches only: ", g->name);
    print_escaped(g->whole, stderr); /* it begins with a path */
    fputc('\n', stderr);
}

static void say_counts(const Compiler *c, const Module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_states; i++)
        if (m->states[i].role == ROLE_PARAM)
            n += shape_count(&m->states[i].type.shape);
    if (c->o.quiet || emits_any(&c->o))
        return;
    fprintf(stderr, "hftac: %s: %lld parameters, %d model%s\n", m->name, (long long)n,
            m->n_models, m->n_models == 1 ? "" : "s");
    for (int i = 0; i < m->n_graphs; i++)
        if (m->graphs[i]->whole)
            say_whole(m->graphs[i]);
}

static bool wants_color(const Options *o)
{
    return o->color == COLOR_AUTO ? isatty(STDERR_FILENO) : o->color == COLOR_ALWAYS;
}

int main(int argc, char **argv)
{
    output_begin();
    cpu_watch_memory();
    Compiler c = {.arena = arena_new(), .o = hftac_options_read(argc, argv)};
    c.diag = diag_new(c.arena, &(DiagOptions){.color = wants_color(&c.o),
                                              .werror = c.o.werror,
                                              .no_warnings = c.o.no_warnings});
    const char *error = NULL;
    const bool cuda = c.o.target == TARGET_CUDA;
    const Target target = {.cuda = cuda, .optimize = c.o.optimize};
    if (!cuda && !cpu_vector_bytes(c.arena, c.o.march, &error))
        die(EXIT_USAGE, "%s", error);
    phase_begin(&c);
    Module *m = front(&c);
    if (!m || diag_errors(c.diag))
        return EXIT_INPUT;
    module_verify(m, "frontend");
    if (m->n_models)
        c.o.n_models = m->n_models; /* a .hir after horizontal fusion */
    dump_after(&c, m, "frontend");
    if (!first_pass(m))
        emit_module(&c, m, STAGE_IR);
    if (!wants_beyond(&c.o, STAGE_IR) && c.o.dump_after < 0)
        return finish_report(&c);
    if (!run_passes(&c, m, &target))
        return EXIT_INPUT;
    emit_module(&c, m, STAGE_DOT);
    phase_begin(&c);
    const Plan *plan = plan_build(m, &target);
    phase_end(&c, "plan");
    check_memory(&c, plan);
    emit_plan(&c, plan);
    if (cuda)
        emit_cuda(&c, plan);
    else if (wants_code(&c.o))
        generate(&c, plan);
    say_counts(&c, m);
    finish_report(&c);
    option_list_free(&c.o.defines);
    option_list_free(&c.o.include_dirs);
    arena_free(c.arena);
    return 0;
}
