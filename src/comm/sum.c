#include "comm/sum.h"
#include <string.h>
#include "base/status.h"

/* Inner loops of a fixed length are turned into vector code at -O2 as well. */
enum { LANES = 16, BLOCK = 1024 };

static void add_f32(float *restrict to, const float *restrict from, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            to[i + j] += from[i + j];
        }
    }
    for (; i < n; i++) {
        to[i] += from[i];
    }
}

static void add_f64(double *restrict to, const double *restrict from, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            to[i + j] += from[i + j];
        }
    }
    for (; i < n; i++) {
        to[i] += from[i];
    }
}

static void add_i64(uint64_t *restrict to, const uint64_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

static void add(enum dtype dtype, void *to, const void *from, int64_t n)
{
    switch (dtype) {
    case DT_F32:
        add_f32(to, from, n);
        break;
    case DT_F64:
        add_f64(to, from, n);
        break;
    case DT_I64:
        add_i64(to, from, n);
        break;
    default:
        check(false, "members cannot be added as %s", dtype_name(dtype));
    }
}

/* Block by block, so that a block of every member stays in the cache until its tree is done. */
void members_sum(enum dtype dtype, void *out, void *parts, int64_t stride, int members, int64_t n)
{
    size_t width = dtype_bytes(dtype);
    int levels = __builtin_ctz((unsigned)members);

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t length = n - at < BLOCK ? n - at : BLOCK;
        char *first = (char *)parts + (size_t)at * width;
        size_t step = (size_t)stride * width;
        int tops = 1 << levels;

        for (int r = 0; r < tops; r++) {
            for (int m = r + tops; m < members; m += tops) {
                add(dtype, first + (size_t)r * step, first + (size_t)m * step, length);
            }
        }
        for (int half = tops / 2; half > 0; half /= 2) {
            for (int r = 0; r < half; r++) {
                add(dtype, first + (size_t)r * step, first + (size_t)(r + half) * step, length);
            }
        }
        memcpy((char *)out + (size_t)at * width, first, (size_t)length * width);
    }
}
