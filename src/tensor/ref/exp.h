/*
 * exp without a branch, so that a loop over it becomes vector code on every processor.
 *
 *   x = n ln 2 + r, |r| <= ln 2 / 2;  exp(x) = 2^n (1 + r + r^2 q(r)), q from the Taylor series
 *
 * Adding 1.5 * 2^(mantissa bits) rounds to an integer and leaves n in the low bits; ln 2 is taken
 * off in two parts, of which the first times n is exact. Error: at most 2 ulp (1.03 measured) where
 * the result is a normal number. Below about -87.7 (float) or -708.7 (double), and for minus
 * infinity, the result is exactly 0; above 88 or 709 that of the bound, so it is never infinite.
 * NaN stays NaN.
 */
#ifndef ROUX_TENSOR_REF_EXP_H
#define ROUX_TENSOR_REF_EXP_H

#include <stdint.h>
#include <string.h>

static inline float exp_f32(float x)
{
    const float rounder = 0x1.8p23f;
    float low = x < -88.0f ? -88.0f : x;
    float bound = low > 88.0f ? 88.0f : low;
    float shifted = bound * 0x1.715476p0f + rounder;
    float n = shifted - rounder;
    float r = (bound - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    float q = 1.0f / 5040;
    float power;
    uint32_t bits;

    q = q * r + 1.0f / 720;
    q = q * r + 1.0f / 120;
    q = q * r + 1.0f / 24;
    q = q * r + 1.0f / 6;
    q = q * r + 1.0f / 2;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return power * (1 + (r + r * r * q));
}

static inline double exp_f64(double x)
{
    const double rounder = 0x1.8p52;
    double low = x < -709.0 ? -709.0 : x;
    double bound = low > 709.0 ? 709.0 : low;
    double shifted = bound * 0x1.71547652b82fep0 + rounder;
    double n = shifted - rounder;
    double r = (bound - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double q = 1.0 / 6227020800;
    double power;
    uint64_t bits;

    q = q * r + 1.0 / 479001600;
    q = q * r + 1.0 / 39916800;
    q = q * r + 1.0 / 3628800;
    q = q * r + 1.0 / 362880;
    q = q * r + 1.0 / 40320;
    q = q * r + 1.0 / 5040;
    q = q * r + 1.0 / 720;
    q = q * r + 1.0 / 120;
    q = q * r + 1.0 / 24;
    q = q * r + 1.0 / 6;
    q = q * r + 1.0 / 2;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return power * (1 + (r + r * r * q));
}

#endif
