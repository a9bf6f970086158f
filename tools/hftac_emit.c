/* What hftac writes of each stage: names of files, dumps, reports on the plan. */
#include <string.h>

#include "ir/print.h"
#include "tools/hftac.h"

/* The input's name without directory and suffix, in the current directory, plus `suffix`. */
static const char *output_name(Compiler *c, const char *suffix)
{
    const char *base = strrchr(c->o.input, '/');
    base = base ? base + 1 : c->o.input;
    if (!strcmp(base, "-"))
        base = "stdin";
    const char *dot = strrchr(base, '.');
    return arena_printf(c->arena, "%.*s%s",
                        dot && dot != base ? (int)(dot - base) : (int)strlen(base), base,
                        suffix);
}

const char *stage_path(Compiler *c, Stage s)
{
    int n = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        n += c->o.emit[i];
    if (c->o.output && (n <= 1 || !strcmp(c->o.output, "-")))
        return c->o.output;
    return output_name(c, stages[s].suffix);
}

void write_text(Compiler *c, const char *path, const Text *text)
{
    output_write(&c->inputs, path, text);
}

void emit_module(Compiler *c, const Module *m, Stage s)
{
    if (!c->o.emit[s])
        return;
    Text t;
    text_init(&t, c->arena);
    (s == STAGE_DOT ? module_print_dot : module_print)(&t, m);
    write_text(c, stage_path(c, s), &t);
}

void dump_after(Compiler *c, const Module *m, const char *pass)
{
    const int i = c->o.dump_after;
    if (i < 0 || strcmp(i == 0 ? "frontend" : pass_list[i - 1].name, pass) != 0)
        return;
    Text t;
    text_init(&t, c->arena);
    module_print(&t, m);
    write_text(c, "-", &t);
}

static void print_report(Compiler *c, const Plan *p, bool wanted,
                         void (*print)(Text *out, const Plan *p))
{
    Text t;
    if (!wanted)
        return;
    text_init(&t, c->arena);
    print(&t, p);
    fputs(t.s, stderr);
}

void emit_plan(Compiler *c, const Plan *p)
{
    for (int s = STAGE_LOWERED; s <= STAGE_PLAN; s++)
        if (c->o.emit[s]) {
            Text t;
            text_init(&t, c->arena);
            plan_print(&t, p, s == STAGE_PLAN);
            write_text(c, stage_path(c, (Stage)s), &t);
        }
    print_report(c, p, c->o.mem_report, plan_print_memory);
    print_report(c, p, c->o.work_report, plan_print_work);
}

void write_depend(Compiler *c, const Program *p, const char *target)
{
    Text t;
    text_init(&t, c->arena);
    text_printf(&t, "%s:", target);
    for (int i = 0; i < p->n_files; i++)
        text_printf(&t, " %s", p->files[i]->name);
    text_add(&t, "\n");
    write_text(c, arena_printf(c->arena, "%s.d", target), &t);
}
