/* Sums of squares in double, by lanes. */
#include "tensor/cpu/cpu.h"

enum { BLOCK = 1024, DOUBLES = LANES / 2 };

static double sum_squares(const float *g)
{
    dvec a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    double v[DOUBLES];

    for (int i = 0; i < BLOCK; i += 4 * DOUBLES) {
        dvec p = dvec_load(g + i), q = dvec_load(g + i + DOUBLES);
        dvec r = dvec_load(g + i + 2 * DOUBLES), s = dvec_load(g + i + 3 * DOUBLES);

        fetch_ahead(g + i);
        fetch_ahead(g + i + 2 * DOUBLES);
        a += p * p;
        b += q * q;
        c += r * r;
        d += s * s;
    }
    a = (a + b) + (c + d);
    memcpy(v, &a, sizeof v);
    for (int half = DOUBLES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            v[i] += v[i + half];
        }
    }
    return v[0];
}

void NAME(norm)(const struct norm_args *a, struct team t)
{
    const float *g = a->g;
    int64_t from, to;

    team_share(t, a->blocks, &from, &to);
    for (int64_t b = from; b < to; b++) {
        a->sums[b] = sum_squares(g + b * BLOCK);
    }
}
