#include "model/weights.h"

#include <string.h>

/* What a part is, before anyone asks where it lies. */
struct part_plan {
    enum part_kind kind;
    const char *suffix;
    enum weight_init init;
    int64_t rows, columns; /* columns 0: a vector */
    int8_t tp;
    bool present;
};

static void part_rectangle(struct weight_part *q, int tp, int T)
{
    for (int i = 0; i < 2; i++) {
        q->local[i] = q->whole[i];
        q->from[i] = 0;
        q->to[i] = q->whole[i];
    }
    if (q->tp != WHOLE) {
        int i = q->tp - 1;

        q->local[i] = (q->whole[i] + T - 1) / T;
        q->from[i] = q->local[i] * tp < q->whole[i] ? q->local[i] * tp : q->whole[i];
        q->to[i] = q->from[i] + q->local[i] < q->whole[i] ? q->from[i] + q->local[i] : q->whole[i];
    }
}

static int64_t blocks_of(int64_t elements)
{
    return (elements + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
}

static void segment_make(struct weights *w, struct weight_segment *g, struct arena *a,
                         const char *name, const char *prefix, const struct part_plan *plan,
                         int count)
{
    g->name = name;
    g->parts = arena_take_array(a, (size_t)count, sizeof *g->parts);
    for (int i = 0; i < count; i++) {
        struct weight_part *q = &g->parts[g->count];

        if (!plan[i].present) {
            continue;
        }
        *q = (struct weight_part){ .name = arena_format(a, "%s%s", prefix, plan[i].suffix),
                                   .kind = plan[i].kind,
                                   .init = plan[i].init,
                                   .rank = plan[i].columns == 0 ? 1 : 2,
                                   .whole = { plan[i].rows,
                                              plan[i].columns == 0 ? 1 : plan[i].columns },
                                   .at = g->blocks * WEIGHT_BLOCK };
        q->tp = w->mesh->size[AXIS_TP] > 1 ? plan[i].tp : WHOLE;
        part_rectangle(q, w->mesh->at[AXIS_TP], w->mesh->size[AXIS_TP]);
        g->blocks += blocks_of(q->local[0] * q->local[1]);
        g->count++;
    }
    g->shard_blocks =
        (g->blocks + mesh_length(w->mesh, AXES_SHARD) - 1) / mesh_length(w->mesh, AXES_SHARD);
}

static void root_make(struct weights *w, struct arena *a, const struct model_spec *s)
{
    const struct part_plan plan[] = {
        { PART_EMBED, "model.embed_tokens.weight", INIT_NORMAL, s->vocab, s->width, 1, true },
        { PART_NORM, "model.norm.weight", INIT_ONE, s->width, 0, WHOLE, true },
        { PART_HEAD, "lm_head.weight", INIT_NORMAL, s->vocab, s->width, 1, !s->tied },
    };

    segment_make(w, &w->segments[0], a, "root", "", plan, 3);
}

static void layer_make(struct weights *w, struct arena *a, const struct model_spec *s, int layer)
{
    int64_t D = s->width, q = s->heads * s->head_dim, kv = s->groups * s->head_dim, F = s->ffn;
    bool ab = s->attention_bias, mb = s->mlp_bias;
    const struct part_plan plan[] = {
        { PART_NORM1, "input_layernorm.weight", INIT_ONE, D, 0, WHOLE, true },
        { PART_Q, "self_attn.q_proj.weight", INIT_NORMAL, q, D, 1, true },
        { PART_K, "self_attn.k_proj.weight", INIT_NORMAL, kv, D, 1, true },
        { PART_V, "self_attn.v_proj.weight", INIT_NORMAL, kv, D, 1, true },
        { PART_Q_BIAS, "self_attn.q_proj.bias", INIT_ZERO, q, 0, 1, ab },
        { PART_K_BIAS, "self_attn.k_proj.bias", INIT_ZERO, kv, 0, 1, ab },
        { PART_V_BIAS, "self_attn.v_proj.bias", INIT_ZERO, kv, 0, 1, ab },
        { PART_O, "self_attn.o_proj.weight", INIT_NORMAL, D, q, 2, true },
        { PART_O_BIAS, "self_attn.o_proj.bias", INIT_ZERO, D, 0, WHOLE, ab },
        { PART_NORM2, "post_attention_layernorm.weight", INIT_ONE, D, 0, WHOLE, true },
        { PART_GATE, "mlp.gate_proj.weight", INIT_NORMAL, F, D, 1, true },
        { PART_UP, "mlp.up_proj.weight", INIT_NORMAL, F, D, 1, true },
        { PART_GATE_BIAS, "mlp.gate_proj.bias", INIT_ZERO, F, 0, 1, mb },
        { PART_UP_BIAS, "mlp.up_proj.bias", INIT_ZERO, F, 0, 1, mb },
        { PART_DOWN, "mlp.down_proj.weight", INIT_NORMAL, D, F, 2, true },
        { PART_DOWN_BIAS, "mlp.down_proj.bias", INIT_ZERO, D, 0, WHOLE, mb },
    };

    segment_make(w, &w->segments[layer + 1], a, arena_format(a, "layers.%d", layer),
                 arena_format(a, "model.layers.%d.", layer), plan,
                 (int)(sizeof plan / sizeof plan[0]));
}

/* Blocks of this rank's shard that count in the norm: parts that all TP members hold count on
 * the first only. */
static void norm_ranges_make(struct weights *w, struct arena *a, int segment)
{
    const struct weight_segment *g = &w->segments[segment];
    int64_t first = g->shard_blocks * mesh_index(w->mesh, AXES_SHARD),
            last = first + g->shard_blocks;
    struct block_range *ranges = arena_take_array(a, (size_t)g->count, sizeof *ranges);
    int count = 0;

    for (int i = 0; i < g->count; i++) {
        const struct weight_part *q = &g->parts[i];
        int64_t from = q->at / WEIGHT_BLOCK, to = from + blocks_of(q->local[0] * q->local[1]);

        from = from < first ? first : from;
        to = to > last ? last : to;
        if (from < to && (q->tp != WHOLE || w->mesh->at[AXIS_TP] == 0)) {
            ranges[count++] = (struct block_range){ from - first, to - first };
        }
    }
    w->norm_ranges[segment] = ranges;
    w->norm_counts[segment] = count;
}

static status divides(int64_t n, int T, const char *what)
{
    if (n % T != 0) {
        return fail(ERR_RECIPE,
                    "model.tensor_model_parallel_degree is %d, but the %lld %s do not divide by it",
                    T, (long long)n, what);
    }
    return OK;
}

status weights_make(struct weights *w, struct arena *a, const struct model_spec *s,
                    const struct mesh *mesh)
{
    int T = mesh->size[AXIS_TP];

    TRY(divides(s->heads, T, "attention heads"));
    TRY(divides(s->groups, T, "key/value heads"));
    TRY(divides(s->ffn, T, "feed-forward columns"));
    *w = (struct weights){
        .mesh = mesh, .count = (int)s->layers + 1, .init_std = s->init_std, .pad = s->pad
    };
    w->segments = arena_take_array(a, (size_t)w->count, sizeof *w->segments);
    w->norm_ranges = arena_take_array(a, (size_t)w->count, sizeof *w->norm_ranges);
    w->norm_counts = arena_take_array(a, (size_t)w->count, sizeof *w->norm_counts);
    root_make(w, a, s);
    for (int i = 0; i < s->layers; i++) {
        layer_make(w, a, s, i);
    }
    for (int i = 0; i < w->count; i++) {
        norm_ranges_make(w, a, i);
    }
    return OK;
}

int weights_pieces(const struct weights *w, const struct weight_segment *g,
                   struct weight_piece *out)
{
    int64_t size = g->shard_blocks * WEIGHT_BLOCK, begin = size * mesh_index(w->mesh, AXES_SHARD),
            end = begin + size;
    int count = 0;

    for (int i = 0; i < g->count; i++) {
        const struct weight_part *q = &g->parts[i];
        int64_t real = (q->to[0] - q->from[0]) * (q->to[1] - q->from[1]);
        int64_t from = q->at > begin ? q->at : begin, to = q->at + real < end ? q->at + real : end;

        if (from < to) {
            out[count++] = (struct weight_piece){ q, from - q->at, to - from, from - begin };
        }
    }
    return count;
}
