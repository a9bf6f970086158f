/* Options of a program as a table: one row per option, from which come parsing, --help, the man
 * page and the completion of bash and zsh.  hftac and hftrun have such a table each
 * (hftac_options.c, hftrun_options.c); what they share is here, so that both behave alike.
 *
 * One row carried through: hftrun's
 *
 *     {.name = "epochs", .kind = OPTION_NUMBER, .least = 0, .most = 1000000000, STORED(epochs),
 *      .argument = "N", .help = "how often to go through the data", .group = GROUP_TRAINING}
 *
 * makes getopt_long take `--epochs 3` and `--epochs=3`, puts 3 into Options.epochs, answers
 * `--epochs -1` with "--epochs needs a whole number from 0 to 1000000000, not '-1'", a second
 * --epochs with "--epochs is given twice", `--epoch 3` as the abbreviation it is and `--epohcs 3`
 * with "did you mean --epochs?", and prints
 *
 *     --epochs=N             how often to go through the data
 *
 * in --help, a .TP paragraph in hftrun.1 and a line in either completion. */
#ifndef HFTAC_TOOLS_OPTIONS_H
#define HFTAC_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What an option's argument is, and so what stands at `offset` of the program's struct. */
typedef enum OptionKind {
    OPTION_FLAG,     /* no argument; bool: true */
    OPTION_FLAG_OFF, /* no argument; bool: false */
    OPTION_VALUE,    /* no argument; int: `value` */
    OPTION_TEXT,     /* const char *: any text */
    OPTION_FILE,     /* const char *: as text, completed with files */
    OPTION_FOLDER,   /* const char *: as text, completed with folders */
    OPTION_LIST,     /* OptionList: every text given, in order */
    OPTION_FOLDERS,  /* OptionList: likewise, completed with folders */
    OPTION_NUMBER,   /* int: a whole number from `least` to `most` */
    OPTION_SEED,     /* uint64_t: a whole number, decimal or 0x... */
    OPTION_SIZE,     /* long long: bytes, with K, M, G or T for powers of 1024 */
    OPTION_CHOICE,   /* int: which of the words */
    OPTION_CHOICES,  /* bool [number of words]: true at each of a list of words */
    OPTION_ACTION,   /* no argument; calls `act`, and ends the program */
    OPTION_LATER     /* known to the users' documents, and not there yet: an error, not shown */
} OptionKind;

/* What a second use of the same option means. */
typedef enum OptionRepeat {
    REPEAT_NOT, /* an error where the option has an argument */
    REPEAT_LAST /* the last one counts, as in cc */
} OptionRepeat;

/* An option's texts, in order; freed by option_list_free. */
typedef struct OptionList {
    const char **text;
    int n;
} OptionList;

typedef struct OptionTable OptionTable;

typedef struct Option {
    /* "epochs" for --epochs; NULL: there is only a letter. */
    const char *name;
    /* The name is written with one dash, as in cc: -march=X, -MD. */
    bool one_dash;
    /* 'o' for -o, or 0. */
    char letter;
    OptionKind kind;
    OptionRepeat repeat;
    /* Where the value goes in the program's struct: offset and size, by STORED(field). */
    size_t offset, size;
    /* Of OPTION_NUMBER; OPTION_VALUE's constant. */
    long long least, most, value;
    /* The words of a choice, and suggestions for completion where any text does: "a,b,c" ... */
    const char *words;
    /* ... or, where a table elsewhere has them, a function: the i-th, NULL after the last. */
    const char *(*word)(int i);
    /* A word of a choice that is not there yet is refused with this. */
    const char *later;
    /* A list's texts are NAME=VALUE, with each NAME once. */
    bool named;
    /* Of OPTION_TEXT and OPTION_LIST: whether the text will do; `needs` says what it must be. */
    bool (*accepts)(const char *text);
    const char *needs;
    void (*act)(const OptionTable *table, const char *argument);
    /* What stands for the argument in --help: "N". */
    const char *argument;
    /* What it does: no capital, no full stop.  NULL: a hidden option. */
    const char *help;
    /* The heading that it stands below. */
    const char *group;
} Option;

typedef struct ExitCode {
    const char *code, *meaning;
} ExitCode;

struct OptionTable {
    const char *name;
    /* What stands where no option does: "model.hdl" in the usage, "input file" in messages, and
     * what its name ends in: "hdl,hir". */
    const char *operand, *operand_name, *suffixes;
    const char *summary;
    const Option *option;
    int n_options;
    /* Both end with a row of NULL. */
    const ExitCode *exit_codes;
    /* Paragraphs below the options in --help and in the man page. */
    const char *const *notes;
};

#define STORED_IN(type, field) .offset = offsetof(type, field), .size = sizeof((type *)0)->field

/* Rows that every program has. */
#define COMMON_OPTIONS                                                          \
    {.name = "help",                                                            \
     .kind = OPTION_ACTION,                                                     \
     .act = options_print_help,                                                 \
     .help = "print this help",                                                 \
     .group = "Information"},                                                   \
        {.name = "version",                                                     \
         .kind = OPTION_ACTION,                                                 \
         .act = options_print_version,                                          \
         .help = "print the version",                                           \
         .group = "Information"},                                               \
        {.name = "print-man",                                                   \
         .kind = OPTION_ACTION,                                                 \
         .argument = "TEMPLATE",                                                \
         .act = options_print_man},                                             \
    {                                                                           \
        .name = "print-completion", .kind = OPTION_ACTION, .argument = "SHELL", \
        .act = options_print_completion                                         \
    }

/* Reads the options into `values`, the struct that the table's offsets are of, and returns the
 * operand (the only one).  Ends the program after an action, and with exit code 2 on mistakes. */
const char *options_parse(const OptionTable *table, int argc, char **argv, void *values);
void option_list_free(OptionList *list);

/* ---- What the table is printed as (options_print.c, options_completion.c) ---- */

void options_print_help(const OptionTable *table, const char *unused);
void options_print_version(const OptionTable *table, const char *unused);
/* The file `template` with its line `@OPTIONS@` replaced by the options and `@EXIT_STATUS@` by the
 * exit codes, in the man macros. */
void options_print_man(const OptionTable *table, const char *template);
/* `shell` is bash or zsh. */
void options_print_completion(const OptionTable *table, const char *shell);

/* ---- Questions to a row ---- */

bool option_has_argument(const Option *o);
/* May be given several times, each with a value of its own. */
bool option_is_list(const Option *o);
bool option_is_shown(const Option *o);
/* "--epochs", "-march", "-O": as messages call it. */
enum {
    OPTION_NAME_BYTES = 64
};
const char *option_name(const Option *o, char text[OPTION_NAME_BYTES]);
/* The i-th word and its length; NULL after the last. */
const char *option_word(const Option *o, int i, size_t *length);

#endif
