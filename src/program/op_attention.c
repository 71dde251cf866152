/*
 * attention: causal, grouped heads, with a window and document starts. q, k and v stand side by
 * side in one value [B, S, (H + 2 G) d]; heads are independent, so it may be split on its last
 * dimension (H and G are then this rank's).
 */
#include "program/op.h"

static status attention_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]), *starts = value_of(p, n->in[1]);
    int64_t H = n->arg.attention.heads, G = n->arg.attention.groups, d = n->arg.attention.d;

    TRY(rule_type(p, n->in[0], p->real, 3));
    TRY(rule_type(p, n->in[1], DT_I32, 2));
    if (x->shape.d[2] != (H + 2 * G) * d || H % G != 0 || starts->shape.d[0] != x->shape.d[0] ||
        starts->shape.d[1] != x->shape.d[1]) {
        return fail(
            ERR_PLAN,
            "%s of width %lld does not hold %lld query and 2 x %lld key and value heads of %lld",
            x->name, (long long)x->shape.d[2], (long long)H, (long long)G, (long long)d);
    }
    TRY(rule_not_partial(p, n->in[0]));
    FOR_AXES(p, a)
    {
        int8_t on = x->place.on[a], rows = place_is_split(on) && on != 3 ? on : WHOLE;

        if (on == 2) {
            return rule_misplaced(
                p, n->in[0], a,
                "attention over split positions needs their keys and values gathered");
        }
        if (starts->place.on[a] != rows) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)a), x->name,
                        place_word(on), starts->name, place_word(starts->place.on[a]));
        }
    }
    sketch_like(p, n->in[0], &out[0]);
    out[0].shape.d[2] = H * d;
    /* lse [B, H, S]: heads stand on dimension 1. */
    out[1] = out[0];
    out[1].shape = shape_3(x->shape.d[0], H, x->shape.d[1]);
    out[1].dtype = p->sum;
    out[1].live[1] = (val){ 0 };
    out[1].live[2] = x->live[1];
    FOR_AXES(p, a)
    {
        if (out[1].place.on[a] == 3) {
            out[1].place.on[a] = 2;
        }
    }
    return OK;
}

static struct attention_args attention_args(const struct program *p, const struct node *n)
{
    int64_t H = n->arg.attention.heads, G = n->arg.attention.groups, d = n->arg.attention.d,
            width = (H + 2 * G) * d;
    const struct value *x = value_of(p, n->in[0]);

    return (struct attention_args){ .B = x->shape.d[0],
                                    .S = x->shape.d[1],
                                    .H = H,
                                    .G = G,
                                    .d = d,
                                    .window = n->arg.attention.window,
                                    .scale = n->arg.attention.scale,
                                    .ldq = width,
                                    .ldk = width,
                                    .ldv = width,
                                    .ldo = H * d,
                                    .lddq = width,
                                    .lddk = width,
                                    .lddv = width,
                                    .lddo = H * d };
}

static size_t attention_scratch(const struct program *p, const struct node *n,
                                const struct kernels *k, int threads)
{
    struct attention_args a = attention_args(p, n);

    return k->attention_scratch(&a, threads);
}

static struct attention_args attention_call(const struct call *c)
{
    struct attention_args a = attention_args(c->p, c->n);
    const char *qkv = call_bytes(c, c->n->in[0]);
    size_t head = (size_t)a.d * dtype_bytes(c->p->real);

    a.B = call_extent(c, c->n->in[0], 0);
    a.S = call_extent(c, c->n->in[0], 1);
    a.q = qkv;
    a.k = qkv + (size_t)a.H * head;
    a.v = qkv + (size_t)(a.H + a.G) * head;
    a.starts = call_bytes(c, c->n->in[1]);
    a.scratch = call_bytes(c, c->n->scratch);
    return a;
}

static void attention_run(const struct call *c)
{
    struct attention_args a = attention_call(c);

    a.o = call_bytes(c, c->n->out[0]);
    a.lse = call_bytes(c, c->n->out[1]);
    c->d->kernels->attention(&a, c->team);
}

static void attention_diff(struct program *p, const struct node *n)
{
    struct node back = { .op = OP_ATTENTION_D,
                         .in = { n->in[0], n->in[1], n->out[0], n->out[1],
                                 program_grad(p, n->out[0]) },
                         .arg = n->arg };

    program_append(p, &back, "dqkv");
    program_add_grad(p, n->in[0], back.out[0]);
}

/* Over all rows, half of the square: scores and values, forward. */
static int64_t attention_flops(const struct program *p, const struct node *n)
{
    struct attention_args a = attention_args(p, n);
    int64_t keys = a.window > 0 && a.window < a.S ? a.window : (a.S + 1) / 2;

    return 4 * a.B * a.S * keys * a.H * a.d;
}

const struct op_def op_attention_def = {
    .name = "attention",
    .math = "y = softmax(q k^T / sqrt(d)) v",
    .rule = attention_rule,
    .diff = attention_diff,
    .flops = attention_flops,
    .scratch = attention_scratch,
    .run = attention_run,
};

val op_attention(struct program *p, const char *name, val qkv, val starts, int64_t heads,
                 int64_t groups, int64_t d, int64_t window)
{
    struct node n = { .op = OP_ATTENTION,
                      .in = { qkv, starts },
                      .arg.attention = { heads, groups, d, window,
                                         1 / __builtin_sqrt((double)d) } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- derivative ---- */

static status attention_d_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *qkv = value_of(p, n->in[0]), *dy = value_of(p, n->in[4]);

    TRY(rule_type(p, n->in[4], p->real, 3));
    if (!shape_same(&dy->shape, &value_of(p, n->in[2])->shape)) {
        return fail(ERR_PLAN, "%s does not fit %s", dy->name, value_of(p, n->in[2])->name);
    }
    TRY(rule_same_place(p, n->in[0], n->in[2]));
    sketch_like(p, n->in[0], out);
    FOR_AXES(p, a)
    {
        int8_t on = dy->place.on[a], with = qkv->place.on[a];

        if (place_is_split(with) ? on != with : with == PARTIAL || place_is_split(on)) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)a),
                        dy->name, place_word(on), qkv->name, place_word(with));
        }
        out->place.on[a] = on;
    }
    return OK;
}

static void attention_d_run(const struct call *c)
{
    struct attention_args a = attention_call(c);
    char *d = call_bytes(c, c->n->out[0]);
    size_t head = (size_t)a.d * dtype_bytes(c->p->real);

    a.o = call_bytes(c, c->n->in[2]);
    a.lse = call_bytes(c, c->n->in[3]);
    a.dout = call_bytes(c, c->n->in[4]);
    a.dq = d;
    a.dk = d + (size_t)a.H * head;
    a.dv = d + (size_t)(a.H + a.G) * head;
    c->d->kernels->attention_d(&a, c->team);
}

static int64_t attention_d_flops(const struct program *p, const struct node *n)
{
    return attention_flops(p, n) / 2 * 5;
}

const struct op_def op_attention_d_def = {
    .name = "attention.d",
    .math = "dq, dk, dv",
    .rule = attention_d_rule,
    .flops = attention_d_flops,
    .scratch = attention_scratch,
    .run = attention_d_run,
};
