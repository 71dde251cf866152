#include "tensor/cpu/cpu.h"

void NAME(add)(const struct add_args *args, struct team t)
{
    const elem *a = args->a, *b = args->b;
    elem *y = args->y;
    int64_t i, to;

    share_elements(t, args->count, &i, &to);
    for (; i + LANES <= to; i += LANES) {
        elem_store(y + i, elem_load(a + i) + elem_load(b + i));
    }
    if (i < to) {
        elem_store_some(y + i, elem_load_some(a + i, to - i) + elem_load_some(b + i, to - i),
                        to - i);
    }
}

void NAME(add_sums)(const struct add_args *args, struct team t)
{
    const float *a = args->a, *b = args->b;
    float *y = args->y;
    int64_t i, to;

    share_elements(t, args->count, &i, &to);
    for (; i + LANES <= to; i += LANES) {
        vec_store(y + i, vec_load(a + i) + vec_load(b + i));
    }
    if (i < to) {
        vec_store_some(y + i, vec_load_some(a + i, to - i) + vec_load_some(b + i, to - i), to - i);
    }
}
