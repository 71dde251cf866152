#include "support/families.h"

extern const struct kernels kernels_avx512_emulated_f32, kernels_avx512_emulated_bf16,
    kernels_avx512_bf16_emulated_bf16;

size_t families_all(enum dtype real, const struct kernels *out[FAMILIES_MOST])
{
    size_t n = kernels_all(real, out);

    if (real == DT_F32) {
        out[n++] = &kernels_avx512_emulated_f32;
    } else if (real == DT_BF16) {
        out[n++] = &kernels_avx512_emulated_bf16;
#ifdef ROUX_SIMDE
        out[n++] = &kernels_avx512_bf16_emulated_bf16;
#endif
    }
    return n;
}
