/*
 * Names, widths and exact casts of the number types that files and kernels know.
 *
 * Casts to a narrower float round to nearest, ties to even, with gradual underflow; what is too
 * large becomes infinite. NaN stays NaN: quiet, sign and the upper bits of the payload kept.
 * Source: IEEE 754-2019 sections 4.3, 6.2.
 */
#ifndef ROUX_BASE_DTYPE_H
#define ROUX_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order is that of no file: names decide. */
enum dtype {
    DT_NONE,
    DT_F64,
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_F8_E8M0,
    DT_F6_E2M3,
    DT_F6_E3M2,
    DT_F4,
    DT_I64,
    DT_I32,
    DT_I16,
    DT_I8,
    DT_U64,
    DT_U32,
    DT_U16,
    DT_U8,
    DT_BOOL,
    DT_C64,
    DT_COUNT
};

const char *dtype_name(enum dtype t);    /* "F32", "BF16", ...: the names of safetensors */
enum dtype dtype_find(const char *name); /* DT_NONE if there is no such name; in capitals */
int dtype_bits(enum dtype t);            /* 4, 6, 8, 16, 32, 64 */
size_t dtype_bytes(enum dtype t);        /* of one element; check()s that they are whole */
bool dtype_is_float(enum dtype t);

uint16_t bf16_from_float(float x);
float bf16_to_float(uint16_t bits);
uint16_t f16_from_float(float x);
float f16_to_float(uint16_t bits);
float f8_e4m3_to_float(uint8_t bits); /* no infinity; 0x7f and 0xff are NaN */
float f8_e5m2_to_float(uint8_t bits);

/*
 * Converts `count` elements. Floats F64, F32, F16, BF16 to each other in every combination (F64 to
 * F16 or BF16 rounds once, not twice); F8 to any float; integers and BOOL to any integer or float
 * type by value. Returns false where a pair is not offered (F4, F6, F8_E8M0, C64, anything to F8)
 * or an integer does not fit; then nothing is promised of `to`. `from` need not be aligned; `from`
 * and `to` may not overlap.
 */
bool dtype_convert(enum dtype to_type, void *to, enum dtype from_type, const void *from,
                   size_t count);

#endif
