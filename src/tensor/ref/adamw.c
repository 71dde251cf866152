#include <string.h>

#include "tensor/ref/ref.h"

void NAME(adamw)(const struct adamw_args *a, struct team t)
{
    const real keep = (real)(1 - a->lr * a->decay), scale = (real)a->scale, eps = (real)a->eps;
    const real beta1 = (real)a->beta1, rest1 = (real)(1 - a->beta1);
    const real beta2 = (real)a->beta2, rest2 = (real)(1 - a->beta2);
    const real step = (real)(a->lr / a->correction1), root = (real)sqrt(a->correction2);
    real *restrict w = a->w, *restrict m = a->m, *restrict v = a->v, *restrict g = a->g;
    int64_t from, to;

    team_share(t, a->count, &from, &to);
    for (int64_t i = from; i < to; i++) {
        real slope = g[i] * scale;

        g[i] = 0;
        m[i] = beta1 * m[i] + rest1 * slope;
        v[i] = beta2 * v[i] + rest2 * (slope * slope);
        w[i] = w[i] * keep - step * m[i] / (real_sqrt(v[i]) / root + eps);
    }
    if (a->copy != NULL) {
        memcpy((real *)a->copy + from, w + from, (size_t)(to - from) * sizeof(real));
    }
}

void NAME(cast)(const struct cast_args *a, struct team t)
{
    int64_t from, to;

    team_share(t, a->count, &from, &to);
    memcpy((real *)a->copy + from, (const real *)a->w + from, (size_t)(to - from) * sizeof(real));
}
