/* Which kernel families there are, which of them this processor runs, and which one is taken. */
#include "tensor/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/peak.h"

extern const struct kernels kernels_scalar_64, kernels_avx2_64, kernels_avx512_64;
extern const struct kernels kernels_scalar_32, kernels_avx2_f32, kernels_avx512_f32;
extern const struct kernels kernels_scalar_bf16, kernels_avx2_bf16, kernels_avx512_bf16,
    kernels_avx512_bf16_bf16;

static const struct {
    const char *name;
    enum dtype real;
} precisions[] = { { "64", DT_F64 }, { "32", DT_F32 }, { "bf16", DT_BF16 } };

enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

const char *precision_name(enum dtype real)
{
    for (size_t i = 0; i < PRECISIONS; i++) {
        if (precisions[i].real == real) {
            return precisions[i].name;
        }
    }
    return dtype_name(real);
}

enum dtype precision_find(const char *name)
{
    for (size_t i = 0; i < PRECISIONS; i++) {
        if (strcmp(precisions[i].name, name) == 0) {
            return precisions[i].real;
        }
    }
    return DT_NONE;
}

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

static bool has_avx512_bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* Slowest first: the last one that runs is the best, but for bf16 products (kernels_find). */
static const struct family {
    bool (*runs)(void);
    const struct kernels *f64, *f32, *bf16;
} families[] = {
    { any_processor, &kernels_scalar_64, &kernels_scalar_32, &kernels_scalar_bf16 },
    { has_avx2, &kernels_avx2_64, &kernels_avx2_f32, &kernels_avx2_bf16 },
    { has_avx512, &kernels_avx512_64, &kernels_avx512_f32, &kernels_avx512_bf16 },
    { has_avx512_bf16, NULL, NULL, &kernels_avx512_bf16_bf16 },
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const struct kernels *table_of(const struct family *f, enum dtype real)
{
    check(real == DT_F64 || real == DT_F32 || real == DT_BF16,
          "kernels are for F64, F32 and BF16, not for %s", dtype_name(real));
    return real == DT_F64 ? f->f64 : real == DT_F32 ? f->f32 : f->bf16;
}

size_t kernels_all(enum dtype real, const struct kernels *out[8])
{
    size_t n = 0;

    __builtin_cpu_init();
    for (size_t i = 0; i < FAMILIES; i++) {
        const struct kernels *table = table_of(&families[i], real);

        if (table != NULL && families[i].runs()) {
            out[n++] = table;
        }
    }
    return n;
}

/* Some processors have bf16 products that are slower than float ones (half the rate on Sapphire
 * Rapids, twice it on Zen 4 and 5), so the rates decide. They are far apart: noise does not. */
static const struct kernels *best_of(const struct kernels *const *all, size_t n)
{
    bool pairs = n > 1 && strcmp(all[n - 1]->family, "avx512_bf16") == 0;

    return all[pairs && !peak_pairs_pay() ? n - 2 : n - 1];
}

static status unknown_family(const char *what, const char *name, const struct kernels *const *all,
                             size_t n)
{
    char names[128] = "";

    for (size_t i = 0; i < n; i++) {
        strcat(names, i == 0 ? "" : i + 1 == n ? " or " : ", ");
        strcat(names, all[i]->family);
    }
    return fail(ERR_RECIPE, "%s'%s' is no kernel family that this processor runs; choose %s%s",
                what, name, names, what[0] == '\0' ? "" : ", or unset it");
}

static status find_named(enum dtype real, const char *what, const char *name,
                         const struct kernels **out)
{
    const struct kernels *all[8] = { NULL };
    size_t n = kernels_all(real, all);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, all[i]->family) == 0) {
            *out = all[i];
            return OK;
        }
    }
    return unknown_family(what, name, all, n);
}

status kernels_named(enum dtype real, const char *name, const struct kernels **out)
{
    return find_named(real, "", name, out);
}

status kernels_find(enum dtype real, const struct kernels **out)
{
    const struct kernels *all[8] = { NULL };
    size_t n = kernels_all(real, all);
    const char *name = getenv("ROUX_ISA");

    if (name == NULL || name[0] == '\0') {
        *out = best_of(all, n);
        return OK;
    }
    return find_named(real, "ROUX_ISA: ", name, out);
}
