/* Parsing by a table of options (options.h).
 *
 * getopt_long does the reading; its arrays are made from the table.  Its value of a long option is
 * FIRST_ROW + the row, of a short one the letter.  Words with one dash are short options to it:
 * `-march=native` is -m with the argument `arch=native`, and the row is then found by the whole
 * word.  Its own messages are off: ours name the option as the user knows it, and the nearest. */
#include "tools/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nearest.h"
#include "tools/program.h"

enum {
    FIRST_ROW = 256,
    MESSAGE_BYTES = 1024
};

typedef struct Parser {
    const OptionTable *table;
    void *values;
    struct option *longs;
    char letters[2 * FIRST_ROW + 2]; /* getopt's: ":o:vq" */
    bool *given;                     /* of each row */
    int argc;
    char **argv;
} Parser;

/* ---- Questions to a row ---- */

bool option_has_argument(const Option *o)
{
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_FLAG_OFF:
    case OPTION_VALUE:
        return false;
    case OPTION_ACTION:
    case OPTION_LATER:
        return o->argument != NULL;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_FOLDER:
    case OPTION_LIST:
    case OPTION_FOLDERS:
    case OPTION_NUMBER:
    case OPTION_SEED:
    case OPTION_SIZE:
    case OPTION_CHOICE:
    case OPTION_CHOICES:
        return true;
    }
    return false;
}

bool option_is_list(const Option *o)
{
    return o->kind == OPTION_LIST || o->kind == OPTION_FOLDERS;
}

bool option_is_shown(const Option *o)
{
    return o->help != NULL;
}

const char *option_name(const Option *o, char text[OPTION_NAME_BYTES])
{
    if (o->name)
        snprintf(text, OPTION_NAME_BYTES, "%s%s", o->one_dash ? "-" : "--", o->name);
    else
        snprintf(text, OPTION_NAME_BYTES, "-%c", o->letter);
    return text;
}

const char *option_word(const Option *o, int i, size_t *length)
{
    if (o->word) {
        const char *word = o->word(i);
        *length = word ? strlen(word) : 0;
        return word;
    }
    const char *word = o->words;
    for (; word && i > 0; i--) {
        word = strchr(word, ',');
        word = word ? word + 1 : NULL;
    }
    *length = word ? strcspn(word, ",") : 0;
    return word;
}

/* ---- Slips ---- */

/* `text` is the argument as it was given: "--trian=x", "-quite". */
_Noreturn static void die_unknown(const OptionTable *table, const char *text)
{
    char name[OPTION_NAME_BYTES];
    const size_t dashes = strspn(text, "-"), length = strcspn(text, "=");
    Nearest near = nearest_to(text + dashes, length - dashes);
    for (int i = 0; i < table->n_options && near.length > 1; i++)
        if (option_is_shown(&table->option[i]) && table->option[i].name)
            nearest_try(&near, table->option[i].name, strlen(table->option[i].name), i);
    if (near.best >= 0)
        die(EXIT_USAGE, "unknown option '%.*s'; did you mean %s?", (int)length, text,
            option_name(&table->option[near.best], name));
    die(EXIT_USAGE, "unknown option '%.*s'", (int)length, text);
}

/* getopt_long knows no long option `text`, or several that begin so. */
_Noreturn static void die_long(const OptionTable *table, const char *text)
{
    char several[MESSAGE_BYTES] = "", name[OPTION_NAME_BYTES];
    const size_t length = strcspn(text + 2, "=");
    size_t used = 0;
    int n = 0;
    for (int i = 0; i < table->n_options && used < sizeof several; i++) {
        const Option *o = &table->option[i];
        if (option_is_shown(o) && o->name && strncmp(o->name, text + 2, length) == 0)
            used += (size_t)snprintf(several + used, sizeof several - used, "%s%s",
                                     n++ ? ", " : "", option_name(o, name));
    }
    if (n > 1)
        die(EXIT_USAGE, "'--%.*s' may be any of %s", (int)length, text + 2, several);
    die_unknown(table, text);
}

/* ---- Arguments to values ---- */

/* "auto, bar, plain or none" */
static const char *list_words(const Option *o, char text[MESSAGE_BYTES])
{
    const char *word, *next;
    size_t n, next_n, used = 0;
    text[0] = 0;
    for (int i = 0; (word = option_word(o, i, &n)) && used < MESSAGE_BYTES; i++) {
        next = option_word(o, i + 1, &next_n);
        used += (size_t)snprintf(text + used, MESSAGE_BYTES - used, "%s%.*s",
                                 i == 0 ? ""
                                 : next ? ", "
                                        : " or ",
                                 (int)n, word);
    }
    return text;
}

/* Which of the option's words the `length` bytes at `text` are; ends the program if none. */
static int parse_word(const Option *o, const char *name, const char *text, size_t length)
{
    char words[MESSAGE_BYTES];
    Nearest near = nearest_to(text, length);
    const char *word;
    size_t n;
    for (int i = 0; (word = option_word(o, i, &n)); i++) {
        if (n == length && memcmp(word, text, n) == 0)
            return i;
        nearest_try(&near, word, n, i);
    }
    list_words(o, words);
    if (o->later)
        die(EXIT_USAGE, "%s takes %s, not '%.*s' (%s)", name, words, (int)length, text,
            o->later);
    if (near.best < 0)
        die(EXIT_USAGE, "%s takes %s, not '%.*s'", name, words, (int)length, text);
    word = option_word(o, near.best, &n);
    die(EXIT_USAGE, "%s takes %s, not '%.*s'; did you mean '%.*s'?", name, words, (int)length,
        text, (int)n, word);
}

static void parse_words(const Option *o, const char *name, const char *text, bool *chosen)
{
    for (const char *s = text;; s++) {
        const size_t n = strcspn(s, ",");
        chosen[parse_word(o, name, s, n)] = true;
        s += n;
        if (!*s)
            return;
    }
}

_Noreturn static void die_needs(const char *name, const char *needs, const char *text)
{
    die(EXIT_USAGE, "%s needs %s, not '%s'", name, needs, text);
}

static int parse_number(const Option *o, const char *name, const char *text)
{
    char *end, needs[MESSAGE_BYTES];
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno == 0 && end != text && !*end && v >= o->least && v <= o->most)
        return (int)v;
    snprintf(needs, sizeof needs, "a whole number from %lld to %lld", o->least, o->most);
    die_needs(name, needs, text);
}

static uint64_t parse_seed(const char *name, const char *text)
{
    char *end;
    errno = 0;
    const uint64_t v = strtoull(text, &end, 0);
    if (errno || end == text || *end || strchr(text, '-'))
        die_needs(name, "a whole number from 0 to 18446744073709551615", text);
    return v;
}

static long long parse_size(const char *name, const char *text)
{
    static const char units[] = "KMGT";
    const double largest = 9.2e18; /* what a long long holds */
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    double scale = 1;
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - ('a' - 'A') : *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        scale *= 1024;
    const bool whole = !*end || (unit && !end[1]);
    if (end == text || errno || !whole || !(v > 0) || !(v * scale < largest))
        die_needs(name, "a size such as 8G", text);
    return (long long)(v * scale);
}

static void append(OptionList *list, const char *text, int most)
{
    if (!list->text)
        list->text = calloc((size_t)most, sizeof *list->text);
    if (!list->text)
        die(EXIT_FILE, "out of memory");
    list->text[list->n++] = text;
}

void option_list_free(OptionList *list)
{
    free(list->text);
    *list = (OptionList){0};
}

static void check_text(const Option *o, const char *name, const char *text)
{
    if (o->accepts && !o->accepts(text))
        die_needs(name, o->needs, text);
}

/* Of a list of NAME=VALUE. */
static void check_named(const Option *o, const char *name, const OptionList *list,
                        const char *text)
{
    const size_t n = strcspn(text, "=");
    for (int i = 0; i < list->n && o->named; i++)
        if (strcspn(list->text[i], "=") == n && memcmp(list->text[i], text, n) == 0)
            die(EXIT_USAGE, "%s %.*s is given twice", name, (int)n, text);
}

/* ---- One option ---- */

/* The same option twice, or two that set the same field. */
static void check_repeat(const Parser *r, int row, const char *name)
{
    const Option *o = &r->table->option[row];
    char other_name[OPTION_NAME_BYTES];
    if (option_is_list(o) || o->repeat == REPEAT_LAST || o->size == 0)
        return;
    if (r->given[row] && option_has_argument(o))
        die(EXIT_USAGE, "%s is given twice", name);
    for (int i = 0; i < r->table->n_options; i++) {
        const Option *other = &r->table->option[i];
        if (i != row && r->given[i] && other->size && other->offset == o->offset &&
            other->repeat != REPEAT_LAST)
            die(EXIT_USAGE, "%s and %s exclude each other", option_name(other, other_name),
                name);
    }
}

/* `name` is the option as it was written, `argument` NULL where it has none. */
static void store(Parser *r, int row, const char *name, const char *argument)
{
    const Option *o = &r->table->option[row];
    void *to = (char *)r->values + o->offset;
    check_repeat(r, row, name);
    r->given[row] = true;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_FLAG_OFF:
        *(bool *)to = o->kind == OPTION_FLAG;
        return;
    case OPTION_VALUE:
        *(int *)to = (int)o->value;
        return;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_FOLDER:
        check_text(o, name, argument);
        *(const char **)to = argument;
        return;
    case OPTION_LIST:
    case OPTION_FOLDERS:
        check_text(o, name, argument);
        check_named(o, name, to, argument);
        append(to, argument, r->argc);
        return;
    case OPTION_NUMBER:
        *(int *)to = parse_number(o, name, argument);
        return;
    case OPTION_SEED:
        *(uint64_t *)to = parse_seed(name, argument);
        return;
    case OPTION_SIZE:
        *(long long *)to = parse_size(name, argument);
        return;
    case OPTION_CHOICE:
        *(int *)to = parse_word(o, name, argument, strlen(argument));
        return;
    case OPTION_CHOICES:
        parse_words(o, name, argument, to);
        return;
    case OPTION_ACTION:
        o->act(r->table, argument);
        stdout_end();
    case OPTION_LATER:
        die(EXIT_USAGE, "%s is not there yet", name);
    }
}

_Noreturn static void die_missing(const char *name)
{
    die(EXIT_USAGE, "%s needs an argument", name);
}

_Noreturn static void die_superfluous(const char *name)
{
    die(EXIT_USAGE, "%s takes no argument", name);
}

/* ---- getopt's arrays and answers ---- */

static int row_of_letter(const OptionTable *table, int letter)
{
    for (int i = 0; i < table->n_options; i++)
        if (table->option[i].letter == letter)
            return i;
    return -1;
}

static int row_of_value(const OptionTable *table, int value)
{
    return value >= FIRST_ROW ? value - FIRST_ROW : row_of_letter(table, value);
}

static void add_letter(Parser *r, char letter, bool argument)
{
    if (strchr(r->letters + 1, letter))
        return; /* two words begin with it */
    const size_t n = strlen(r->letters);
    snprintf(r->letters + n, sizeof r->letters - n, argument ? "%c:" : "%c", letter);
}

static void make_arrays(Parser *r)
{
    const int n = r->table->n_options;
    r->longs = calloc((size_t)n + 1, sizeof *r->longs);
    r->given = calloc((size_t)n, sizeof *r->given);
    if (!r->longs || !r->given)
        die(EXIT_FILE, "out of memory");
    strcpy(r->letters, ":"); /* no messages of getopt's, and ':' for a missing argument */
    struct option *next = r->longs;
    for (int i = 0; i < n; i++) {
        const Option *o = &r->table->option[i];
        const bool argument = option_has_argument(o);
        if (o->name)
            *next++ = (struct option){o->name, argument, NULL, FIRST_ROW + i};
        if (o->letter)
            add_letter(r, o->letter, argument);
        else if (o->one_dash)
            add_letter(r, o->name[0], true);
    }
}

/* -march=native, of which getopt made -m with an argument: the whole word in one piece. */
static void read_word(Parser *r, int letter)
{
    const char *text = optarg && optarg == r->argv[optind - 1] + 2 ? r->argv[optind - 1] : NULL;
    if (!text)
        die_unknown(r->table, (char[]){'-', (char)letter, 0});
    char name[OPTION_NAME_BYTES];
    const char *word = text + 1;
    const size_t n = strcspn(word, "=");
    for (int i = 0; i < r->table->n_options; i++) {
        const Option *o = &r->table->option[i];
        if (!o->one_dash || strlen(o->name) != n || memcmp(o->name, word, n) != 0)
            continue;
        option_name(o, name);
        if (option_has_argument(o) && !word[n])
            die_missing(name);
        if (!option_has_argument(o) && word[n])
            die_superfluous(name);
        store(r, i, name, word[n] ? word + n + 1 : NULL);
        return;
    }
    die_unknown(r->table, text);
}

/* getopt has just stopped at something it does not know: the argument that it stands in. */
static const char *unknown_text(const Parser *r)
{
    const char *here = optind < r->argc ? r->argv[optind] : NULL;
    const bool within = optopt && here && here[0] == '-' && here[1] != '-' &&
                        strchr(here + 1, optopt) && here[strlen(here) - 1] != optopt;
    return within ? here : r->argv[optind - 1];
}

static void read_option(Parser *r, int got)
{
    const int value = got == '?' || got == ':' ? optopt : got;
    const int row = row_of_value(r->table, value);
    char name[OPTION_NAME_BYTES];
    if (got == '?' && value < FIRST_ROW && value)
        die_unknown(r->table, unknown_text(r));
    if (got == '?' && !value)
        die_long(r->table, unknown_text(r));
    if (row < 0) {
        read_word(r, value);
        return;
    }
    if (value < FIRST_ROW)
        snprintf(name, sizeof name, "-%c", value);
    else
        option_name(&r->table->option[row], name);
    if (got == '?')
        die_superfluous(name);
    if (got == ':')
        die_missing(name);
    store(r, row, name, optarg);
}

const char *options_parse(const OptionTable *table, int argc, char **argv, void *values)
{
    Parser r = {.table = table, .values = values, .argc = argc, .argv = argv};
    make_arrays(&r);
    optind = 0; /* glibc: begin anew */
    for (int got; (got = getopt_long(argc, argv, r.letters, r.longs, NULL)) != -1;)
        read_option(&r, got);
    free(r.longs);
    free(r.given);
    if (optind >= argc)
        die(EXIT_USAGE, "no %s", table->operand_name);
    if (optind + 1 < argc)
        die(EXIT_USAGE, "one %s, please; '%s' is a second", table->operand_name,
            argv[optind + 1]);
    return argv[optind];
}
