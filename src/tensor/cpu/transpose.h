/* A square of LANES vectors turned: row i becomes column i. */
#ifndef ROUX_TENSOR_CPU_TRANSPOSE_H
#define ROUX_TENSOR_CPU_TRANSPOSE_H

#include "tensor/cpu/vec.h"

/* One step of a transposition: blocks of `by` lanes change places between rows that are `by` apart.
 */
static inline __attribute__((always_inline)) void exchange(uvec *a, uvec *b, int by)
{
    ivec lane, first, second;

    for (int i = 0; i < LANES; i++) {
        lane[i] = i;
    }
    first = lane + (((lane & by) != 0) & (LANES - by));
    second = lane + (((lane & by) == 0) & by) + (((lane & by) != 0) & LANES);
    uvec x = __builtin_shuffle(*a, *b, first);
    *b = __builtin_shuffle(*a, *b, second);
    *a = x;
}

static inline __attribute__((always_inline)) void transpose(uvec t[LANES])
{
#pragma GCC unroll 4
    for (int by = 1; by < LANES; by *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if ((i & by) == 0) {
                exchange(&t[i], &t[i + by], by);
            }
        }
    }
}

#endif
