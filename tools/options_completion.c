/* A program's table of options as completion for bash and zsh.
 *
 * bash: one function.  bash splits words at '=', so that the option of `--progress=pl` stands two
 * words before `pl`, and of `--progress pl` one.  By the option it offers files, folders or the
 * option's words (of a list behind the last comma), else, behind a dash, all options, else the
 * operand's files and folders.
 *
 * zsh: the arguments of _arguments, one per option. */
#include <string.h>

#include "tools/options.h"
#include "tools/program.h"

/* What stands behind an option for its argument. */
typedef enum Offer {
    OFFER_NOTHING,
    OFFER_FILES,
    OFFER_FOLDERS,
    OFFER_WORDS
} Offer;

static Offer offer_of(const Option *o)
{
    size_t n;
    if (o->kind == OPTION_FILE)
        return OFFER_FILES;
    if (o->kind == OPTION_FOLDER || o->kind == OPTION_FOLDERS)
        return OFFER_FOLDERS;
    return option_word(o, 0, &n) ? OFFER_WORDS : OFFER_NOTHING;
}

static void print_words(const Option *o)
{
    size_t n;
    const char *word;
    for (int i = 0; (word = option_word(o, i, &n)); i++)
        printf("%s%.*s", i ? " " : "", (int)n, word);
}

/* ---- bash ---- */

/* "-o|--output" */
static void print_pattern(const Option *o)
{
    char name[OPTION_NAME_BYTES];
    if (o->letter)
        printf("-%c", o->letter);
    if (o->letter && o->name)
        putchar('|');
    if (o->name)
        printf("%s", option_name(o, name));
}

static void print_bash_argument(const Option *o)
{
    if (!option_is_shown(o) || !option_has_argument(o))
        return;
    printf("    ");
    print_pattern(o);
    printf(") ");
    switch (offer_of(o)) {
    case OFFER_FILES:
        printf("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")");
        break;
    case OFFER_FOLDERS:
        printf("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")");
        break;
    case OFFER_WORDS:
        printf("mapfile -t COMPREPLY < <(compgen -P \"$before\" -W '");
        print_words(o);
        printf("' -- \"${cur##*,}\")");
        break;
    case OFFER_NOTHING:
        putchar(':');
        break;
    }
    printf(" ;;\n");
}

/* "-o --output= --json"; bash puts no space behind '='. */
static void print_bash_names(const OptionTable *table)
{
    char name[OPTION_NAME_BYTES];
    const char *space = "";
    for (int i = 0; i < table->n_options; i++) {
        const Option *o = &table->option[i];
        if (!option_is_shown(o))
            continue;
        if (o->letter) {
            printf("%s-%c", space, o->letter);
            space = " ";
        }
        if (o->name)
            printf("%s%s%s", space, option_name(o, name), option_has_argument(o) ? "=" : "");
        space = " ";
    }
}

static void print_bash(const OptionTable *table)
{
    printf("# bash completion for %s, made by `%s --print-completion=bash`\n", table->name,
           table->name);
    printf("_%s()\n{\n", table->name);
    printf("    local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    if [[ $cur == = ]]; then cur=\n"
           "    elif [[ $option == = ]]; then option=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    local before=\n"
           "    [[ $cur == *,* ]] && before=${cur%%,*},\n"
           "    COMPREPLY=()\n"
           "    case $option in\n");
    for (int i = 0; i < table->n_options; i++)
        print_bash_argument(&table->option[i]);
    printf("    *)\n"
           "        if [[ $cur == -* ]]; then\n"
           "            mapfile -t COMPREPLY < <(compgen -W '");
    print_bash_names(table);
    printf("' -- \"$cur\")\n"
           "            [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o "
           "nospace\n"
           "        else\n"
           "            compopt -o filenames\n"
           "            local file\n"
           "            while IFS= read -r file; do\n"
           "                case $file in *.");
    for (const char *s = table->suffixes; *s; s++)
        if (*s == ',')
            printf("|*.");
        else
            putchar(*s);
    printf(") COMPREPLY+=(\"$file\") ;; *) [[ -d $file ]] && COMPREPLY+=(\"$file\") ;; esac\n"
           "            done < <(compgen -f -- \"$cur\")\n"
           "        fi ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _%s %s\n",
           table->name, table->name);
}

/* ---- zsh ---- */

/* Inside '...[text]:text:': quotes, brackets and colons are escaped. */
static void print_zsh_text(const char *s)
{
    for (; *s; s++)
        if (*s == '\'')
            printf("'\\''");
        else
            printf("%s%c", strchr("[]:\\", *s) ? "\\" : "", *s);
}

static void print_zsh_argument(const Option *o)
{
    if (!option_has_argument(o))
        return;
    putchar(':');
    print_zsh_text(o->argument ? o->argument : o->name);
    putchar(':');
    switch (offer_of(o)) {
    case OFFER_FILES:
        printf("_files");
        break;
    case OFFER_FOLDERS:
        printf("_files -/");
        break;
    case OFFER_WORDS:
        printf("%s", o->kind == OPTION_CHOICES ? "_sequence compadd - " : "(");
        print_words(o);
        printf("%s", o->kind == OPTION_CHOICES ? "" : ")");
        break;
    case OFFER_NOTHING:
        putchar(' ');
        break;
    }
}

/* One spelling of an option: '*--hyper=[help]:NAME=LIST: '.  What follows the spelling says where
 * the argument may stand: "-" in the same word, "=" there or in the next, "+" likewise for a
 * letter. */
static void print_zsh_spelling(const Option *o, const char *spelling, const char *where)
{
    const bool again = option_is_list(o) || o->repeat == REPEAT_LAST;
    printf("        '%s%s%s[", again ? "*" : "", spelling, option_has_argument(o) ? where : "");
    print_zsh_text(o->help);
    putchar(']');
    print_zsh_argument(o);
    printf("' \\\n");
}

static void print_zsh(const OptionTable *table)
{
    char name[OPTION_NAME_BYTES];
    printf("#compdef %s\n# zsh completion for %s, made by `%s --print-completion=zsh`\n"
           "_arguments -S \\\n",
           table->name, table->name, table->name);
    for (int i = 0; i < table->n_options; i++) {
        const Option *o = &table->option[i];
        if (!option_is_shown(o))
            continue;
        if (o->letter)
            print_zsh_spelling(o, (char[]){'-', o->letter, 0}, "+");
        if (o->name)
            print_zsh_spelling(o, option_name(o, name), o->one_dash ? "=-" : "=");
    }
    printf("        '1:%s:_files -g \"*.", table->operand_name);
    for (const char *s = table->suffixes; *s; s++)
        if (*s == ',')
            printf(" *.");
        else
            putchar(*s);
    printf("\"'\n");
}

void options_print_completion(const OptionTable *table, const char *shell)
{
    if (!strcmp(shell, "bash"))
        print_bash(table);
    else if (!strcmp(shell, "zsh"))
        print_zsh(table);
    else
        die(EXIT_USAGE, "--print-completion is bash or zsh, not '%s'", shell);
}
