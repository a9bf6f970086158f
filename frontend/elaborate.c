/* program_elaborate: makes a module of graphs of a program's files and the standard library.
 *
 * This is the driver that tools call through frontend.h.  It collects the declarations at the
 * top of all files, sets what -D gives, and then builds the entry points (entries.c) one by one. */
#include "frontend/entries.h"
#include "frontend/train/train.h"

#include <string.h>

#include "frontend/std/std_files.h"

/* The heads of built-ins, parsed from their rows as one file of fns. */
static bool parse_builtins(Elab *e)
{
    Text t;
    text_init(&t, e->arena);
    text_add(&t, "hdl 1\n");
    e->builtin_params =
        arena_array(e->arena, (size_t)builtin_row_count, sizeof *e->builtin_params);
    for (int i = 0; i < builtin_row_count; i++)
        if (strcmp(builtin_rows[i].params, "*") != 0)
            text_printf(&t, "fn %s(%s) = none\n", builtin_rows[i].name, builtin_rows[i].params);
    const int file = diag_add_source(e->diag, "<built-in>", t.s, t.len, true);
    const Ast *root = hdl_parse(e->arena, e->diag, file);
    int next = 0;
    for (int i = 0; root != NULL && i < builtin_row_count; i++)
        if (strcmp(builtin_rows[i].params, "*") != 0 && next < root->n)
            e->builtin_params[i] = root->kid[next++]->kid[0];
    return root != NULL;
}

static bool collect_library(Elab *e)
{
    for (int i = 0; i < std_file_count; i++) {
        const StdFile *f = &std_files[i];
        const int file = diag_add_source(e->diag, f->name, f->text, f->len, true);
        const Ast *root = hdl_parse(e->arena, e->diag, file);
        if (root == NULL)
            return false;
        globals_collect(e, root, true);
    }
    return diag_errors(e->diag) == 0;
}

/* Without a train section the batch is the first axis of the first input, if that has a name. */
static bool find_batch(Elab *e)
{
    const Ast *body = e->model->kid[0];
    for (int i = 0; e->train == NULL && i < body->n; i++) {
        const Ast *s = body->kid[i];
        if (s == NULL || s->kind != AST_INPUT)
            continue;
        const Ast *type = s->kid[0];
        if (type->n == 0 || type->kid[0]->kind != AST_NAME ||
            global_find(e, type->kid[0]->name, false) != NULL)
            return true;
        if (!define_dim(e, type->kid[0]->name, &e->module->batch))
            return true; /* the input's declaration will say that it has no value */
        e->batch_name = type->kid[0]->name;
        return true;
    }
    return true;
}

Module *program_elaborate(Arena *a, Diag *d, const Program *p, const FrontendOptions *o)
{
    Elab *e = arena_alloc(a, sizeof *e);
    *e = (Elab){
        .arena = a, .diag = d, .options = o, .real = o->precision == DT_F64 ? DT_F64 : DT_F32};
    e->train_statement = train_statement;
    e->layer_numbers = map_of_texts(a);
    e->state_numbers = map_of_texts(a);
    e->state_value_numbers = map_of_texts(a);
    e->added_numbers = map_of_texts(a);
    e->module = module_new(a, d, "");
    e->scratch = graph_new(e->module, ENTRY_NONE);
    e->b.graph = e->scratch;
    if (!parse_builtins(e) || !collect_library(e))
        return NULL;
    for (int i = 0; i < p->n_files; i++)
        globals_collect(e, p->files[i], false);
    if (diag_errors(d) > 0)
        return NULL;
    if (e->model == NULL) {
        const SrcRange at = p->n_files > 0 ? (SrcRange){p->files[0]->loc.file, 0, 0} : SRC_NONE;
        diag_error(d, at, "the program has no model");
        return NULL;
    }
    e->module->name = e->model->name;
    if (!defines_apply(e))
        return NULL;
    hypers_declare(e);
    if (diag_errors(d) > 0 || !train_sizes(e) || !find_batch(e) || diag_errors(d) > 0 ||
        !entries_build(e))
        return NULL;
    return e->module;
}
