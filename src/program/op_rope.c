/* rope.angles and rope: the rotation of query and key heads by their positions. */
#include "program/op.h"

/* ---- angles: cosines and sines of a batch's positions, shared by all layers ---- */

static status angles_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *positions = value_of(p, n->in[0]);

    TRY(rule_type(p, n->in[0], DT_I32, 2));
    sketch_like(p, n->in[0], out);
    out->dtype = p->sum;
    out->shape = shape_3(positions->shape.d[0], positions->shape.d[1], n->arg.rope.d);
    return OK;
}

static void angles_run(const struct call *c)
{
    struct rope_angles_args a = { .positions = call_bytes(c, c->n->in[0]),
                                  .inv_freq = c->n->arg.rope.inv_freq,
                                  .out = call_bytes(c, c->n->out[0]),
                                  .T = call_rows(c, c->n->out[0]),
                                  .d = c->n->arg.rope.d };

    c->d->kernels->rope_angles(&a, c->team);
}

const struct op_def op_rope_angles_def = {
    .name = "rope.angles",
    .math = "cos, sin of position * frequency",
    .rule = angles_rule,
    .run = angles_run,
};

val op_rope_angles(struct program *p, const char *name, val positions, const double *inv_freq,
                   int64_t d)
{
    struct node n = { .op = OP_ROPE_ANGLES,
                      .in = { positions },
                      .arg.rope = { .inv_freq = inv_freq, .d = d } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- rope: heads are independent, so x may be split on its last dimension; rows need their own
 * angles ---- */

static status rope_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]), *angles = value_of(p, n->in[1]);

    TRY(rule_type(p, n->in[0], p->real, 3));
    TRY(rule_type(p, n->in[1], p->sum, 3));
    if (n->arg.rope.heads * n->arg.rope.d > x->shape.d[2] || angles->shape.d[2] != n->arg.rope.d) {
        return fail(ERR_PLAN, "%s of width %lld does not hold %lld heads of %lld", x->name,
                    (long long)x->shape.d[2], (long long)n->arg.rope.heads,
                    (long long)n->arg.rope.d);
    }
    FOR_AXES(p, a)
    {
        int8_t on = x->place.on[a], rows = place_is_split(on) && on != 3 ? on : WHOLE;

        if (angles->place.on[a] != rows) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)a), x->name,
                        place_word(on), angles->name, place_word(angles->place.on[a]));
        }
    }
    sketch_like(p, n->in[0], out);
    return OK;
}

static void rope_run(const struct call *c)
{
    struct rope_args a = { .x = call_bytes(c, c->n->in[0]),
                           .angles = call_bytes(c, c->n->in[1]),
                           .y = call_bytes(c, c->n->out[0]),
                           .T = call_rows(c, c->n->in[0]),
                           .width = value_of(c->p, c->n->in[0])->shape.d[2],
                           .heads = c->n->arg.rope.heads,
                           .d = c->n->arg.rope.d,
                           .inverse = c->n->arg.rope.inverse };

    c->d->kernels->rope(&a, c->team);
}

static void rope_diff(struct program *p, const struct node *n)
{
    struct node back = { .op = OP_ROPE,
                         .in = { program_grad(p, n->out[0]), n->in[1] },
                         .arg = n->arg };

    back.arg.rope.inverse = true;
    program_append(p, &back, "dx");
    program_add_grad(p, n->in[0], back.out[0]);
}

const struct op_def op_rope_def = {
    .name = "rope",
    .math = "y = x turned by its position",
    .over = 1,
    .rule = rope_rule,
    .diff = rope_diff,
    .run = rope_run,
};

val op_rope(struct program *p, const char *name, val x, val angles, int64_t heads, int64_t d)
{
    struct node n = { .op = OP_ROPE, .in = { x, angles }, .arg.rope = { .heads = heads, .d = d } };

    program_append(p, &n, name);
    return n.out[0];
}
