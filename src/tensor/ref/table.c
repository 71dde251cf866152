#include "tensor/ref/ref.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

extern const struct kernels NAME(kernels);

const struct kernels NAME(kernels) = {
    .family = TEXT(ROUX_FAMILY),
    .real = sizeof(real) == sizeof(float) ? DT_F32 : DT_F64,
    .sum = sizeof(real) == sizeof(float) ? DT_F32 : DT_F64,
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
    .attention = NAME(attention),
    .attention_d = NAME(attention_d),
    .attention_scratch = NAME(attention_scratch),
    .swiglu = NAME(swiglu),
    .swiglu_d = NAME(swiglu_d),
    .add = NAME(add),
    .add_sums = NAME(add),
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
