/* A text that doubles; the old copy is left behind in the arena, so all copies together are at most
 * twice the last. */
#include "ir/support/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_init(Text *t, Arena *a)
{
    /* A shared "" that nothing writes to: cap is 0. */
    *t = (Text){.arena = a, .s = (char *)(size_t)(const void *)""};
}

static void reserve(Text *t, size_t more)
{
    const size_t need = t->len + more + 1;
    if (need <= t->cap)
        return;
    size_t cap = t->cap ? t->cap * 2 : 64;
    while (cap < need)
        cap *= 2;
    char *s = arena_alloc(t->arena, cap);
    if (t->len)
        memcpy(s, t->s, t->len);
    t->s = s;
    t->cap = cap;
}

void text_addn(Text *t, const char *s, size_t n)
{
    reserve(t, n);
    if (n)
        memcpy(t->s + t->len, s, n);
    t->len += n;
    t->s[t->len] = '\0';
}

void text_add(Text *t, const char *s)
{
    text_addn(t, s, strlen(s));
}

void text_printf(Text *t, const char *fmt, ...)
{
    if (!fmt)
        return;
    va_list ap;
    va_start(ap, fmt);
    reserve(t, 31); /* most pieces are short: printed once, without measuring */
    va_list again;
    va_copy(again, ap);
    const size_t room = t->cap - t->len;
    const int n = vsnprintf(t->s + t->len, room, fmt, ap);
    if (n > 0 && (size_t)n >= room) {
        reserve(t, (size_t)n);
        vsnprintf(t->s + t->len, (size_t)n + 1, fmt, again);
    }
    t->len += n > 0 ? (size_t)n : 0;
    va_end(again);
    va_end(ap);
}

void text_real(Text *t, double v)
{
    if (isnan(v)) {
        text_add(t, "nan");
        return;
    }
    if (isinf(v)) {
        text_add(t, v > 0 ? "inf" : "-inf");
        return;
    }
    /* Whole numbers as such as long as they are short: 20, not 2e+01. */
    if (fabs(v) < 1e15 && v == floor(v)) {
        text_printf(t, "%.0f", v);
        return;
    }
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v)
            break;
    }
    text_add(t, s);
}

bool text_integer_exact(const char *s, const char *end, double v)
{
    char exact[DBL_MAX_10_EXP + 3];
    s += *s == '-' || *s == '+';
    while (s + 1 < end && *s == '0')
        s++;
    const size_t digits = (size_t)(end - s);
    if (strspn(s, "0123456789") < digits)
        return true;
    snprintf(exact, sizeof exact, "%.0f", fabs(v));
    return strlen(exact) == digits && memcmp(s, exact, digits) == 0;
}

void text_quoted(Text *t, const char *s)
{
    text_add(t, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            text_printf(t, "\\%c", *s);
        else if (*s == '\n')
            text_add(t, "\\n");
        else
            text_addn(t, s, 1);
    }
    text_add(t, "\"");
}
