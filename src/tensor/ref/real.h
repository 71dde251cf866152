/*
 * What makes one source six families: the number type, its functions, and names that differ.
 *
 *   ROUX_REAL_BITS  32 or 64                     real = float or double
 *   ROUX_FAMILY     scalar, avx2 or avx512       NAME(linear) = linear_avx2_32, ...
 *
 * Both come from the build, with the flags of the instruction set. Sums are written so that their
 * order does not depend on the width of a vector: all families give the same bits, they differ in
 * speed only.
 */
#ifndef ROUX_TENSOR_REF_REAL_H
#define ROUX_TENSOR_REF_REAL_H

#include <math.h>
#include <stdint.h>

#include "tensor/ref/exp.h"

#define NAME_JOIN(x, family, bits) x##_##family##_##bits
#define NAME_OF(x, family, bits) NAME_JOIN(x, family, bits)
#define NAME(x) NAME_OF(x, ROUX_FAMILY, ROUX_REAL_BITS)

#if ROUX_REAL_BITS == 32
typedef float real;

static inline real real_sqrt(real x)
{
    return sqrtf(x);
}

static inline real real_exp(real x)
{
    return exp_f32(x);
}

static inline real real_log(real x)
{
    return logf(x);
}

static inline real real_abs(real x)
{
    return fabsf(x);
}
#else
typedef double real;

static inline real real_sqrt(real x)
{
    return sqrt(x);
}

static inline real real_exp(real x)
{
    return exp_f64(x);
}

static inline real real_log(real x)
{
    return log(x);
}

static inline real real_abs(real x)
{
    return fabs(x);
}
#endif

#endif
