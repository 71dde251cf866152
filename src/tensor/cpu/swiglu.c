#include "tensor/cpu/cpu.h"

/* sigmoid(z) in *share and 1 - sigmoid(z) in *rest. With e = exp(-|z|) <= 1 nothing overflows: they
 * are 1 / (1 + e) and e / (1 + e), or the other way round. */
static inline void sigmoid(vec z, vec *share, vec *rest)
{
    vec e = vec_exp((vec)((ivec)z | INT32_MIN)), large = 1 / (1 + e), small = e * large;
    ivec negative = (ivec)z >> 31;

    *share = vec_select(negative, small, large);
    *rest = vec_select(negative, large, small);
}

static inline vec silu(vec z)
{
    vec share, rest;

    sigmoid(z, &share, &rest);
    return z * share;
}

/* silu'(z) = sigmoid(z) (1 + z (1 - sigmoid(z))) */
static inline void silu_d(vec z, vec up, vec dy, vec *dgate, vec *dup)
{
    vec share, rest;

    sigmoid(z, &share, &rest);
    *dgate = dy * up * (share * (1 + z * rest));
    *dup = dy * (z * share);
}

void NAME(swiglu)(const struct swiglu_args *a, struct team t)
{
    int64_t F = a->F, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const elem *gate = (const elem *)a->h + row * 2 * F, *up = gate + F;
        elem *y = (elem *)a->y + row * F;
        int64_t i = 0, n;

        for (; i + LANES <= F; i += LANES) {
            fetch_ahead(y + i);
            elem_store(y + i, silu(elem_stream(gate + i)) * elem_stream(up + i));
        }
        n = F - i;
        if (n > 0) {
            elem_store_some(y + i, silu(elem_load_some(gate + i, n)) * elem_load_some(up + i, n),
                            n);
        }
    }
}

/* dh may be h: an element is read before it is written. */
void NAME(swiglu_d)(const struct swiglu_args *a, struct team t)
{
    int64_t F = a->F, from, to;

    team_share(t, a->T, &from, &to);
    for (int64_t row = from; row < to; row++) {
        const elem *gate = (const elem *)a->h + row * 2 * F, *up = gate + F;
        const elem *dy = (const elem *)a->dy + row * F;
        elem *dgate = (elem *)a->dh + row * 2 * F, *dup = dgate + F;
        int64_t i = 0, n;
        vec to_gate, to_up;

        for (; i + LANES <= F; i += LANES) {
            fetch_ahead(dgate + i);
            fetch_ahead(dup + i);
            silu_d(elem_stream(gate + i), elem_stream(up + i), elem_stream(dy + i), &to_gate,
                   &to_up);
            elem_store(dgate + i, to_gate);
            elem_store(dup + i, to_up);
        }
        n = F - i;
        if (n > 0) {
            silu_d(elem_load_some(gate + i, n), elem_load_some(up + i, n),
                   elem_load_some(dy + i, n), &to_gate, &to_up);
            elem_store_some(dgate + i, to_gate, n);
            elem_store_some(dup + i, to_up, n);
        }
    }
}
