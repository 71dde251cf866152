#include "base/exact.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "base/status.h"

__extension__ typedef unsigned __int128 uint128;

enum { ADDS_BETWEEN_CARRIES = 1 << 30, LOWEST_EXPONENT = -1074 };

/* |x| = mantissa * 2^(shift - 1074). */
static uint64_t mantissa_of(uint64_t bits, int *shift)
{
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);

    if (exponent == 0) {
        *shift = 0;
        return fraction;
    }
    *shift = exponent - 1;
    return fraction | (uint64_t)1 << 52;
}

void exact_add(struct exact *e, double x)
{
    uint64_t bits, mantissa;
    uint128 wide;
    int shift, at;

    if (!isfinite(x)) {
        e->bad++;
        return;
    }
    if (e->pending >= ADDS_BETWEEN_CARRIES) {
        exact_carry(e);
    }
    memcpy(&bits, &x, sizeof bits);
    mantissa = mantissa_of(bits, &shift);
    wide = (uint128)mantissa << shift % 32; /* at most 53 + 31 bits: three limbs */
    at = shift / 32;
    for (int i = 0; i < 3; i++) {
        int64_t part = (int64_t)(uint32_t)(wide >> 32 * i);

        e->limb[at + i] += bits >> 63 != 0 ? -part : part;
    }
    e->pending++;
}

void exact_carry(struct exact *e)
{
    for (int i = 0; i + 1 < EXACT_LIMBS; i++) {
        int64_t low = e->limb[i] & 0xffffffff;

        e->limb[i + 1] += (e->limb[i] - low) / ((int64_t)1 << 32);
        e->limb[i] = low;
    }
    e->pending = 0;
}

/* A carried sum holds 32 bits a limb, as one more double would. */
void exact_merge(struct exact *e, const struct exact *other)
{
    struct exact carried = *other;

    if (e->pending + other->pending >= ADDS_BETWEEN_CARRIES) {
        exact_carry(e);
        exact_carry(&carried);
    }
    for (int i = 0; i < EXACT_LIMBS; i++) {
        e->limb[i] += carried.limb[i];
    }
    e->pending += carried.pending + 1;
    e->bad += carried.bad;
}

/* Makes a carried sum positive; true if it was not. */
static bool take_sign(struct exact *e)
{
    if (e->limb[EXACT_LIMBS - 1] >= 0) {
        return false;
    }
    for (int i = 0; i < EXACT_LIMBS; i++) {
        e->limb[i] = -e->limb[i];
    }
    exact_carry(e);
    return true;
}

/* `count` bits (at most 53) from bit `from` upwards. */
static uint64_t bits_from(const struct exact *e, int from, int count)
{
    uint128 wide = 0;

    for (int i = 2; i >= 0; i--) {
        int at = from / 32 + i;

        wide = wide << 32 | (at < EXACT_LIMBS ? (uint64_t)e->limb[at] : 0);
    }
    return (uint64_t)(wide >> from % 32) & (((uint64_t)1 << count) - 1);
}

static bool any_bit_below(const struct exact *e, int end)
{
    for (int i = 0; i < end / 32; i++) {
        if (e->limb[i] != 0) {
            return true;
        }
    }
    return end % 32 != 0 && bits_from(e, end / 32 * 32, end % 32) != 0;
}

/*
 *   limbs, highest bit first:   0 0 0 1 m m m ... m m | r | s s s ...
 *                                     top  53 bits      half  rest
 * A sum whose top bit lies within the lowest 53 is a double as it stands, subnormal or not: nothing
 * is rounded twice.
 */
double exact_value(const struct exact *e)
{
    struct exact sum = *e;
    bool negative;
    uint64_t mantissa;
    double value;
    int limb = EXACT_LIMBS - 1, top;

    if (e->bad != 0) {
        return (double)NAN;
    }
    exact_carry(&sum);
    negative = take_sign(&sum);
    if (sum.limb[EXACT_LIMBS - 1] != 0) {
        return negative ? -(double)INFINITY : (double)INFINITY;
    }
    while (limb > 0 && sum.limb[limb] == 0) {
        limb--;
    }
    if (sum.limb[limb] == 0) {
        return 0;
    }
    top = 32 * limb + 63 - __builtin_clzll((uint64_t)sum.limb[limb]);
    if (top <= 52) {
        value = ldexp((double)bits_from(&sum, 0, 53), LOWEST_EXPONENT);
    } else {
        int low = top - 52;

        mantissa = bits_from(&sum, low, 53);
        if (bits_from(&sum, low - 1, 1) != 0 &&
            (mantissa % 2 != 0 || any_bit_below(&sum, low - 1))) {
            mantissa++;
        }
        value = ldexp((double)mantissa, low + LOWEST_EXPONENT);
    }
    return negative ? -value : value;
}
