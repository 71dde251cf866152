/* Inside the room: the casts as inline functions, so that loops over them become vector code. */
#ifndef ROUX_BASE_DTYPE_CAST_H
#define ROUX_BASE_DTYPE_CAST_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t bf16_cast(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float bf16_widen(uint16_t bits)
{
    uint32_t quiet = (bits & 0x7fff) > 0x7f80 ? 0x400000 : 0;

    return float_of((uint32_t)bits << 16 | quiet);
}

/* Below 2^-14 the sum with 0.5 has the grid of half precision's subnormal numbers, 2^-24: the
 * addition rounds. */
static inline uint16_t f16_cast(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    uint32_t normal = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10);
    uint32_t small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    uint32_t quiet = 0x7e00 | (size >> 13 & 0x1ff);
    uint32_t half = size < 0x38800000 ? small : normal;

    if (size >= 0x477ff000) { /* 65,520 and more rounds away from the largest number */
        half = 0x7c00;
    }
    if (size > 0x7f800000) {
        half = quiet;
    }
    return (uint16_t)(sign | half);
}

static inline float f16_widen(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, size = bits & 0x7fff;
    uint32_t wide = (size << 13) + (112 << 23);

    if (size < 0x400) {
        wide = bits_of((float)(int32_t)size * 0x1p-24f);
    }
    if (size >= 0x7c00) {
        wide = 0x7f800000 | (size & 0x3ff) << 13 | (size > 0x7c00 ? 0x400000 : 0);
    }
    return float_of(sign | wide);
}

#endif
