/*
 * embed: rows of the embedding by token id. Where the vocabulary is split, ids outside this rank's
 * slice give zeros, so the result is a partial sum.
 */
#include "program/op.h"

static status embed_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *ids = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);

    TRY(rule_type(p, n->in[0], DT_I32, 2));
    TRY(rule_type(p, n->in[1], p->real, 2));
    sketch_like(p, n->in[0], out);
    out->dtype = p->real;
    out->shape = shape_3(ids->shape.d[0], ids->shape.d[1], w->shape.d[1]);
    FOR_AXES(p, a)
    {
        int8_t on = ids->place.on[a], with = w->place.on[a];

        if (place_is_split(on) && with == COPIES) {
            continue;
        }
        if (on == WHOLE && (with == WHOLE || with == 1)) {
            out->place.on[a] = with == 1 ? PARTIAL : WHOLE;
            continue;
        }
        return fail(ERR_PLAN, "over %s %s is %s and %s is %s", axis_name((enum axis)a), ids->name,
                    place_word(on), w->name, place_word(with));
    }
    return OK;
}

static struct embed_args embed_args(const struct call *c, val ids, val w)
{
    const struct value *table = value_of(c->p, w);

    return (struct embed_args){ .ids = call_bytes(c, ids),
                                .B = call_extent(c, ids, 0),
                                .S = call_extent(c, ids, 1),
                                .D = table->shape.d[1],
                                .rows = table->shape.d[0],
                                .first = c->n->arg.embed.first,
                                .pad = c->n->arg.embed.pad };
}

static void embed_run(const struct call *c)
{
    struct embed_args a = embed_args(c, c->n->in[0], c->n->in[1]);

    a.w = call_bytes(c, c->n->in[1]);
    a.y = call_bytes(c, c->n->out[0]);
    c->d->kernels->embed(&a, c->team);
}

static void embed_diff(struct program *p, const struct node *n)
{
    struct node dw = { .op = OP_EMBED_DW, .arg.embed = n->arg.embed };

    dw.in[0] = program_grad_into(p, n->in[1]);
    dw.in[1] = program_grad(p, n->out[0]);
    dw.in[2] = n->in[0];
    program_append(p, &dw, "dw");
}

const struct op_def op_embed_def = {
    .name = "embed",
    .math = "y = w[ids]",
    .rule = embed_rule,
    .diff = embed_diff,
    .run = embed_run,
};

val op_embed(struct program *p, const char *name, val ids, val w, int64_t first, int64_t pad)
{
    struct node n = { .op = OP_EMBED, .in = { ids, w }, .arg.embed = { first, pad } };

    program_append(p, &n, name);
    return n.out[0];
}

/* ---- dw[ids] += dy ---- */

static status embed_dw_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *dest = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]),
                       *ids = value_of(p, n->in[2]);

    (void)out;
    TRY(rule_type(p, n->in[0], p->sum, 2));
    TRY(rule_type(p, n->in[1], p->real, 3));
    TRY(rule_type(p, n->in[2], DT_I32, 2));
    FOR_AXES(p, a)
    {
        int8_t on = dy->place.on[a], sum = place_is_split(on) ? PARTIAL : on,
               to = dest->place.on[a];

        /* Each member of a split vocabulary adds its own rows of a whole gradient. */
        if (on == WHOLE && to == 1) {
            continue;
        }
        if (to != sum || on == (int8_t)dy->shape.rank ||
            place_is_split(ids->place.on[a]) != place_is_split(on)) {
            return fail(ERR_PLAN, "over %s the gradient from %s is %s, but %s is %s",
                        axis_name((enum axis)a), dy->name, place_word(sum), dest->name,
                        place_word(to));
        }
    }
    return OK;
}

static void embed_dw_run(const struct call *c)
{
    struct embed_args a = embed_args(c, c->n->in[2], c->n->in[0]);

    a.dy = call_bytes(c, c->n->in[1]);
    a.dw = call_bytes(c, c->n->in[0]);
    a.scratch = call_bytes(c, c->n->scratch);
    c->d->kernels->embed_dw(&a, c->team);
}

static size_t embed_dw_scratch(const struct program *p, const struct node *n,
                               const struct kernels *k, int threads)
{
    const struct value *dest = value_of(p, n->in[0]), *dy = value_of(p, n->in[1]);
    struct embed_args a = { .B = dy->shape.d[0],
                            .S = dy->shape.d[1],
                            .D = dest->shape.d[1],
                            .rows = dest->shape.d[0],
                            .first = n->arg.embed.first,
                            .pad = n->arg.embed.pad };

    return k->embed_scratch(&a, threads);
}

const struct op_def op_embed_dw_def = {
    .name = "embed.dw",
    .math = "dw[ids] += dy",
    .adds = 1,
    .rule = embed_dw_rule,
    .scratch = embed_dw_scratch,
    .run = embed_dw_run,
};
