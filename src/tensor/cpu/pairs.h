/*
 * Products of bf16 pairs with sums in float (vdpbf16ps): a term is two neighbours of a factor, the
 * first in the low half.
 */
#ifndef ROUX_TENSOR_CPU_PAIRS_H
#define ROUX_TENSOR_CPU_PAIRS_H

#include "tensor/cpu/vec.h"

#ifdef ROUX_SIMDE
#include <simde/x86/avx512/dpbf16.h>
#endif

enum { PAIR = 2 };

typedef uint32_t term;
typedef uint32_t term_at __attribute__((aligned(2), may_alias));

static inline vec term_add(vec c, term a, vec b)
{
    uvec both = a - (uvec){ 0 };

#ifdef ROUX_SIMDE
    simde__m512bh x, y;
    simde__m512 sum;

    memcpy(&x, &both, sizeof x);
    memcpy(&y, &b, sizeof y);
    memcpy(&sum, &c, sizeof sum);
    sum = simde_mm512_dpbf16_ps(sum, x, y);
    memcpy(&c, &sum, sizeof c);
    return c;
#else
    return (vec)_mm512_dpbf16_ps((__m512)c, (__m512bh)both, (__m512bh)b);
#endif
}

/* Two rows of a factor as one of terms; floats are rounded, what was bf16 is not touched. */
static inline uvec terms_of(vec even, vec odd, bool wide)
{
    if (wide) {
        even = vec_widen(vec_narrow(even));
        odd = vec_widen(vec_narrow(odd));
    }
    return (uvec)even >> 16 | (uvec)odd;
}

/* Terms lie in memory as they are: the first LANES of n elements, zeros behind. */
static inline uvec terms_at(const uint16_t *at, int64_t n)
{
    uvec x = { 0 };

    if (n >= 2 * LANES) {
        return *(const uvec_at *)(const void *)at;
    }
    memcpy(&x, at, (size_t)n * sizeof *at);
    return x;
}

#endif
