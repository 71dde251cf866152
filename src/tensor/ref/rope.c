#include <string.h>

#include "tensor/ref/ref.h"

void NAME(rope_angles)(const struct rope_angles_args *a, struct team t)
{
    int64_t half = a->d / 2, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        real *out = (real *)a->out + row * a->d;

        for (int64_t p = 0; p < half; p++) {
            double angle = (double)a->positions[row] * a->inv_freq[p];

            out[p] = (real)cos(angle);
            out[half + p] = (real)sin(angle);
        }
    }
}

static void rotate(real *y, const real *x, const real *angles, int64_t half, real sign)
{
    /* Both halves of an element are read before either is written, so y may be x. */
#pragma omp simd
    for (int64_t p = 0; p < half; p++) {
        real first = x[p], second = x[half + p], c = angles[p], s = sign * angles[half + p];

        y[p] = first * c - second * s;
        y[half + p] = second * c + first * s;
    }
}

void NAME(rope)(const struct rope_args *a, struct team t)
{
    int64_t rotated = a->heads * a->d, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const real *x = (const real *)a->x + row * a->width;
        const real *angles = (const real *)a->angles + row * a->d;
        real *y = (real *)a->y + row * a->width;

        for (int64_t h = 0; h < a->heads; h++) {
            rotate(y + h * a->d, x + h * a->d, angles, a->d / 2, a->inverse ? -1 : 1);
        }
        if (y != x) {
            memcpy(y + rotated, x + rotated, (size_t)(a->width - rotated) * sizeof(real));
        }
    }
}
