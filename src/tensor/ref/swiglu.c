#include "tensor/ref/ref.h"

/* With e = exp(-|z|) <= 1 nothing overflows: sigmoid(z) and 1 - sigmoid(z) are 1 / (1 + e) and e /
 * (1 + e). */

void NAME(swiglu)(const struct swiglu_args *a, struct team t)
{
    int64_t F = a->F, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *restrict gate = (const real *)a->h + row * 2 * F, *restrict up = gate + F;
        real *restrict y = (real *)a->y + row * F;

        for (int64_t i = 0; i < F; i++) {
            real z = gate[i], e = real_exp(-real_abs(z)), share = 1 / (1 + e);

            y[i] = z * (z < 0 ? e * share : share) * up[i];
        }
    }
}

/* silu'(z) = sigmoid(z) (1 + z (1 - sigmoid(z))). dh may be h: an element is read before it is
 * written. */
void NAME(swiglu_d)(const struct swiglu_args *a, struct team t)
{
    int64_t F = a->F, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *gate = (const real *)a->h + row * 2 * F, *up = gate + F;
        const real *dy = (const real *)a->dy + row * F;
        real *dgate = (real *)a->dh + row * 2 * F, *dup = dgate + F;

#pragma omp simd
        for (int64_t i = 0; i < F; i++) {
            real z = gate[i], u = up[i], e = real_exp(-real_abs(z)), large = 1 / (1 + e),
                 small = e * large;
            real sigmoid = z < 0 ? small : large, rest = z < 0 ? large : small;

            dgate[i] = dy[i] * u * (sigmoid * (1 + z * rest));
            dup[i] = dy[i] * (z * sigmoid);
        }
    }
}
