#include <string.h>

#include "tensor/ref/ref.h"

enum { BLOCK = 1024, WIDE = 8 };

typedef real reals
    __attribute__((vector_size(WIDE * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef double doubles __attribute__((vector_size(WIDE * sizeof(double))));

void NAME(norm)(const struct norm_args *a, struct team t)
{
    int64_t from, to;

    team_share(t, a->blocks, &from, &to);
    for (int64_t b = from; b < to; b++) {
        const real *g = (const real *)a->g + b * BLOCK;
        doubles lanes = { 0 };
        double v[WIDE];

        for (int i = 0; i < BLOCK; i += WIDE) {
            doubles x = __builtin_convertvector(*(const reals *)(g + i), doubles);

            lanes += x * x;
        }
        memcpy(v, &lanes, sizeof v);
        a->sums[b] = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    }
}
