/* A growing text in an arena, for printers. */
#ifndef HFTAC_IR_SUPPORT_TEXT_H
#define HFTAC_IR_SUPPORT_TEXT_H

#include <stdbool.h>

#include "ir/support/arena.h"

typedef struct Text {
    Arena *arena;
    char *s; /* always NUL terminated once something was added; "" before */
    size_t len, cap;
} Text;

void text_init(Text *t, Arena *a);
void text_add(Text *t, const char *s);
void text_addn(Text *t, const char *s, size_t n);
void text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same double ("0.1", "1e-08", "3", "inf", "nan"). */
void text_real(Text *t, double v);
/* Is v what [s, end) says, if that is an integer in digits alone?  Integers above 2^53 need not
 * be doubles. */
bool text_integer_exact(const char *s, const char *end, double v);
/* In double quotes, with \" \\ and \n escaped. */
void text_quoted(Text *t, const char *s);

#endif
