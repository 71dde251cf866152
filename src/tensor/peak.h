/*
 * What this processor can do at most, measured by code of our own: the roofs that kernels are held
 * against. Each measurement takes its best of several tries; other programs' work lowers it.
 */
#ifndef ROUX_TENSOR_PEAK_H
#define ROUX_TENSOR_PEAK_H

#include <stdbool.h>
#include <stdint.h>
#include "tensor/kernels.h"

enum peak_kind {
    PEAK_SCALAR, /* multiplications and additions of 4 floats: what every x86-64 has */
    PEAK_AVX2,   /* fused multiply-adds of 8 floats */
    PEAK_AVX512, /* of 16 floats */
    PEAK_PAIRS,  /* dot products of 16 pairs of bf16 */
    PEAK_KINDS
};

const char *peak_name(enum peak_kind kind); /* the kernel family that is bound by it */
bool peak_runs(enum peak_kind kind);        /* does this processor have the instruction? */

/* Floating-point operations a second of `threads` threads together, from registers alone; each of
 * `tries` takes about a millisecond. peak_runs(kind) holds. */
double peak_rate(enum peak_kind kind, int threads, int tries);

/* The same of the products that kernels `k` are made of (doubles: half the floats). */
double peak_rate_of(const struct kernels *k, int threads, int tries);

/* Is a bf16 dot product (two products a lane) faster than two float ones? Takes some 50
 * microseconds, once; for processors that have both. */
bool peak_pairs_pay(void);

enum peak_stream {
    STREAM_READ,  /* a sum of x */
    STREAM_COPY,  /* y = x */
    STREAM_TRIAD, /* y = x + 3 z */
    STREAM_KINDS
};

const char *peak_stream_name(enum peak_stream kind);

/*
 * Bytes a second between memory and `threads` threads together, of three buffers of `bytes` each,
 * on huge pages where there are any, touched before. Bytes are those that the formula names:
 * written lines are not counted as read. ERR_MEMORY if the buffers cannot be had.
 */
MUST_USE status peak_streams(int64_t bytes, int threads, int tries, double out[STREAM_KINDS]);

#endif
