/* Which kernel families there are, which of them this processor runs, and which one is taken. */
#include "tensor/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const struct kernels kernels_scalar_32, kernels_avx2_32, kernels_avx512_32;
extern const struct kernels kernels_scalar_64, kernels_avx2_64, kernels_avx512_64;

static bool any_processor(void)
{
    return true;
}

/* The levels x86-64-v3 and x86-64-v4 by their features: clang 14 does not know the levels'
 * names. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Slowest first: the last one that runs is the best. */
static const struct family {
    const struct kernels *f32, *f64;
    bool (*runs)(void);
} families[] = {
    { &kernels_scalar_32, &kernels_scalar_64, any_processor },
    { &kernels_avx2_32, &kernels_avx2_64, has_avx2 },
    { &kernels_avx512_32, &kernels_avx512_64, has_avx512 },
};

enum { FAMILIES = sizeof families / sizeof families[0] };

size_t kernels_all(enum dtype real, const struct kernels *out[8])
{
    size_t n = 0;

    check(real == DT_F32 || real == DT_F64, "kernels are for F32 and F64, not for %s",
          dtype_name(real));
    __builtin_cpu_init();
    for (size_t i = 0; i < FAMILIES; i++) {
        if (families[i].runs()) {
            out[n++] = real == DT_F32 ? families[i].f32 : families[i].f64;
        }
    }
    return n;
}

static status unknown_family(const char *name, const struct kernels *const *all, size_t n)
{
    char names[128] = "";

    for (size_t i = 0; i < n; i++) {
        strcat(names, i == 0 ? "" : i + 1 == n ? " or " : ", ");
        strcat(names, all[i]->family);
    }
    return fail(
        ERR_RECIPE,
        "ROUX_ISA: '%s' is no kernel family that this processor runs; choose %s, or unset it", name,
        names);
}

status kernels_find(enum dtype real, const struct kernels **out)
{
    const struct kernels *all[8] = { NULL };
    size_t n = kernels_all(real, all);
    const char *name = getenv("ROUX_ISA");

    if (name == NULL || name[0] == '\0') {
        *out = all[n - 1];
        return OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, all[i]->family) == 0) {
            *out = all[i];
            return OK;
        }
    }
    return unknown_family(name, all, n);
}
