/* A program's table of options as --help and as a man page.
 *
 * Both print the same texts: --help in two columns of 80, the page in the man macros (a heading is
 * .SS, an option .TP).  The page's other sections are written by hand in a template, in which one
 * line each stands for the options, the exit codes and the version. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "tools/program.h"

enum {
    PAGE_WIDTH = 80,
    HELP_COLUMN = 25,
    TEXT_BYTES = 2048
};

/* ---- The texts of a row ---- */

/* "auto|bar|plain|none", the argument of a choice that names none itself. */
static void append_words(const Option *o, const char *between, char *text, size_t room)
{
    size_t n, used = strlen(text);
    const char *word;
    for (int i = 0; (word = option_word(o, i, &n)) && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%.*s", i ? between : "", (int)n,
                                 word);
}

static void argument_text(const Option *o, char text[TEXT_BYTES])
{
    text[0] = 0;
    if (o->argument)
        snprintf(text, TEXT_BYTES, "%s", o->argument);
    else if (option_has_argument(o))
        append_words(o, "|", text, TEXT_BYTES);
}

/* "how often ..."; a choice whose argument does not list the words has them behind. */
static void help_text(const Option *o, char text[TEXT_BYTES])
{
    const bool words = o->argument && (o->kind == OPTION_CHOICE || o->kind == OPTION_CHOICES);
    snprintf(text, TEXT_BYTES, "%s%s", o->help, words ? ": " : "");
    if (words)
        append_words(o, ", ", text, TEXT_BYTES);
}

/* ---- --help ---- */

/* Prints words from column `column` on, and breaks the line before a word that would not fit. */
static int print_wrapped(const char *text, int column, int indent)
{
    for (const char *s = text; *s;) {
        const int n = (int)strcspn(s, " ");
        if (column > indent && column + 1 + n > PAGE_WIDTH) {
            putchar('\n');
            column = 0;
        }
        column += printf("%*s%.*s", column > indent ? 1 : indent - column, "", n, s);
        s += n;
        s += *s == ' ';
    }
    return column;
}

static void print_row(const Option *o)
{
    char argument[TEXT_BYTES], help[TEXT_BYTES], name[OPTION_NAME_BYTES];
    int column = 0;
    argument_text(o, argument);
    help_text(o, help);
    if (o->name && o->letter)
        column += printf("  -%c, ", o->letter);
    else
        column += printf("  ");
    column += printf("%s%s%s", option_name(o, name),
                     !argument[0] ? ""
                     : o->name    ? "="
                                  : " ",
                     argument);
    if (column > HELP_COLUMN - 2) {
        putchar('\n');
        column = 0;
    }
    print_wrapped(help, column, HELP_COLUMN);
    putchar('\n');
}

static void print_exit_codes(const OptionTable *table)
{
    int column = printf("Exit codes:");
    for (const ExitCode *e = table->exit_codes; e->code; e++) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "%s %s%s", e->code, e->meaning, e[1].code ? "," : ".");
        column = print_wrapped(text, column, 0);
    }
    putchar('\n');
}

void options_print_help(const OptionTable *table, const char *unused)
{
    (void)unused;
    const char *group = "";
    printf("Usage: %s [options] %s\n", table->name, table->operand);
    print_wrapped(table->summary, 0, 0);
    putchar('\n');
    for (int i = 0; i < table->n_options; i++) {
        const Option *o = &table->option[i];
        if (!option_is_shown(o))
            continue;
        if (strcmp(group, o->group) != 0)
            printf("\n%s:\n", o->group);
        group = o->group;
        print_row(o);
    }
    for (const char *const *note = table->notes; *note; note++) {
        putchar('\n');
        print_wrapped(*note, 0, 0);
        putchar('\n');
    }
    putchar('\n');
    print_exit_codes(table);
}

void options_print_version(const OptionTable *table, const char *unused)
{
    (void)unused;
    printf("%s " HFTAC_VERSION "\n", table->name);
}

/* ---- The man page ---- */

/* Text as roff takes it: a backslash and a hyphen are escaped, and no line begins with the
 * control characters . and '. */
static void print_roff(const char *s)
{
    if (*s == '.' || *s == '\'')
        printf("\\&");
    for (; *s; s++)
        if (*s == '\\')
            printf("\\e");
        else if (*s == '-')
            printf("\\-");
        else
            putchar(*s);
}

static void print_roff_row(const Option *o)
{
    char argument[TEXT_BYTES], help[TEXT_BYTES], name[OPTION_NAME_BYTES];
    argument_text(o, argument);
    help_text(o, help);
    help[0] = (char)toupper((unsigned char)help[0]);
    printf(".TP\n\\fB");
    if (o->name && o->letter)
        printf("\\-%c\\fR, \\fB", o->letter);
    print_roff(option_name(o, name));
    printf("\\fR");
    if (argument[0]) {
        printf("%s\\fI", o->name ? "=" : " ");
        print_roff(argument);
        printf("\\fR");
    }
    putchar('\n');
    print_roff(help);
    printf(".\n");
}

static void print_roff_options(const OptionTable *table)
{
    const char *group = "";
    for (int i = 0; i < table->n_options; i++) {
        const Option *o = &table->option[i];
        if (!option_is_shown(o))
            continue;
        if (strcmp(group, o->group) != 0)
            printf(".SS %s\n", o->group);
        group = o->group;
        print_roff_row(o);
    }
}

static void print_roff_notes(const OptionTable *table)
{
    for (const char *const *note = table->notes; *note; note++) {
        printf(".PP\n");
        print_roff(*note);
        putchar('\n');
    }
}

static void print_roff_exit_codes(const OptionTable *table)
{
    for (const ExitCode *e = table->exit_codes; e->code; e++) {
        printf(".TP\n\\fB");
        print_roff(e->code);
        printf("\\fR\n");
        print_roff(e->meaning);
        printf(".\n");
    }
}

void options_print_man(const OptionTable *table, const char *template)
{
    char line[TEXT_BYTES];
    FILE *f = fopen(template, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (!strcmp(line, "@OPTIONS@\n"))
            print_roff_options(table);
        else if (!strcmp(line, "@NOTES@\n"))
            print_roff_notes(table);
        else if (!strcmp(line, "@EXIT_STATUS@\n"))
            print_roff_exit_codes(table);
        else if (!strcmp(line, "@TITLE@\n"))
            printf(".TH %s 1 \"\" \"%s " HFTAC_VERSION "\" \"User Commands\"\n", table->name,
                   table->name);
        else
            fputs(line, stdout);
    }
    if (!f || ferror(f))
        die(EXIT_FILE, "cannot read '%s': %s", template, strerror(errno));
    fclose(f);
}
