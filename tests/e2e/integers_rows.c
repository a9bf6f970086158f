/* Values, numbers and expressions of test_integers. */
#include "tests/e2e/integers.h"

const TypeCase integer_types[N_TYPES] = {
    {"bool", HFTAC_BOOL, {0, 1, 1, 0, 1, 0, 0, 1}},
    {"u8", HFTAC_U8, {0, 1, 2, 44, 156, 200, 254, 255}},
    {"i32",
     HFTAC_I32,
     {INT32_MIN, INT32_MIN + 1, -100, 0, 3, 16777217, INT32_MAX - 1, INT32_MAX}},
    {"i64",
     HFTAC_I64,
     {INT64_MIN, INT64_MIN + 1, -9007199254740993, -1, 2, 9007199254740993, INT64_MAX - 1,
      INT64_MAX}},
};

const Number integer_numbers[N_NUMBERS] = {
    {"0", 0, false, false},
    {"1", 1, false, false},
    {"2", 2, false, false},
    {"-100", -100, false, false},
    {"255", 255, false, false},
    {"256", 256, false, false},
    {"300", 300, false, false},
    {"2147483647", 2147483647, false, false},
    {"2147483648", 2147483648.0L, false, false},
    {"-2147483649", -2147483649.0L, false, false},
    {"9007199254740992", 9007199254740992.0L, false, false},
    {"2 ** 62", 0x1p62L, false, false},
    {"-2 ** 63", -0x1p63L, false, false},
    {"2 ** 63", 0x1p63L, true, false},
    {"2 ** 70", 0x1p70L, true, true},
    {"-1e30", -1e30, true, true},
    {"0.5", 0.5L, false, true},
    {"2.5", 2.5L, false, true},
    {"-0.25", -0.25L, false, true},
    {"255.5", 255.5L, false, true},
};

static Real less(Real x, Real c)
{
    return x < c;
}
static Real less_equal(Real x, Real c)
{
    return x <= c;
}
static Real greater(Real x, Real c)
{
    return x > c;
}
static Real greater_equal(Real x, Real c)
{
    return x >= c;
}
static Real equal(Real x, Real c)
{
    return x == c;
}
static Real unequal(Real x, Real c)
{
    return x != c;
}

const Row integer_comparisons[N_COMPARISONS] = {
    {"x < c", less},           {"x <= c", less_equal}, {"x > c", greater},
    {"x >= c", greater_equal}, {"x == c", equal},      {"x != c", unequal},
    {"c > x", less},           {"c >= x", less_equal}, {"c < x", greater},
    {"c <= x", greater_equal}, {"c == x", equal},      {"c != x", unequal},
};

static Real number_where_positive(Real x, Real c)
{
    return x > 0 ? c : x;
}
static Real value_where_positive(Real x, Real c)
{
    return x > 0 ? x : c;
}
static Real at_least(Real x, Real c)
{
    return x < c ? c : x;
}
static Real at_most(Real x, Real c)
{
    return x > c ? c : x;
}
static Real number_alone(Real x, Real c)
{
    (void)x;
    return c;
}
static Real value_alone(Real x, Real c)
{
    (void)c;
    return x;
}

/* What the number's type must hold; with a fraction all is real. */
const Row integer_choices[N_CHOICES] = {
    {"where(x > 0, c, x)", number_where_positive},
    {"where(x > 0, x, c)", value_where_positive},
    {"masked_fill(x, x > 0, c)", number_where_positive},
    {"threshold(x, 0, c)", value_where_positive},
    {"clamp(x, min = c)", at_least},
    {"clamp(x, max = c)", at_most},
    {"maximum(x, c)", at_least},
    {"minimum(c, x)", at_most},
    {"pad_dim(unsqueeze(x, 1), 1, 1, 0, c)[:, 0]", number_alone},
    {"pad_dim(unsqueeze(x, 1), 1, 1, 0, c)[:, 1]", value_alone},
    {"cat([unsqueeze(x, 1), full([8, 1], c)], 1)[:, 1]", number_alone},
    {"cat([full([8, 1], c), unsqueeze(x, 1)], 1)[:, 1]", value_alone},
    {"stack([x, full([8], c)])[1]", number_alone},
    {"where(x > 0, [c, c, c, c, c, c, c, c], x)", number_where_positive},
};

/* i64 arithmetic of whole numbers. */
static Real wrapped(Wide v)
{
    return (Real)(int64_t)(uint64_t)v;
}
static Real plus(Real x, Real c)
{
    return wrapped((Wide)x + (Wide)c);
}
static Real minus(Real x, Real c)
{
    return wrapped((Wide)x - (Wide)c);
}
static Real minus_x(Real x, Real c)
{
    return wrapped((Wide)c - (Wide)x);
}
static Real times(Real x, Real c)
{
    return wrapped((Wide)x * (Wide)c);
}
static Real negative(Real x, Real c)
{
    (void)c;
    return wrapped(-(Wide)x);
}
static Real absolute(Real x, Real c)
{
    (void)c;
    return wrapped(x < 0 ? -(Wide)x : (Wide)x);
}
static Real square(Real x, Real c)
{
    (void)c;
    return wrapped((Wide)x * (Wide)x);
}

static Wide floored(Wide x, Wide c)
{
    return c == 0 ? 0 : x / c - (x % c != 0 && (x < 0) != (c < 0));
}
static Real quotient(Real x, Real c)
{
    return wrapped(floored((Wide)x, (Wide)c));
}
static Real rest(Real x, Real c)
{
    return c == 0 ? 0 : wrapped((Wide)x - floored((Wide)x, (Wide)c) * (Wide)c);
}
static Real scattered(Real x, Real c)
{
    return wrapped(2 * (Wide)x + 0 * (Wide)c);
}

const Row integer_arithmetic[N_ARITHMETIC] = {
    {"x + c", plus},
    {"c + x", plus},
    {"x - c", minus},
    {"c - x", minus_x},
    {"x * c", times},
    {"x // (c + 0 * x)", quotient},
    {"x % (c + 0 * x)", rest},
    {"-x", negative},
    {"abs(x)", absolute},
    {"x * x", square},
    {"x ** 2", square},
    {"sum(stack([x, x]), 0)", scattered},
    {"cumsum(stack([x, x]), 0)[1]", scattered},
    {"scatter_add(0 * x, 0, arange(8), x) + scatter_add(zeros([8]) == 1, 0, arange(8), x)",
     scattered},
};
