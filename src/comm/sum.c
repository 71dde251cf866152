/*
 * The tree is walked depth first, block by block: leaf c is the sum of the members of equal residue
 * r = bits of c reversed, and after it as many pairs are merged as c has ones at its end. So the
 * order is that of tensor/row_tree.h (another room of this level; tests/comm holds the two against
 * each other), and few blocks are alive at a time.
 */
#include "comm/sum.h"
#include <string.h>
#include "base/status.h"

/* Inner loops of a fixed length are turned into vector code at -O2 as well. */
enum { LANES = 16, BLOCK = 512, LEVELS = 24 };

/* to = a + b; `to` may be a. */
static void add_f32(float *to, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        float sum[LANES];

        for (int j = 0; j < LANES; j++) {
            sum[j] = a[i + j] + b[i + j];
        }
        memcpy(to + i, sum, sizeof sum);
    }
    for (; i < n; i++) {
        to[i] = a[i] + b[i];
    }
}

static void add_f64(double *to, const double *a, const double *b, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        double sum[LANES];

        for (int j = 0; j < LANES; j++) {
            sum[j] = a[i + j] + b[i + j];
        }
        memcpy(to + i, sum, sizeof sum);
    }
    for (; i < n; i++) {
        to[i] = a[i] + b[i];
    }
}

static void add_bf16(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = bf16_from_float(bf16_to_float(a[i]) + bf16_to_float(b[i]));
    }
}

static void add_i64(uint64_t *to, const uint64_t *a, const uint64_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = a[i] + b[i];
    }
}

static void add(enum dtype dtype, void *to, const void *a, const void *b, int64_t n)
{
    switch (dtype) {
    case DT_F32:
        add_f32(to, a, b, n);
        break;
    case DT_F64:
        add_f64(to, a, b, n);
        break;
    case DT_BF16:
        add_bf16(to, a, b, n);
        break;
    case DT_I64:
        add_i64(to, a, b, n);
        break;
    default:
        check(false, "members cannot be added as %s", dtype_name(dtype));
    }
}

/* The lowest `levels` bits of c in reverse. */
static int residue(int c, int levels)
{
    int r = 0;

    for (int i = 0; i < levels; i++) {
        r |= (c >> i & 1) << (levels - 1 - i);
    }
    return r;
}

struct walk {
    enum dtype dtype;
    const void *const *parts;
    int members, levels;
    size_t offset; /* bytes before the block in every part */
    int64_t length;
    const void *top[LEVELS + 1];    /* the sums waiting to be merged */
    double room[LEVELS + 1][BLOCK]; /* memory for them; a single part needs none */
};

static const void *part_of(const struct walk *w, int member)
{
    return (const char *)w->parts[member] + w->offset;
}

static void leaf_push(struct walk *w, int depth, int r)
{
    const void *sum = part_of(w, r);

    for (int m = r + (1 << w->levels); m < w->members; m += 1 << w->levels) {
        add(w->dtype, w->room[depth], sum, part_of(w, m), w->length);
        sum = w->room[depth];
    }
    w->top[depth] = sum;
}

static const void *block_sum(struct walk *w)
{
    int depth = 0;

    for (int c = 0; c < 1 << w->levels; c++) {
        leaf_push(w, depth++, residue(c, w->levels));
        for (int ones = c; ones & 1; ones >>= 1) {
            depth--;
            add(w->dtype, w->room[depth - 1], w->top[depth - 1], w->top[depth], w->length);
            w->top[depth - 1] = w->room[depth - 1];
        }
    }
    return w->top[0];
}

void members_sum(enum dtype dtype, void *out, const void *const *parts, int members, int64_t n)
{
    size_t width = dtype_bytes(dtype);
    struct walk w; /* mostly room: not worth clearing */

    w.dtype = dtype;
    w.parts = parts;
    w.members = members;
    w.levels = __builtin_ctz((unsigned)members);
    w.top[0] = parts[0];
    check(members >= 1 && w.levels <= LEVELS, "a sum over %d members", members);
    for (int64_t at = 0; at < n; at += BLOCK) {
        w.offset = (size_t)at * width;
        w.length = n - at < BLOCK ? n - at : BLOCK;
        memmove((char *)out + w.offset, block_sum(&w), (size_t)w.length * width);
    }
}
