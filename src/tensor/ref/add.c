#include "tensor/ref/ref.h"

void NAME(add)(const struct add_args *args, struct team t)
{
    const real *a = args->a, *b = args->b;
    real *y = args->y;
    int64_t from, to;

    team_share(t, args->count, &from, &to);
    for (int64_t i = from; i < to; i++) {
        y[i] = a[i] + b[i];
    }
}
