#include "base/dtype.h"
#include <string.h>
#include "base/dtype_cast.h"
#include "base/status.h"

static const struct {
    const char *name;
    int bits;
    bool is_float;
} dtype_rows[DT_COUNT] = {
    [DT_NONE] = { "none", 0, false },      [DT_F64] = { "F64", 64, true },
    [DT_F32] = { "F32", 32, true },        [DT_F16] = { "F16", 16, true },
    [DT_BF16] = { "BF16", 16, true },      [DT_F8_E4M3] = { "F8_E4M3", 8, true },
    [DT_F8_E5M2] = { "F8_E5M2", 8, true }, [DT_F8_E8M0] = { "F8_E8M0", 8, true },
    [DT_F6_E2M3] = { "F6_E2M3", 6, true }, [DT_F6_E3M2] = { "F6_E3M2", 6, true },
    [DT_F4] = { "F4", 4, true },           [DT_I64] = { "I64", 64, false },
    [DT_I32] = { "I32", 32, false },       [DT_I16] = { "I16", 16, false },
    [DT_I8] = { "I8", 8, false },          [DT_U64] = { "U64", 64, false },
    [DT_U32] = { "U32", 32, false },       [DT_U16] = { "U16", 16, false },
    [DT_U8] = { "U8", 8, false },          [DT_BOOL] = { "BOOL", 8, false },
    [DT_C64] = { "C64", 64, false },
};

const char *dtype_name(enum dtype t)
{
    check(t >= DT_NONE && t < DT_COUNT, "no number type %d", (int)t);
    return dtype_rows[t].name;
}

enum dtype dtype_find(const char *name)
{
    for (int t = DT_NONE + 1; t < DT_COUNT; t++) {
        if (strcmp(dtype_rows[t].name, name) == 0) {
            return (enum dtype)t;
        }
    }
    return DT_NONE;
}

int dtype_bits(enum dtype t)
{
    check(t > DT_NONE && t < DT_COUNT, "no number type %d", (int)t);
    return dtype_rows[t].bits;
}

size_t dtype_bytes(enum dtype t)
{
    int bits = dtype_bits(t);

    check(bits % 8 == 0, "an element of %s is not whole bytes", dtype_name(t));
    return (size_t)bits / 8;
}

bool dtype_is_float(enum dtype t)
{
    check(t >= DT_NONE && t < DT_COUNT, "no number type %d", (int)t);
    return dtype_rows[t].is_float;
}

uint16_t bf16_from_float(float x)
{
    return bf16_cast(x);
}

float bf16_to_float(uint16_t bits)
{
    return bf16_widen(bits);
}

uint16_t f16_from_float(float x)
{
    return f16_cast(x);
}

float f16_to_float(uint16_t bits)
{
    return f16_widen(bits);
}

float f8_e4m3_to_float(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80) << 24, size = bits & 0x7f;
    uint32_t wide = (size << 20) + (120 << 23);

    if (size < 0x08) {
        wide = bits_of((float)(int32_t)size * 0x1p-9f);
    }
    if (size == 0x7f) {
        wide = 0x7fc00000;
    }
    return float_of(sign | wide);
}

/* The upper half of a half-precision number. */
float f8_e5m2_to_float(uint8_t bits)
{
    return f16_widen((uint16_t)(bits << 8));
}
