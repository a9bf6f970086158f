/* The table of options: a small one with every kind, read from command lines; and the rules that
 * the programs' own tables keep, with what they print. */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/options.h"
#include "tools/program.h"

extern const OptionTable hftac_table, hftrun_table;

static int failures;

__attribute__((format(printf, 2, 3))) static void check(bool ok, const char *format, ...)
{
    va_list ap;
    if (ok)
        return;
    failures++;
    va_start(ap, format);
    printf("FAILED: ");
    vprintf(format, ap);
    putchar('\n');
    va_end(ap);
}

/* ---- A table with every kind ---- */

typedef struct Values {
    bool flag, on, words[3];
    int number, choice, constant, level;
    const char *text, *file, *folder, *word;
    OptionList list, folders;
    uint64_t seed;
    long long size;
} Values;

static bool has_equals(const char *text)
{
    return strchr(text, '=') != NULL;
}

#define STORED(field) STORED_IN(Values, field)
static const Option rows[] = {
    {.name = "flag",
     .letter = 'f',
     .kind = OPTION_FLAG,
     STORED(flag),
     .help = "a",
     .group = "A"},
    {.name = "off", .kind = OPTION_FLAG_OFF, STORED(on), .help = "a", .group = "A"},
    {.name = "number",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .least = -2,
     .most = 7,
     STORED(number),
     .argument = "N",
     .help = "a",
     .group = "A"},
    {.letter = 'O',
     .kind = OPTION_NUMBER,
     .repeat = REPEAT_LAST,
     .most = 3,
     STORED(level),
     .argument = "LEVEL",
     .help = "a",
     .group = "A"},
    {.name = "choice",
     .kind = OPTION_CHOICE,
     .words = "red,green,blue",
     STORED(choice),
     .help = "a",
     .group = "A"},
    {.name = "constant",
     .kind = OPTION_VALUE,
     .value = 2,
     STORED(choice),
     .help = "a",
     .group = "A"},
    {.name = "several",
     .kind = OPTION_CHOICES,
     .words = "red,green,blue",
     STORED(words),
     .help = "a",
     .group = "A"},
    {.name = "text",
     .kind = OPTION_TEXT,
     STORED(text),
     .argument = "T",
     .help = "a",
     .group = "A"},
    {.name = "file",
     .kind = OPTION_FILE,
     STORED(file),
     .argument = "F",
     .help = "a",
     .group = "A"},
    {.name = "folder",
     .kind = OPTION_FOLDER,
     STORED(folder),
     .argument = "D",
     .help = "a",
     .group = "A"},
    {.name = "list",
     .letter = 'D',
     .kind = OPTION_LIST,
     .named = true,
     .accepts = has_equals,
     .needs = "A=B",
     STORED(list),
     .argument = "A=B",
     .help = "a",
     .group = "A"},
    {.name = "folders",
     .kind = OPTION_FOLDERS,
     STORED(folders),
     .argument = "D",
     .help = "a",
     .group = "A"},
    {.name = "seed",
     .kind = OPTION_SEED,
     STORED(seed),
     .argument = "N",
     .help = "a",
     .group = "A"},
    {.name = "size",
     .kind = OPTION_SIZE,
     STORED(size),
     .argument = "S",
     .help = "a",
     .group = "A"},
    {.name = "word",
     .one_dash = true,
     .kind = OPTION_TEXT,
     STORED(word),
     .argument = "T",
     .help = "a",
     .group = "A"},
    {.name = "later", .kind = OPTION_LATER},
    COMMON_OPTIONS,
};

static const ExitCode codes[] = {{"0", "ok"}, {0}};
static const char *const no_notes[] = {NULL};
static const OptionTable table = {.name = "test",
                                  .operand = "model",
                                  .operand_name = "model",
                                  .suffixes = "m",
                                  .summary = "A test.",
                                  .option = rows,
                                  .n_options = sizeof rows / sizeof rows[0],
                                  .exit_codes = codes,
                                  .notes = no_notes};

enum {
    MAX_WORDS = 16,
    OUTPUT_BYTES = 1 << 16
};

/* A command line in one text; words are separated by blanks. */
static const char *parse(const char *line, char copy[256], Values *v)
{
    char *argv[MAX_WORDS] = {"test"};
    int argc = 1;
    snprintf(copy, 256, "%s", line);
    for (char *save = NULL, *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save))
        argv[argc++] = s;
    *v = (Values){.on = true, .number = 100, .choice = 100};
    return options_parse(&table, argc, argv, v);
}

/* What a child that runs `body(argument)` prints on both streams, and its exit code. */
static int in_child(void (*body)(const void *), const void *argument, char out[OUTPUT_BYTES])
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    fflush(stdout);
    if (pipe(ends) != 0)
        exit(2);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        body(argument);
        exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], out + n, OUTPUT_BYTES - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void parse_in_child(const void *line)
{
    char copy[256];
    Values v;
    parse(line, copy, &v);
    option_list_free(&v.list);
    option_list_free(&v.folders);
}

static void fails(const char *line, const char *message)
{
    char out[OUTPUT_BYTES], want[1024];
    snprintf(want, sizeof want, "test: error: %s\nTry 'test --help'.\n", message);
    const int code = in_child(parse_in_child, line, out);
    check(code == EXIT_USAGE && !strcmp(out, want), "%s: exit code %d, %s instead of %s", line,
          code, out, want);
}

static void test_values(void)
{
    char copy[256];
    Values v;
    check(!strcmp(parse("m", copy, &v), "m") && v.number == 100 && v.on,
          "nothing but the model");
    check(!strcmp(parse("--number 3 m", copy, &v), "m") && v.number == 3, "--number 3");
    static const char *const spellings[] = {"--number=-2 m", "-n-2 m",   "-n -2 m",
                                            "m --number -2", "-fn -2 m", "--num=-2 -- m"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        check(!strcmp(parse(spellings[i], copy, &v), "m") && v.number == -2, "%s",
              spellings[i]);
    check(!strcmp(parse("--flag --flag --off -- -m", copy, &v), "-m") && v.flag && !v.on,
          "flags may be repeated, and `--` ends the options");
    check(!strcmp(parse("-", copy, &v), "-"), "standard input is an operand");
    parse("-O1 -O3 -O 2 m", copy, &v);
    check(v.level == 2, "the last -O counts");
    parse("--choice=blue --several red,blue m", copy, &v);
    check(v.choice == 2 && v.words[0] && !v.words[1] && v.words[2], "words");
    parse("--constant m", copy, &v);
    check(v.choice == 2, "a constant");
    parse("--text= --file -word=no --folder=d -word=a=b m", copy, &v);
    check(!strcmp(v.text, "") && !strcmp(v.file, "-word=no") && !strcmp(v.folder, "d") &&
              !strcmp(v.word, "a=b"),
          "texts: an argument is no option, and `=` may be in one");
    parse("-Da=1 -D b=2 --list=c=3 --folders x m --folders=y", copy, &v);
    check(v.list.n == 3 && !strcmp(v.list.text[0], "a=1") && !strcmp(v.list.text[1], "b=2") &&
              !strcmp(v.list.text[2], "c=3") && v.folders.n == 2 &&
              !strcmp(v.folders.text[1], "y"),
          "lists keep all, in order");
    option_list_free(&v.list);
    option_list_free(&v.folders);
    parse("--seed 18446744073709551615 --size=1.5k m", copy, &v);
    check(v.seed == UINT64_MAX && v.size == 1536, "the largest seed, and a size");
    parse("--seed=0x10 --size 8G m", copy, &v);
    check(v.seed == 16 && v.size == 8LL << 30, "hexadecimal, and 8G");
}

static void test_mistakes(void)
{
    fails("", "no model");
    fails("a b", "one model, please; 'b' is a second");
    fails("--number 1 --number 1 m", "--number is given twice");
    fails("--number 1 -n 1 m", "-n is given twice");
    fails("-Da=1 --list b=1 -D a=2 m", "-D a is given twice");
    fails("--text a --text=b m", "--text is given twice");
    fails("-word=a -word=b m", "-word is given twice");
    fails("--choice=red --constant m", "--choice and --constant exclude each other");
    fails("--constant --choice red m", "--constant and --choice exclude each other");
    fails("--number", "--number needs an argument");
    fails("m -n", "-n needs an argument");
    fails("-word m", "-word needs an argument");
    fails("--flag=1 m", "--flag takes no argument");
    fails("--number=8 m", "--number needs a whole number from -2 to 7, not '8'");
    fails("-n -3 m", "-n needs a whole number from -2 to 7, not '-3'");
    fails("-n 99999999999999999999 m",
          "-n needs a whole number from -2 to 7, not '99999999999999999999'");
    fails("-n 3x m", "-n needs a whole number from -2 to 7, not '3x'");
    fails("--number= m", "--number needs a whole number from -2 to 7, not ''");
    fails("--seed -1 m",
          "--seed needs a whole number from 0 to 18446744073709551615, not '-1'");
    fails("--size 0 m", "--size needs a size such as 8G, not '0'");
    fails("--size 8Q m", "--size needs a size such as 8G, not '8Q'");
    fails("--size nan m", "--size needs a size such as 8G, not 'nan'");
    fails("--size 8388608T m", "--size needs a size such as 8G, not '8388608T'");
    fails("-D a m", "-D needs A=B, not 'a'");
    fails("--choice=grene m",
          "--choice takes red, green or blue, not 'grene'; did you mean 'green'?");
    fails("--choice=violet m", "--choice takes red, green or blue, not 'violet'");
    fails("--several=red,,blue m", "--several takes red, green or blue, not ''");
    fails("--nubmer 3 m", "unknown option '--nubmer'; did you mean --number?");
    fails("--nubmer=3 m", "unknown option '--nubmer'; did you mean --number?");
    fails("m -number 3", "-n needs a whole number from -2 to 7, not 'umber'");
    fails("--f m", "'--f' may be any of --flag, --file, --folder, --folders");
    fails("--xyzzy m", "unknown option '--xyzzy'");
    fails("-x m", "unknown option '-x'");
    fails("-fx m", "unknown option '-fx'");
    fails("-wrod=a m", "unknown option '-wrod'; did you mean -word?");
    fails("-w ord m", "unknown option '-w'");
    fails("--later m", "--later is not there yet");
    fails("--print-completion=fish", "--print-completion is bash or zsh, not 'fish'");
    fails("--text \x1b[2J --nix\x1b[2J m", "unknown option '--nix\\x1b[2J'");
    fails("--nix\x9b m", "unknown option '--nix\\x9b'");
}

/* ---- The programs' tables ---- */

static size_t stored_bytes(const Option *o, int n_words)
{
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_FLAG_OFF:
        return sizeof(bool);
    case OPTION_VALUE:
    case OPTION_NUMBER:
    case OPTION_CHOICE:
        return sizeof(int);
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_FOLDER:
        return sizeof(const char *);
    case OPTION_LIST:
    case OPTION_FOLDERS:
        return sizeof(OptionList);
    case OPTION_SEED:
        return sizeof(uint64_t);
    case OPTION_SIZE:
        return sizeof(long long);
    case OPTION_CHOICES:
        return (size_t)n_words * sizeof(bool);
    case OPTION_ACTION:
    case OPTION_LATER:
        return 0;
    }
    return 0;
}

static void test_row(const OptionTable *t, int i)
{
    const Option *o = &t->option[i];
    char name[OPTION_NAME_BYTES];
    int n_words = 0;
    size_t n;
    option_name(o, name);
    while (option_word(o, n_words, &n))
        n_words++;
    check(o->name || o->letter, "%s: row %d has no name", t->name, i);
    check(!o->name || strlen(o->name) + 3 < OPTION_NAME_BYTES, "%s: the name is too long",
          name);
    check(o->size == stored_bytes(o, n_words), "%s: the field has %zu bytes", name, o->size);
    check((o->kind != OPTION_CHOICE && o->kind != OPTION_CHOICES) || n_words > 1, "%s: words",
          name);
    check(o->kind != OPTION_NUMBER || o->least < o->most, "%s: range", name);
    check(!o->accepts || o->needs, "%s: needs", name);
    for (int j = 0; j < i; j++) {
        const Option *other = &t->option[j];
        check(!o->letter || o->letter != other->letter, "%s: the letter is there twice", name);
        check(!o->name || !other->name || strcmp(o->name, other->name) != 0,
              "%s: the name is there twice", name);
    }
    if (!option_is_shown(o))
        return;
    check(o->group != NULL, "%s: no group", name);
    check(o->help[0] && o->help[strlen(o->help) - 1] != '.', "%s: the help ends in a full stop",
          name);
    check(o->argument || n_words || !option_has_argument(o), "%s: what is the argument?", name);
}

/* A line of `text` that begins with `start`, and nothing but blanks, '=' or a letter behind it. */
static bool has_line(const char *text, const char *start)
{
    const size_t n = strlen(start);
    for (const char *s = text; (s = strstr(s, start)); s++)
        if ((s == text || s[-1] == '\n') && strchr("= \n\\", s[n]))
            return true;
    return false;
}

static void print_help(const void *t)
{
    options_print_help(t, NULL);
}

static void test_help(const OptionTable *t)
{
    char out[OUTPUT_BYTES], start[OPTION_NAME_BYTES + 8], name[OPTION_NAME_BYTES];
    check(in_child(print_help, t, out) == 0, "%s --help", t->name);
    for (int i = 0; i < t->n_options; i++) {
        const Option *o = &t->option[i];
        if (o->letter && o->name)
            snprintf(start, sizeof start, "  -%c, %s", o->letter, option_name(o, name));
        else
            snprintf(start, sizeof start, "  %s", option_name(o, name));
        check(has_line(out, start) == option_is_shown(o), "%s --help: %s", t->name, start);
    }
    for (const char *line = out; *line;) {
        const size_t n = strcspn(line, "\n");
        check(n <= 80, "%s --help: over 80 columns: %.*s", t->name, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

int main(void)
{
    const OptionTable *const tables[] = {&hftac_table, &hftrun_table, &table};
    test_values();
    test_mistakes();
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        for (int i = 0; i < tables[k]->n_options; i++)
            test_row(tables[k], i);
        test_help(tables[k]);
    }
    if (!failures)
        printf("options: passed\n");
    return failures != 0;
}
