#include "tensor/cpu/cpu.h"

void NAME(cast)(const struct cast_args *a, struct team t)
{
    const float *w = a->w;
    elem *copy = a->copy;
    int64_t i, to;

    share_elements(t, a->count, &i, &to);
    for (; i + LANES <= to; i += LANES) {
        elem_store(copy + i, vec_load(w + i));
    }
    if (i < to) {
        elem_store_some(copy + i, vec_load_some(w + i, to - i), to - i);
    }
}
