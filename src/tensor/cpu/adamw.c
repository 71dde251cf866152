/* AdamW in one pass over weights, moments and gradients. */
#include "tensor/cpu/cpu.h"

struct adamw {
    float keep, scale, beta1, rest1, beta2, rest2, step, root, eps; /* root: of 1 / correction2 */
};

static inline vec adamw_step(const struct adamw *c, vec w, vec g, vec *m, vec *v)
{
    vec slope = g * c->scale;

    *m = c->beta1 * *m + c->rest1 * slope;
    *v = c->beta2 * *v + c->rest2 * (slope * slope);
    return w * c->keep - c->step * *m / (vec_sqrt(*v) * c->root + c->eps);
}

void NAME(adamw)(const struct adamw_args *a, struct team t)
{
    const struct adamw c = { .keep = (float)(1 - a->lr * a->decay),
                             .scale = (float)a->scale,
                             .beta1 = (float)a->beta1,
                             .rest1 = (float)(1 - a->beta1),
                             .beta2 = (float)a->beta2,
                             .rest2 = (float)(1 - a->beta2),
                             .step = (float)(a->lr / a->correction1),
                             .root = (float)(1 / sqrt(a->correction2)),
                             .eps = (float)a->eps };
    float *w = a->w, *m = a->m, *v = a->v, *g = a->g;
    elem *copy = a->copy;
    int64_t i, to;

    share_elements(t, a->count, &i, &to);
    for (; i + LANES <= to; i += LANES) {
        vec mean = vec_load(m + i), square = vec_load(v + i);
        vec next = adamw_step(&c, vec_load(w + i), vec_load(g + i), &mean, &square);

        vec_store(w + i, next);
        vec_store(m + i, mean);
        vec_store(v + i, square);
        vec_store(g + i, (vec){ 0 });
        if (copy != NULL) {
            elem_store(copy + i, next);
        }
    }
    if (i < to) {
        int64_t n = to - i;
        vec mean = vec_load_some(m + i, n), square = vec_load_some(v + i, n);
        vec next = adamw_step(&c, vec_load_some(w + i, n), vec_load_some(g + i, n), &mean, &square);

        vec_store_some(w + i, next, n);
        vec_store_some(m + i, mean, n);
        vec_store_some(v + i, square, n);
        vec_store_some(g + i, (vec){ 0 }, n);
        if (copy != NULL) {
            elem_store_some(copy + i, next, n);
        }
    }
}
