#include "tensor/cpu/cpu.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern const struct kernels NAME(kernels);

/* Attention is computed in floats: see attention.c. */
#if defined(ROUX_PAIRS_avx512_bf16)
#define FLOATS(x) x##_avx512_bf16
#elif defined(ROUX_PAIRS_avx512_bf16_emulated)
#define FLOATS(x) x##_avx512_emulated_bf16
#else
#define FLOATS(x) NAME(x)
#endif

void FLOATS(attention)(const struct attention_args *a, struct team t);
void FLOATS(attention_d)(const struct attention_args *a, struct team t);
size_t FLOATS(attention_scratch)(const struct attention_args *a, int threads);

const struct kernels NAME(kernels) = {
    .family = TEXT(ROUX_FAMILY),
    .real = ELEM_WIDE ? DT_F32 : DT_BF16,
    .sum = DT_F32,
    .linear = NAME(linear),
    .linear_dx = NAME(linear_dx),
    .linear_dw = NAME(linear_dw),
    .linear_scratch = NAME(linear_scratch),
    .bias = NAME(bias),
    .bias_dw = NAME(bias_dw),
    .bias_scratch = NAME(bias_scratch),
    .embed = NAME(embed),
    .embed_dw = NAME(embed_dw),
    .embed_scratch = NAME(embed_scratch),
    .rmsnorm = NAME(rmsnorm),
    .rmsnorm_dx = NAME(rmsnorm_dx),
    .rmsnorm_dw = NAME(rmsnorm_dw),
    .rmsnorm_scratch = NAME(rmsnorm_scratch),
    .rope_angles = NAME(rope_angles),
    .rope = NAME(rope),
    .attention = FLOATS(attention),
    .attention_d = FLOATS(attention_d),
    .attention_scratch = FLOATS(attention_scratch),
    .swiglu = NAME(swiglu),
    .swiglu_d = NAME(swiglu_d),
    .add = NAME(add),
    .add_sums = NAME(add_sums),
    .head_stats = NAME(head_stats),
    .head_merge = NAME(head_merge),
    .head_logits = NAME(head_logits),
    .head_backward = NAME(head_backward),
    .head_steps = NAME(head_steps),
    .head_scratch = NAME(head_scratch),
    .adamw = NAME(adamw),
    .norm = NAME(norm),
    .cast = NAME(cast),
};
