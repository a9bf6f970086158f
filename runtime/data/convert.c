/* Conversions of element types that lose nothing. */
#include <string.h>

#include "runtime/data/data.h"

static bool is_integer(int32_t type)
{
    return type == HFTAC_BOOL || type == HFTAC_U8 || type == HFTAC_I32 || type == HFTAC_I64;
}

bool hft_can_convert(int32_t from, hftac_type to)
{
    return is_integer(from) || from == (int32_t)to || (from == HFTAC_F32 && to == HFTAC_F64);
}

int64_t hft_integer_at(int32_t type, const unsigned char *values, size_t i)
{
    int32_t i32;
    int64_t i64;
    switch (type) {
    case HFTAC_I32:
        memcpy(&i32, values + i * sizeof i32, sizeof i32);
        return i32;
    case HFTAC_I64:
        memcpy(&i64, values + i * sizeof i64, sizeof i64);
        return i64;
    default:
        return values[i];
    }
}

/* Writes v as element i; false if it does not fit. */
static bool put_integer(hftac_type to, unsigned char *out, size_t i, int64_t v)
{
    const int32_t i32 = (int32_t)v;
    const float f32 = (float)v;
    const double f64 = (double)v;
    switch (to) {
    case HFTAC_BOOL:
        out[i] = v != 0;
        return v == 0 || v == 1;
    case HFTAC_U8:
        out[i] = (unsigned char)v;
        return v >= 0 && v <= UINT8_MAX;
    case HFTAC_I32:
        memcpy(out + i * sizeof i32, &i32, sizeof i32);
        return i32 == v;
    case HFTAC_I64:
        memcpy(out + i * sizeof v, &v, sizeof v);
        return true;
    case HFTAC_F32:
        memcpy(out + i * sizeof f32, &f32, sizeof f32);
        return v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53 && (int64_t)f32 == v;
    case HFTAC_F64:
        memcpy(out + i * sizeof f64, &f64, sizeof f64);
        return v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53;
    }
    return false;
}

bool hft_convert(int32_t from, const unsigned char *values, hftac_type to, unsigned char *out,
                 size_t n, size_t *bad)
{
    for (size_t i = 0; i < n; i++) {
        if (from == HFTAC_F32) {
            float narrow;
            memcpy(&narrow, values + i * sizeof narrow, sizeof narrow);
            const double wide = (double)narrow;
            memcpy(out + i * sizeof wide, &wide, sizeof wide);
        } else if (!put_integer(to, out, i, hft_integer_at(from, values, i))) {
            *bad = i;
            return false;
        }
    }
    return true;
}
