/* How long the memory plan of a long program takes: bench_plan [VALUES]. Prints the median of
 * seven runs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "program/program.h"

static double plan_once(int values)
{
    static const int one[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    struct arena a = { 0 };
    struct mesh mesh;
    struct program p;
    struct residents r;
    struct memory_plan plan;
    const struct kernels *k;
    val x, far[64];
    double start;

    check(mesh_imagine(&mesh, 0, one) == OK && kernels_find(DT_F32, &k) == OK, "%s", fail_text());
    program_init(&p, "long", &a, &mesh, DT_F32);
    residents_init(&r, &a);
    x = program_input(&p, "x", DT_F32, shape_3(2, 64, 96), (struct place){ { 0 } });
    for (int i = 0; i < 64; i++) {
        far[i] = x;
    }
    /* Values of several sizes with short and long lives, as layers and their derivatives have. */
    for (int i = 0; p.value_count < values; i++) {
        val wide = op_rmsnorm(&p, "norm", far[i % 64],
                              program_weight(&p, arena_format(&a, "w%d", i % 200), DT_F32,
                                             shape_1(96), (struct place){ { 0 } }, false),
                              1e-6);

        x = op_add(&p, "sum", x, wide);
        far[(i * 37) % 64] = wide;
    }
    program_keep(&p, x);
    start = clock_seconds();
    check(program_plan(&p, &r, k, 2, &plan) == OK, "%s", fail_text());
    start = clock_seconds() - start;
    residents_release(&r);
    arena_release(&a);
    return start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int count, char **arguments)
{
    int values = count > 1 ? atoi(arguments[1]) : 20000;
    double seconds[7];

    for (int i = 0; i < 7; i++) {
        seconds[i] = plan_once(values);
    }
    qsort(seconds, 7, sizeof seconds[0], by_size);
    printf("planning %d values: %.2f ms (median of 7, from %.2f to %.2f)\n", values,
           seconds[3] * 1e3, seconds[0] * 1e3, seconds[6] * 1e3);
    return 0;
}
