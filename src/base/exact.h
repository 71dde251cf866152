/*
 * Exact sums of doubles: an integer wide enough for double's whole range, so that the order of
 * adding (over rows, blocks, threads, ranks) cannot change a bit of the result (design: numbers).
 *
 *   value = sum over i of limb[i] * 2^(32 i) * 2^-1074     limb[i] signed, 64 bits, EXACT_LIMBS of them
 *
 * Each limb holds 32 bits plus head room: up to 2^30 doubles may be added between two carries;
 * exact_add carries by itself. Adding the limbs of two sums as plain integers adds the sums (that
 * is what crosses ranks: at most 2^20 ranks, after exact_carry). NaN and infinity are counted in
 * `bad` and not added.
 */
#ifndef ROUX_BASE_EXACT_H
#define ROUX_BASE_EXACT_H

#include <stdint.h>

enum { EXACT_LIMBS = 68, EXACT_WORDS = EXACT_LIMBS + 2 };

struct exact {
    int64_t limb[EXACT_LIMBS];
    int64_t pending; /* doubles added since the last carry */
    int64_t bad;     /* non-finite doubles met */
};

void exact_add(struct exact *e, double x);
void exact_carry(struct exact *e); /* all limbs to [0, 2^32), the last keeps the sign */
void exact_merge(struct exact *e, const struct exact *other); /* e += other */
double exact_value(const struct exact *e); /* nearest double, ties to even; NaN if bad */

#endif
