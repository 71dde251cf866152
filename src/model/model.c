/*
 * The decoder that all families share:
 *
 *   x = embed(ids)
 *   each layer:   x += attention(norm1(x));  x += mlp(norm2(x))
 *   hidden = norm(x); loss = head(hidden)
 */
#include "model/model.h"

#include "model/layer.h"

status model_make(struct model *m, struct arena *a, const struct model_spec *s,
                  const struct mesh *mesh)
{
    struct weights *w = arena_take(a, sizeof *w);
    double *inv_freq = arena_take_array(a, (size_t)s->head_dim / 2, sizeof *inv_freq);

    TRY(weights_make(w, a, s, mesh));
    rope_frequencies(&s->rope, s->head_dim, inv_freq);
    *m = (struct model){ .spec = s, .weights = w, .inv_freq = inv_freq };
    return OK;
}

struct model_inputs model_inputs(struct program *p, int64_t B, int64_t S)
{
    struct place rows = place_rows(p->mesh);
    struct shape shape = shape_2(B, S);

    return (struct model_inputs){ .ids = program_input(p, "ids", DT_I32, shape, rows),
                                  .targets = program_input(p, "targets", DT_I32, shape, rows),
                                  .positions = program_input(p, "positions", DT_I32, shape, rows),
                                  .starts = program_input(p, "starts", DT_I32, shape, rows) };
}

static val with_bias(struct program *p, const char *name, const struct weight_use *u, val x,
                     const enum part_kind *kinds, int parts)
{
    val b[LINEAR_PARTS] = { { 0 } };

    for (int i = 0; i < parts; i++) {
        b[i] = layer_part(p, u, kinds[i]);
        if (b[i].id == 0) {
            return x;
        }
    }
    return op_bias(p, name, x, b, parts);
}

static val attention(struct program *p, const struct model *m, const struct weight_use *u, val x,
                     val angles, val starts)
{
    static const enum part_kind biases[] = { PART_Q_BIAS, PART_K_BIAS, PART_V_BIAS },
                                out_bias[] = { PART_O_BIAS };
    const struct model_spec *s = m->spec;
    int T = p->mesh->size[AXIS_TP];
    int64_t H = s->heads / T, G = s->groups / T;
    val qkv[] = { layer_part(p, u, PART_Q), layer_part(p, u, PART_K), layer_part(p, u, PART_V) };
    val o = layer_part(p, u, PART_O);
    val h = op_rmsnorm(p, "norm1", x, layer_part(p, u, PART_NORM1), s->eps);

    h = op_linear(p, "qkv", layer_enter(p, AXES_TP, h), qkv, 3);
    h = with_bias(p, "qkv.bias", u, h, biases, 3);
    h = op_rope(p, "rope", h, angles, H + G, s->head_dim);
    h = op_attention(p, "attention", h, starts, H, G, s->head_dim, s->window);
    h = layer_leave(p, AXES_TP, op_linear(p, "o", h, &o, 1));
    h = with_bias(p, "o.bias", u, h, out_bias, 1);
    return op_add(p, "attended", x, h);
}

static val mlp(struct program *p, const struct model *m, const struct weight_use *u, val x)
{
    static const enum part_kind biases[] = { PART_GATE_BIAS, PART_UP_BIAS },
                                out_bias[] = { PART_DOWN_BIAS };
    val gate_up[] = { layer_part(p, u, PART_GATE), layer_part(p, u, PART_UP) };
    val down = layer_part(p, u, PART_DOWN);
    val h = op_rmsnorm(p, "norm2", x, layer_part(p, u, PART_NORM2), m->spec->eps);

    h = op_linear(p, "gate_up", layer_enter(p, AXES_TP, h), gate_up, 2);
    h = with_bias(p, "gate_up.bias", u, h, biases, 2);
    h = op_swiglu(p, "swiglu", h);
    h = layer_leave(p, AXES_TP, op_linear(p, "down", h, &down, 1));
    h = with_bias(p, "down.bias", u, h, out_bias, 1);
    return op_add(p, "out", x, h);
}

static unsigned layer_flags(unsigned flags)
{
    return ((flags & MODEL_RECOMPUTE) != 0 ? SEGMENT_RECOMPUTE : 0u) |
           ((flags & MODEL_REGATHER) != 0 ? SEGMENT_REGATHER : 0u);
}

val model_hidden(struct program *p, const struct model *m, const struct model_inputs *in,
                 unsigned flags, val *head)
{
    const struct model_spec *s = m->spec;
    bool trains = (flags & MODEL_TRAINS) != 0;
    struct weight_use root, last;
    const struct weight_part *embed;
    val x, angles;

    program_segment(p, "embed", 0);
    root = layer_weights(p, m, 0, trains);
    embed = segment_part(root.segment, PART_EMBED);
    angles = op_rope_angles(p, "angles", in->positions, m->inv_freq, s->head_dim);
    x = op_embed(p, "tokens", in->ids, layer_part(p, &root, PART_EMBED), embed->from[0], s->pad);
    x = layer_leave(p, AXES_TP, x);
    for (int i = 0; i < s->layers; i++) {
        struct weight_use u;

        program_segment(p, m->weights->segments[i + 1].name, layer_flags(flags));
        u = layer_weights(p, m, i + 1, trains);
        x = attention(p, m, &u, x, angles, in->starts);
        x = mlp(p, m, &u, x);
    }
    program_segment(p, "head", 0);
    last = s->tied && !layer_weights_direct(p) ? layer_weights(p, m, 0, trains) : root;
    *head = layer_part(p, &last, s->tied ? PART_EMBED : PART_HEAD);
    x = op_rmsnorm(p, "norm", x, layer_part(p, &last, PART_NORM), s->eps);
    return layer_enter(p, AXES_TP, x);
}

/* Ids of this rank's slice of the vocabulary begin at `first`; `valid` of its rows are real
 * words. */
static void head_slice(const struct model *m, int64_t *first, int64_t *valid)
{
    const struct weight_segment *g = &m->weights->segments[0];
    const struct weight_part *q = segment_part(g, m->spec->tied ? PART_EMBED : PART_HEAD);

    *first = q->from[0];
    *valid = q->to[0] - q->from[0];
}

val model_loss(struct program *p, const struct model *m, const struct model_inputs *in,
               unsigned flags)
{
    int64_t first, valid;
    val head, x = model_hidden(p, m, in, flags, &head);

    head_slice(m, &first, &valid);
    return op_head(p, x, head, in->targets, first, valid);
}

val model_logits(struct program *p, const struct model *m, const struct model_inputs *in)
{
    int64_t first, valid;
    val head, x = model_hidden(p, m, in, 0, &head);

    head_slice(m, &first, &valid);
    return op_head_logits(p, x, head, valid);
}
