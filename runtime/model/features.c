/* Does this machine have the CPU features that a model.so was compiled for? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/model/image.h"

/* Compilers' names that /proc/cpuinfo spells otherwise. */
static const char *const aliases[][2] = {{"lzcnt", "abm"},       {"sse3", "pni"},
                                         {"sse4.1", "sse4_1"},   {"sse4.2", "sse4_2"},
                                         {"cmpxchg16b", "cx16"}, {"pclmul", "pclmulqdq"}};

/* Is the word w[0 .. n - 1] in the space-separated list? */
static bool has_word(const char *list, const char *w, size_t n)
{
    for (const char *p = list; *p;) {
        p += strspn(p, " \t\n");
        const size_t len = strcspn(p, " \t\n");
        if (len == n && memcmp(p, w, n) == 0)
            return true;
        p += len;
    }
    return false;
}

static bool has_feature(const char *flags, const char *w, size_t n)
{
    if (has_word(flags, w, n))
        return true;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strlen(aliases[i][0]) == n && memcmp(aliases[i][0], w, n) == 0)
            return has_word(flags, aliases[i][1], strlen(aliases[i][1]));
    return false;
}

static const char cpu_info[] = "/proc/cpuinfo";

/* The first "flags" line of /proc/cpuinfo (malloc'ed), or NULL with the error's number: 0 if
 * there is none to be had on this machine. */
static char *read_flags(int *error)
{
    FILE *f = fopen(cpu_info, "re");
    *error = f || errno == ENOENT ? 0 : errno;
    if (!f)
        return NULL;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    errno = 0;
    while (!found && getline(&line, &capacity, f) > 0)
        found = strncmp(line, "flags", 5) == 0 && strchr(line, ':');
    *error = found || feof(f) ? 0 : errno;
    fclose(f);
    if (!found) {
        free(line);
        return NULL;
    }
    const char *list = strchr(line, ':') + 1;
    memmove(line, list, strlen(list) + 1);
    return line;
}

hftac_status hft_cpu_check(const char *path, const char *features)
{
    if (!features[strspn(features, " ")])
        return HFTAC_OK;
    int error;
    char *flags = read_flags(&error);
    if (!flags && error)
        return hft_fail_file(cpu_info, "cannot read", error);
    if (!flags)
        return hft_fail(HFTAC_CPU, "%s: cannot learn this CPU's features from %s", path,
                        cpu_info);
    char missing[256] = "";
    size_t used = 0;
    for (const char *p = features; *p;) {
        p += strspn(p, " ");
        const size_t n = strcspn(p, " ");
        if (n && !has_feature(flags, p, n) && used + n + 2 < sizeof missing) {
            memcpy(missing + used, " ", 1);
            memcpy(missing + used + 1, p, n + 0);
            used += n + 1;
            missing[used] = 0;
        }
        p += n;
    }
    free(flags);
    if (used)
        return hft_fail(HFTAC_CPU,
                        "%s: this CPU lacks%s, which the file was compiled for; compile with "
                        "another -march",
                        path, missing);
    return HFTAC_OK;
}
