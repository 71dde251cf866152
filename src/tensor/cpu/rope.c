#include "tensor/cpu/cpu.h"

void NAME(rope_angles)(const struct rope_angles_args *a, struct team t)
{
    int64_t half = a->d / 2, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        float *out = (float *)a->out + row * a->d;

        for (int64_t p = 0; p < half; p++) {
            double angle = (double)a->positions[row] * a->inv_freq[p];

            out[p] = (float)cos(angle);
            out[half + p] = (float)sin(angle);
        }
    }
}

/* Both halves of an element are read before either is written, so y may be x. */
static void rotate(elem *y, const elem *x, const float *angles, int64_t half, float sign)
{
    int64_t p = 0, n;

    for (; p + LANES <= half; p += LANES) {
        vec first = elem_load(x + p), second = elem_load(x + half + p);
        vec c = vec_load(angles + p), s = sign * vec_load(angles + half + p);

        elem_store(y + p, first * c - second * s);
        elem_store(y + half + p, second * c + first * s);
    }
    n = half - p;
    if (n > 0) {
        vec first = elem_load_some(x + p, n), second = elem_load_some(x + half + p, n);
        vec c = vec_load_some(angles + p, n), s = sign * vec_load_some(angles + half + p, n);

        elem_store_some(y + p, first * c - second * s, n);
        elem_store_some(y + half + p, second * c + first * s, n);
    }
}

void NAME(rope)(const struct rope_args *a, struct team t)
{
    int64_t rotated = a->heads * a->d, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const elem *x = (const elem *)a->x + row * a->width;
        const float *angles = (const float *)a->angles + row * a->d;
        elem *y = (elem *)a->y + row * a->width;

        for (int64_t h = 0; h < a->heads; h++) {
            rotate(y + h * a->d, x + h * a->d, angles, a->d / 2, a->inverse ? -1 : 1);
        }
        if (y != x) {
            memcpy(y + rotated, x + rotated, (size_t)(a->width - rotated) * sizeof(elem));
        }
    }
}
