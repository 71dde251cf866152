/*
 * What the kernel tests share: buffers with guards, a plain order of summing, and the walk over
 * families and threads.
 *
 * A test writes one function that runs a kernel and leaves its outputs in a struct outputs, and one
 * that holds them against an oracle. check_families() calls the first for every family that this
 * processor runs and for teams of 1, 2, 3 and 5, thread by thread and last thread first, and wants
 * equal bits and whole guards each time, and the second for each family. The families of F64 agree
 * bit for bit among each other, too; those of F32 and BF16 add in an order of their own.
 */
#ifndef ROUX_TESTS_TENSOR_KERNEL_CASE_H
#define ROUX_TESTS_TENSOR_KERNEL_CASE_H

#include <math.h>

#include "support/expect.h"
#include "support/families.h"
#include "tensor/kernels.h"

enum { GUARD_BYTES = 64, OUTPUTS = 4, GUARD = 0xa5 };

struct buffer {
    unsigned char *base;
    void *data;
    size_t count, bytes;
    enum dtype type;
};

/* `count` elements, all bits set (NaN, so that what a kernel forgets is seen), between guards. */
static inline struct buffer buffer_make(enum dtype type, int64_t count)
{
    struct buffer b = { .count = (size_t)count,
                        .bytes = (size_t)count * dtype_bytes(type),
                        .type = type };

    b.base = aligned_alloc(64, (b.bytes + 2 * GUARD_BYTES + 63) / 64 * 64);
    assert_non_null(b.base);
    b.data = b.base + GUARD_BYTES;
    memset(b.base, GUARD, b.bytes + 2 * GUARD_BYTES);
    memset(b.data, 0xff, b.bytes);
    return b;
}

static inline void buffer_free(struct buffer *b)
{
    if (b->base != NULL) {
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            assert_int_equal(b->base[i], GUARD);
            assert_int_equal(b->base[GUARD_BYTES + b->bytes + i], GUARD);
        }
        free(b->base);
        b->base = NULL;
    }
}

static inline double at(const struct buffer *b, int64_t i)
{
    assert_true(i >= 0 && (size_t)i < b->count);
    if (b->type == DT_BF16) {
        return (double)bf16_to_float(((const uint16_t *)b->data)[i]);
    }
    return b->type == DT_F32 ? (double)((const float *)b->data)[i] : ((const double *)b->data)[i];
}

static inline void put(struct buffer *b, int64_t i, double x)
{
    assert_true(i >= 0 && (size_t)i < b->count);
    if (b->type == DT_BF16) {
        ((uint16_t *)b->data)[i] = bf16_from_float((float)x);
    } else if (b->type == DT_F32) {
        ((float *)b->data)[i] = (float)x;
    } else {
        ((double *)b->data)[i] = x;
    }
}

static inline void *from(const struct buffer *b, int64_t i)
{
    return (char *)b->data + (size_t)i * dtype_bytes(b->type);
}

static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in [-size, size). */
static inline struct buffer buffer_random(enum dtype type, int64_t count, uint64_t seed,
                                          double size)
{
    struct buffer b = buffer_make(type, count);

    for (int64_t i = 0; i < count; i++) {
        put(&b, i, size * ((double)(random_bits(&seed) >> 11) * 0x1p-52 - 1));
    }
    return b;
}

static inline struct buffer buffer_copy(const struct buffer *b)
{
    struct buffer c = buffer_make(b->type, (int64_t)b->count);

    memcpy(c.data, b->data, b->bytes);
    return c;
}

static inline struct buffer buffer_zero(enum dtype type, int64_t count)
{
    struct buffer b = buffer_make(type, count);

    memset(b.data, 0, b.bytes);
    return b;
}

static inline void assert_same_bits(const struct buffer *a, const struct buffer *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* What one rounding to bf16, with its 8 bits, may change an element by, relative to itself. */
static inline long double rounding_of(enum dtype type)
{
    return type == DT_BF16 ? 0x1p-8L : 0;
}

/* Nothing farther from the truth than `tolerance` times the truth's largest magnitude, and, in a
 * buffer of bf16, one rounding of the element. */
static inline void assert_near(const struct buffer *b, const long double *truth, double tolerance)
{
    long double largest = 0;

    for (size_t i = 0; i < b->count; i++) {
        largest = fabsl(truth[i]) > largest ? fabsl(truth[i]) : largest;
    }
    for (size_t i = 0; i < b->count; i++) {
        long double off = fabsl((long double)at(b, (int64_t)i) - truth[i]);

        if (!(off <= (long double)tolerance * largest + rounding_of(b->type) * fabsl(truth[i]))) {
            print_error("element %zu of %zu is %.17g, not %.17Lg (largest %.3Lg)\n", i, b->count,
                        at(b, (int64_t)i), truth[i], largest);
            assert_true(false);
        }
    }
}

/* What the sums of a table may be off. Those of a BF16 table are floats: its inputs are exact, and
 * assert_near() allows for the rounding of what is stored. */
static inline double tolerance_of(enum dtype real)
{
    return real == DT_F64 ? 1e-12 : 2e-6;
}

static inline long double *truth_make(int64_t count)
{
    long double *t = calloc((size_t)count, sizeof *t);

    assert_non_null(t);
    return t;
}

/* a + b in the number type. */
static inline double add_as(enum dtype type, double a, double b)
{
    if (type == DT_BF16) {
        return (double)bf16_to_float(bf16_from_float((float)a + (float)b));
    }
    return type == DT_F32 ? (double)((float)a + (float)b) : a + b;
}

/* sums [B] buffers of one length -> sums[0]: the order of design 3.1, written without the walk that
 * the kernels use. */
static inline void tree_reduce(struct buffer *sums, int64_t B)
{
    int64_t apart = 1;

    while (B % (2 * apart) == 0) {
        apart *= 2;
    }
    for (int64_t b = apart; b < B; b++) {
        for (int64_t i = 0; i < (int64_t)sums[0].count; i++) {
            put(&sums[b % apart], i,
                add_as(sums[0].type, at(&sums[b % apart], i), at(&sums[b], i)));
        }
    }
    for (apart /= 2; apart > 0; apart /= 2) {
        for (int64_t r = 0; r < apart; r++) {
            for (int64_t i = 0; i < (int64_t)sums[0].count; i++) {
                put(&sums[r], i, add_as(sums[0].type, at(&sums[r], i), at(&sums[r + apart], i)));
            }
        }
    }
}

struct outputs {
    struct buffer of[OUTPUTS];
};

typedef void case_fn(const struct kernels *k, int threads, const void *options,
                     struct outputs *out);

static inline void outputs_free(struct outputs *out)
{
    for (int i = 0; i < OUTPUTS; i++) {
        buffer_free(&out->of[i]);
    }
}

static inline void assert_same_outputs(const struct outputs *a, const struct outputs *b)
{
    for (int o = 0; o < OUTPUTS; o++) {
        if (b->of[o].base != NULL) {
            assert_same_bits(&a->of[o], &b->of[o]);
        }
    }
}

/* Each element rounds in both, and what neither wrote is NaN in both. */
static inline void assert_near_outputs(const struct outputs *a, const struct outputs *b,
                                       double tolerance)
{
    for (int o = 0; o < OUTPUTS; o++) {
        double largest = 0;

        for (int64_t i = 0; i < (int64_t)b->of[o].count; i++) {
            largest = fmax(largest, fabs(at(&b->of[o], i)));
        }
        for (int64_t i = 0; i < (int64_t)b->of[o].count; i++) {
            double x = at(&a->of[o], i), y = at(&b->of[o], i);
            double room = tolerance * largest + 2 * (double)rounding_of(b->of[o].type) * fabs(y);

            assert_true((isnan(x) && isnan(y)) || fabs(x - y) <= room);
        }
    }
}

/* Teams of several sizes: one result. */
static inline struct outputs check_teams(const struct kernels *k, case_fn *run, const void *options)
{
    static const int teams[] = { 1, 2, 3, 5 };
    struct outputs first = { 0 };

    run(k, teams[0], options, &first);
    for (int i = 1; i < 4; i++) {
        struct outputs out = { 0 };

        run(k, teams[i], options, &out);
        assert_same_outputs(&out, &first);
        outputs_free(&out);
    }
    return first;
}

/* Holds the outputs against what they should be. */
typedef void oracle_fn(const void *options, const struct outputs *out);

/* Every family: its result does not depend on the team, and the oracle is content with it. */
static inline void check_families(enum dtype real, case_fn *run, oracle_fn *oracle,
                                  const void *options)
{
    const struct kernels *all[FAMILIES_MOST];
    size_t n = families_all(real, all);
    struct outputs first = { 0 };

    assert_true(n >= 1);
    for (size_t f = 0; f < n; f++) {
        struct outputs out = check_teams(all[f], run, options);

        oracle(options, &out);
        if (f == 0) {
            first = out;
            continue;
        }
        if (real == DT_F64) {
            assert_same_outputs(&out, &first);
        }
        outputs_free(&out);
    }
    outputs_free(&first);
}

/* Without an oracle: the result of the first family comes back, and those of the others are near it
 * (F64: the same bits). */
static inline struct outputs check_everywhere(enum dtype real, case_fn *run, const void *options)
{
    const struct kernels *all[FAMILIES_MOST];
    size_t n = families_all(real, all);
    struct outputs first;

    assert_true(n >= 1);
    first = check_teams(all[0], run, options);
    for (size_t f = 1; f < n; f++) {
        struct outputs out = check_teams(all[f], run, options);

        if (real == DT_F64) {
            assert_same_outputs(&out, &first);
        } else {
            assert_near_outputs(&out, &first, 2 * tolerance_of(real));
        }
        outputs_free(&out);
    }
    return first;
}

/* Calls every thread of a team, the last one first: a kernel that leans on another thread's work is
 * found out. */
#define FOR_TEAM(t, count) \
    for (struct team t = { (count)-1, (count) }; (t).thread >= 0; (t).thread--)

static const enum dtype both_types[2] = { DT_F32, DT_F64 };
static const enum dtype all_types[3] = { DT_F64, DT_F32, DT_BF16 };

#endif
