/* The tables of test_integers: values of each type, numbers that meet them, and what is right. */
#ifndef HFTAC_TESTS_E2E_INTEGERS_H
#define HFTAC_TESTS_E2E_INTEGERS_H

#include <float.h>

#include "tests/check/check.h"

_Static_assert(LDBL_MANT_DIG >= 64, "long double must hold every int64_t");

__extension__ typedef __int128 Wide;
typedef long double Real;

enum {
    VALUES = 8,
    N_TYPES = 4,
    N_NUMBERS = 20,
    N_COMPARISONS = 12,
    N_CHOICES = 14,
    N_ARITHMETIC = 14
};

typedef struct TypeCase {
    const char *text;
    hftac_type type;
    int64_t value[VALUES];
} TypeCase;

/* As they are written; wide: no i64, so only compared. */
typedef struct Number {
    const char *text;
    Real value;
    bool wide, fraction;
} Number;

/* An expression of the input `x` and the number `c` with VALUES elements, and what is right for
 * each. */
typedef struct Row {
    const char *text;
    Real (*right)(Real x, Real c);
} Row;

extern const TypeCase integer_types[N_TYPES];
extern const Number integer_numbers[N_NUMBERS];
/* choices: what the result's type must hold, real with a fraction; arithmetic: of whole numbers. */
extern const Row integer_comparisons[N_COMPARISONS], integer_choices[N_CHOICES],
    integer_arithmetic[N_ARITHMETIC];

#endif
