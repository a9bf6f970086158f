/* hftac's options: the table (tools/options.h says what its columns do) and what must hold between
 * them. */
#include <limits.h>
#include <string.h>

#include "ir/print.h"
#include "tools/hftac.h"

#define STORED(field) STORED_IN(Options, field)

const StageRow stages[STAGE_COUNT] = {
#define STAGE_ROW(NAME, name, suffix, after) [STAGE_##NAME] = {name, suffix, after},
    STAGE_TABLE(STAGE_ROW)
#undef STAGE_ROW
};

/* Whether a stage from `first` on was asked for. */
static bool emits_from(const Options *o, int first)
{
    for (int i = first; i < STAGE_COUNT; i++)
        if (o->emit[i])
            return true;
    return false;
}

bool emits_any(const Options *o)
{
    return emits_from(o, 0);
}

bool wants_code(const Options *o)
{
    return !emits_any(o) || o->emit[STAGE_LLVM] || o->emit[STAGE_ASM] || o->emit[STAGE_OBJ] ||
           o->emit[STAGE_SO];
}

bool wants_beyond(const Options *o, Stage s)
{
    return !emits_any(o) || emits_from(o, (int)s + 1);
}

const char default_output[] = "model.so";

static const char output_group[] = "Output";
static const char program_group[] = "The program";
static const char code_group[] = "Code";
static const char report_group[] = "Messages and reports";
static const char information_group[] = "Information";

/* "frontend" and every pass. */
static const char *pass_word(int i)
{
    if (i == 0)
        return "frontend";
    return i <= pass_count ? pass_list[i - 1].name : NULL;
}

static const char *stage_word(int i)
{
    return i < STAGE_COUNT ? stages[i].name : NULL;
}

static bool is_define(const char *text)
{
    const char *eq = strchr(text, '=');
    return eq && eq != text && eq[1];
}

static void list_ops(const OptionTable *t, const char *unused)
{
    (void)t;
    (void)unused;
    Arena *a = arena_new();
    Text text;
    text_init(&text, a);
    op_list_print(&text);
    fputs(text.s, stdout);
    arena_free(a);
}

static const Option rows[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_FILE,
     STORED(output),
     .argument = "FILE",
     .help = "write to FILE (default model.so; with --emit, `-o -` prints)",
     .group = output_group},
    {.name = "emit",
     .kind = OPTION_CHOICES,
     .word = stage_word,
     STORED(emit),
     .argument = "STAGE[,STAGE...]",
     .help = "write what stands after a stage instead of model.so",
     .group = output_group},
    {.name = "dump-after",
     .kind = OPTION_CHOICE,
     .word = pass_word,
     STORED(dump_after),
     .argument = "PASS",
     .help = "print the graphs after a pass",
     .group = output_group},
    {.name = "MD",
     .one_dash = true,
     .kind = OPTION_FLAG,
     STORED(depend),
     .help = "write a make rule with the files read to OUTPUT.d",
     .group = output_group},
    {.name = "models",
     .letter = 'B',
     .kind = OPTION_NUMBER,
     .least = 1,
     .most = MAX_MODELS,
     STORED(n_models),
     .argument = "N",
     .help = "number of models, the array's capacity (default 1)",
     .group = program_group},
    {.name = "define",
     .letter = 'D',
     .kind = OPTION_LIST,
     .named = true,
     .accepts = is_define,
     .needs = "NAME=VALUE",
     STORED(defines),
     .argument = "NAME=VALUE",
     .help = "set a const, an arch or a dim (batch N too); may be given for each of them",
     .group = program_group},
    {.name = "include",
     .letter = 'I',
     .kind = OPTION_FOLDERS,
     STORED(include_dirs),
     .argument = "DIR",
     .help = "also look for included files in DIR; may be given for several",
     .group = program_group},
    {.name = "precision",
     .kind = OPTION_CHOICE,
     .words = "fp32,fp64", /* as Precision */
     .later = "tf32, bf16 and fp16 are not there yet",
     STORED(precision),
     .help = "type of reals (default fp32)",
     .group = program_group},
    {.name = "loop-from",
     .kind = OPTION_NUMBER,
     .least = 1,
     .most = INT_MAX,
     STORED(loop_from),
     .argument = "N",
     .help = "a repeat of at least N rounds stays a loop if it can (default 8)",
     .group = program_group},
    {.name = "max-memory",
     .kind = OPTION_SIZE,
     STORED(max_memory),
     .argument = "SIZE",
     .help = "refuse a program whose state for B models needs more, e.g. 8G",
     .group = program_group},
    {.letter = 'O',
     .kind = OPTION_NUMBER,
     .repeat = REPEAT_LAST,
     .most = 3,
     .words = "0,1,2,3",
     STORED(optimize),
     .argument = "LEVEL",
     .help = "optimisation, -O0 to -O3 (default -O2); results are the same bits at every level",
     .group = code_group},
    {.name = "target",
     .kind = OPTION_CHOICE,
     .words = "cpu,cuda", /* as TargetKind */
     STORED(target),
     .help = "what to generate code for (default cpu; cuda: --emit=cuda)",
     .group = code_group},
    {.name = "march",
     .one_dash = true,
     .kind = OPTION_TEXT,
     .repeat = REPEAT_LAST,
     .words = "native,x86-64-v3,x86-64-v4",
     STORED(march),
     .argument = "ARCH",
     .help = "the CPU that the code is for: x86-64-v3 (default), x86-64-v4, native or another",
     .group = code_group},
    {.name = "gpu-arch",
     .kind = OPTION_TEXT,
     STORED(gpu_arch),
     .argument = "ARCH,...",
     .help = "with --target=cuda: also compile the text with NVRTC, e.g. sm_80,sm_90",
     .group = code_group},
    {.name = "deterministic",
     .kind = OPTION_FLAG,
     STORED(deterministic),
     .help = "the same bits in every run; code for the CPU always gives them",
     .group = code_group},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .least = 1,
     .most = MAX_JOBS,
     STORED(jobs),
     .argument = "N",
     .help = "threads that compile (default: one per processor)",
     .group = code_group},
    {.letter = 'w',
     .kind = OPTION_FLAG,
     .repeat = REPEAT_LAST,
     STORED(no_warnings),
     .help = "no warnings",
     .group = report_group},
    {.name = "Wall",
     .one_dash = true,
     .kind = OPTION_FLAG_OFF,
     .repeat = REPEAT_LAST,
     STORED(no_warnings),
     .help = "all warnings, which is the default",
     .group = report_group},
    {.name = "Werror",
     .one_dash = true,
     .kind = OPTION_FLAG,
     STORED(werror),
     .help = "warnings are errors",
     .group = report_group},
    {.name = "fdiagnostics-color",
     .one_dash = true,
     .kind = OPTION_CHOICE,
     .repeat = REPEAT_LAST,
     .words = "auto,always,never", /* as Color */
     STORED(color),
     .help = "colours in messages (default: on a terminal)",
     .group = report_group},
    {.name = "time-report",
     .kind = OPTION_FLAG,
     STORED(time_report),
     .help = "where the time went, to stderr",
     .group = report_group},
    {.name = "mem-report",
     .kind = OPTION_FLAG,
     STORED(mem_report),
     .help = "the memory plan, to stderr",
     .group = report_group},
    {.name = "work-report",
     .kind = OPTION_FLAG,
     STORED(work_report),
     .help = "how much each entry computes, and how often, to stderr",
     .group = report_group},
    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     STORED(verbose),
     .help = "say more",
     .group = report_group},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     STORED(quiet),
     .help = "say less",
     .group = report_group},
    {.name = "list-ops",
     .kind = OPTION_ACTION,
     .act = list_ops,
     .help = "print the operators of the IR",
     .group = information_group},
    COMMON_OPTIONS,
};

static const ExitCode exit_codes[] = {
    {"0", "ok"},
    {"1", "errors in the input"},
    {"2", "usage"},
    {"3", "file or OS error"},
    {"4", "tool missing"},
    {"70", "internal error"},
    {0},
};

static const char *const notes[] = {
    "A file that ends in .hir is read as IR text. `-` is standard input; `--` ends the "
    "options.",
    "An output appears whole or not at all, and none may be one of the files read.",
    "An option that has an argument is given once; -D and -I once for each name or folder; of "
    "-O, "
    "-march, -fdiagnostics-color, -w and -Wall the last one counts, as in cc. `-B 8`, `-B8`, "
    "`--models 8` and `--models=8` are the same.",
    NULL,
};

const OptionTable hftac_table = {
    .name = "hftac",
    .operand = "model.hdl",
    .operand_name = "input file",
    .suffixes = "hdl,hir",
    .summary =
        "Compiles a model description into a shared object that trains B models at once.",
    .option = rows,
    .n_options = sizeof rows / sizeof rows[0],
    .exit_codes = exit_codes,
    .notes = notes,
};

Options hftac_options_read(int argc, char **argv)
{
    Options o = {.n_models = 1, .optimize = 2, .march = "x86-64-v3", .dump_after = -1};
    o.input = options_parse(&hftac_table, argc, argv, &o);
    if (o.emit[STAGE_CUDA] && o.target != TARGET_CUDA)
        die(EXIT_USAGE, "--emit=cuda needs --target=cuda");
    if (o.target == TARGET_CUDA && wants_code(&o))
        die(EXIT_USAGE, "--target=cuda can be looked at with --emit=cuda (ast, hdl, ir, grad, "
                        "fused, lowered, plan); running it is not there yet");
    return o;
}
