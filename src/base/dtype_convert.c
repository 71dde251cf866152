/*
 * Arrays from one number type to another. Pairs that weights travel between have a loop of their
 * own; all others go through a block of doubles (every float type fits exactly) or of 64-bit
 * integers.
 */
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "base/dtype_cast.h"
#include "base/status.h"

enum { BLOCK = 256 };

/*
 * x cut to float with the last bit set if anything was cut off ("round to odd"). Rounding that to a
 * type narrower by two bits or more gives what rounding x at once would give. Source: Boldo and
 * Melquiond 2008.
 */
static float odd_float(double x)
{
    float cut = (float)x;
    uint32_t bits;

    if (isnan(x) || (double)cut == x) {
        return cut;
    }
    memcpy(&bits, &cut, sizeof bits);
    if (fabs((double)cut) > fabs(x)) {
        bits--;
    }
    bits |= 1;
    memcpy(&cut, &bits, sizeof cut);
    return cut;
}

static void f32_to_bf16(uint16_t *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = bf16_cast(x);
    }
}

static void f32_to_f16(uint16_t *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = f16_cast(x);
    }
}

static void f32_to_f64(double *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = (double)x;
    }
}

static void f64_to_f32(float *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = (float)x;
    }
}

static void bf16_to_f32(float *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = bf16_widen(x);
    }
}

static void f16_to_f32(float *restrict to, const char *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t x;

        memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] = f16_widen(x);
    }
}

/* The pairs that have their own loop; false for all others. */
static bool convert_directly(enum dtype to_type, void *to, enum dtype from_type, const char *from,
                             size_t count)
{
    if (from_type == DT_F32 && to_type == DT_BF16) {
        f32_to_bf16(to, from, count);
    } else if (from_type == DT_F32 && to_type == DT_F16) {
        f32_to_f16(to, from, count);
    } else if (from_type == DT_F32 && to_type == DT_F64) {
        f32_to_f64(to, from, count);
    } else if (from_type == DT_F64 && to_type == DT_F32) {
        f64_to_f32(to, from, count);
    } else if (from_type == DT_BF16 && to_type == DT_F32) {
        bf16_to_f32(to, from, count);
    } else if (from_type == DT_F16 && to_type == DT_F32) {
        f16_to_f32(to, from, count);
    } else {
        return false;
    }
    return true;
}

static double read_float(enum dtype type, const char *from, size_t i)
{
    double x64;
    float x32;
    uint16_t x16;
    uint8_t x8;

    switch (type) {
    case DT_F64:
        memcpy(&x64, from + i * sizeof x64, sizeof x64);
        return x64;
    case DT_F32:
        memcpy(&x32, from + i * sizeof x32, sizeof x32);
        return (double)x32;
    case DT_F16:
        memcpy(&x16, from + i * sizeof x16, sizeof x16);
        return (double)f16_widen(x16);
    case DT_BF16:
        memcpy(&x16, from + i * sizeof x16, sizeof x16);
        return (double)bf16_widen(x16);
    case DT_F8_E4M3:
        memcpy(&x8, from + i, sizeof x8);
        return (double)f8_e4m3_to_float(x8);
    default:
        memcpy(&x8, from + i, sizeof x8);
        return (double)f8_e5m2_to_float(x8);
    }
}

static void write_floats(enum dtype type, void *to, const double *block, size_t count)
{
    uint16_t *to16 = to;
    float *to32 = to;

    switch (type) {
    case DT_F64:
        memcpy(to, block, count * sizeof *block);
        break;
    case DT_F32:
        for (size_t i = 0; i < count; i++) {
            to32[i] = (float)block[i];
        }
        break;
    case DT_F16:
        for (size_t i = 0; i < count; i++) {
            to16[i] = f16_cast(odd_float(block[i]));
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            to16[i] = bf16_cast(odd_float(block[i]));
        }
        break;
    }
}

/* An integer of any type: U64 has values that int64_t has not. */
struct integer {
    uint64_t size;
    bool negative;
};

static struct integer integer_of(int64_t x)
{
    return (struct integer){ .size = x < 0 ? -(uint64_t)x : (uint64_t)x, .negative = x < 0 };
}

static struct integer read_integer(enum dtype type, const char *from, size_t i)
{
    size_t bytes = dtype_bytes(type);
    uint64_t raw = 0;

    memcpy(&raw, from + i * bytes, bytes); /* little-endian */
    switch (type) {
    case DT_I64:
        return integer_of((int64_t)raw);
    case DT_I32:
        return integer_of((int32_t)raw);
    case DT_I16:
        return integer_of((int16_t)raw);
    case DT_I8:
        return integer_of((int8_t)raw);
    case DT_BOOL:
        return (struct integer){ .size = raw != 0, .negative = false };
    default:
        return (struct integer){ .size = raw, .negative = false };
    }
}

static bool write_integer(enum dtype type, char *to, size_t i, struct integer x)
{
    size_t bytes = dtype_bytes(type);
    bool has_sign = type == DT_I64 || type == DT_I32 || type == DT_I16 || type == DT_I8;
    uint64_t largest = UINT64_MAX >> (64 - 8 * bytes + (has_sign ? 1 : 0));
    uint64_t limit = x.negative ? (has_sign ? largest + 1 : 0) : largest;
    uint64_t raw = x.negative ? -x.size : x.size;

    if (x.size > limit) {
        return false;
    }
    memcpy(to + i * bytes, &raw, bytes);
    return true;
}

/* What will be rounded again must not be rounded before: bits that do not fit are kept as a last
 * bit that is set. */
static double odd_double(struct integer x)
{
    uint64_t size = x.size;
    double value;

    if (size >> 53 == 0) {
        value = (double)size;
    } else {
        value = (double)(size >> 11 | ((size & 2047) != 0 ? 1 : 0)) * 2048;
    }
    return x.negative ? -value : value;
}

static double nearest_double(struct integer x)
{
    return x.negative ? -(double)x.size : (double)x.size;
}

static bool is_integer(enum dtype t)
{
    return t >= DT_I64 && t <= DT_U8;
}

static bool is_plain_float(enum dtype t)
{
    return t == DT_F64 || t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

static bool convert_integers(enum dtype to_type, char *to, enum dtype from_type, const char *from,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!write_integer(to_type, to, i, read_integer(from_type, from, i))) {
            return false;
        }
    }
    return true;
}

static void convert_to_floats(enum dtype to_type, char *to, enum dtype from_type, const char *from,
                              size_t count)
{
    size_t width = dtype_bytes(to_type);
    double block[BLOCK];

    for (size_t start = 0; start < count; start += BLOCK) {
        size_t n = count - start < BLOCK ? count - start : BLOCK;

        for (size_t i = 0; i < n; i++) {
            if (dtype_is_float(from_type)) {
                block[i] = read_float(from_type, from, start + i);
            } else if (to_type == DT_F64) {
                block[i] = nearest_double(read_integer(from_type, from, start + i));
            } else {
                block[i] = odd_double(read_integer(from_type, from, start + i));
            }
        }
        write_floats(to_type, to + start * width, block, n);
    }
}

bool dtype_convert(enum dtype to_type, void *to, enum dtype from_type, const void *from,
                   size_t count)
{
    bool from_float =
        is_plain_float(from_type) || from_type == DT_F8_E4M3 || from_type == DT_F8_E5M2;
    bool from_integer = is_integer(from_type) || from_type == DT_BOOL;

    if (from_integer && is_integer(to_type)) {
        return convert_integers(to_type, to, from_type, from, count);
    }
    if (!is_plain_float(to_type) || (!from_float && !from_integer)) {
        return false;
    }
    if (!convert_directly(to_type, to, from_type, from, count)) {
        convert_to_floats(to_type, to, from_type, from, count);
    }
    return true;
}
