/*
 * The head and its cross-entropy. Full logits never exist but in head.logits.
 *
 * Forward it is head.stats (per row: largest logit, sum of exponentials, target's logit), where the
 * vocabulary is split a gather of these over TP, and head.loss (the parts merged in rank order; one
 * sum a sequence). The derivative is head.grad, which forms the logits once more. Where one rank
 * holds the whole vocabulary the backward pass puts head.learn in the place of all of these: loss
 * and derivative in one pass over the logits.
 *
 * `learn` differentiates the sum of token losses, so nothing comes in from above.
 */
#include <string.h>

#include "program/op.h"

static status head_inputs(const struct program *p, val x, val w)
{
    const struct value *a = value_of(p, x), *b = value_of(p, w);

    TRY(rule_type(p, x, p->real, 3));
    TRY(rule_type(p, w, p->real, 2));
    if (a->shape.d[2] != b->shape.d[1]) {
        return fail(ERR_PLAN, "%s of width %lld does not multiply %s of %lld", a->name,
                    (long long)a->shape.d[2], b->name, (long long)b->shape.d[1]);
    }
    FOR_AXES(p, i)
    {
        int8_t on = a->place.on[i], with = b->place.on[i];
        bool vocabulary = on == COPIES && with == 1, rows = (on == 1 || on == 2) && with == COPIES;

        if (!vocabulary && !rows && !(on == WHOLE && with == WHOLE)) {
            return fail(ERR_PLAN, "over %s %s is %s and %s is %s: they do not multiply",
                        axis_name((enum axis)i), a->name, place_word(on), b->name,
                        place_word(with));
        }
    }
    return OK;
}

/* Rows, vocabulary and places of a node whose first inputs are x, w, targets. */
static struct head_args head_args(const struct program *p, const struct node *n, val x, val w)
{
    const struct value *a = value_of(p, x), *b = value_of(p, w);

    return (struct head_args){ .B = a->shape.d[0],
                               .S = a->shape.d[1],
                               .D = a->shape.d[2],
                               .rows = b->shape.d[0],
                               .first = n->arg.head.first,
                               .valid = n->arg.head.valid,
                               .slices = 1 };
}

static struct head_args head_call(const struct call *c, val x, val w, val targets)
{
    struct head_args a = head_args(c->p, c->n, x, w);

    a.B = call_extent(c, x, 0);
    a.S = call_extent(c, x, 1);
    a.x = call_bytes(c, x);
    a.w = call_bytes(c, w);
    a.targets = call_bytes(c, targets);
    a.scratch = call_bytes(c, c->n->scratch);
    return a;
}

static size_t head_scratch(const struct program *p, const struct node *n, const struct kernels *k,
                           int threads)
{
    struct head_args a = head_args(p, n, n->in[0], n->in[1]);

    return k->head_scratch(&a, threads);
}

static int64_t product_flops(const struct program *p, const struct node *n)
{
    struct head_args a = head_args(p, n, n->in[0], n->in[1]);

    return 2 * a.B * a.S * a.D * a.rows;
}

/* ---- stats [1, B, S, 3]: split on dimension 0 where the vocabulary is ---- */

static status stats_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);

    TRY(head_inputs(p, n->in[0], n->in[1]));
    TRY(rule_type(p, n->in[2], DT_I32, 2));
    *out =
        (struct sketch){ .dtype = DT_F64, .shape = { 4, { 1, x->shape.d[0], x->shape.d[1], 3 } } };
    out->live[1] = x->live[0];
    out->live[2] = x->live[1];
    FOR_AXES(p, a)
    {
        int8_t on = x->place.on[a];

        out->place.on[a] = place_is_split(on) ? (int8_t)(on + 1) : w->place.on[a] == 1 ? 1 : on;
    }
    return OK;
}

static void stats_run(const struct call *c)
{
    struct head_args a = head_call(c, c->n->in[0], c->n->in[1], c->n->in[2]);

    a.stats = call_bytes(c, c->n->out[0]);
    c->d->kernels->head_stats(&a, c->team);
}

const struct op_def op_head_stats_def = {
    .name = "head.stats",
    .math = "max, sum of exp, target of x w^T",
    .rule = stats_rule,
    .flops = product_flops,
    .scratch = head_scratch,
    .run = stats_run,
};

/* ---- loss [B] and lse [B, S] from the stats of all slices; x and w stand there for the
 * derivative only ---- */

static status loss_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *stats = value_of(p, n->in[3]);

    TRY(head_inputs(p, n->in[0], n->in[1]));
    TRY(rule_type(p, n->in[2], DT_I32, 2));
    TRY(rule_type(p, n->in[3], DT_F64, 4));
    out[0] = (struct sketch){ .dtype = DT_F64, .shape = shape_1(stats->shape.d[1]) };
    out[1] =
        (struct sketch){ .dtype = DT_F64, .shape = shape_2(stats->shape.d[1], stats->shape.d[2]) };
    out[0].live[0] = out[1].live[0] = stats->live[1];
    out[1].live[1] = stats->live[2];
    FOR_AXES(p, a)
    {
        int8_t on = stats->place.on[a];

        if (on == 1) {
            return rule_misplaced(p, n->in[3], a, "gather the slices of the vocabulary first");
        }
        if (stats->shape.d[0] == 1 && value_of(p, n->in[1])->place.on[a] == 1) {
            return rule_misplaced(p, n->in[1], a,
                                  "the stats of one slice are not those of the whole vocabulary");
        }
        if (on == PARTIAL || on == COPIES) {
            return rule_misplaced(p, n->in[3], a, "it must be whole");
        }
        out[0].place.on[a] = out[1].place.on[a] = on == WHOLE ? WHOLE : (int8_t)(on - 1);
        /* A sequence cut over ranks gives a partial loss. */
        if (on == 3) {
            out[0].place.on[a] = PARTIAL;
        }
    }
    return OK;
}

static void loss_run(const struct call *c)
{
    struct head_args a = head_call(c, c->n->in[0], c->n->in[1], c->n->in[2]);

    a.slices = value_of(c->p, c->n->in[3])->shape.d[0];
    a.stats_in = call_bytes(c, c->n->in[3]);
    a.loss = call_bytes(c, c->n->out[0]);
    a.lse = call_bytes(c, c->n->out[1]);
    c->d->kernels->head_merge(&a, c->team);
}

static val head_dest(struct program *p, val w)
{
    return program_trains(p, w) ? program_grad_into(p, w) : (val){ 0 };
}

/* One slice: stats and loss are the last nodes of the forward pass, and head.learn takes their
 * place. */
static bool loss_fuses(const struct program *p, const struct node *n)
{
    int count = p->node_count;

    return count >= 2 && p->nodes[count - 2].op == OP_HEAD_STATS &&
           p->nodes[count - 1].op == OP_HEAD_LOSS &&
           p->nodes[count - 1].out[0].id == n->out[0].id && program_trains(p, n->in[1]);
}

static void loss_diff(struct program *p, const struct node *n)
{
    struct node back = { .op = OP_HEAD_GRAD, .arg = n->arg };

    memcpy(back.in, n->in, 3 * sizeof(val));
    if (loss_fuses(p, n)) {
        p->node_count -= 2;
        back.op = OP_HEAD_LEARN;
        back.out[1] = n->out[0];
        back.out[2] = n->out[1];
    } else {
        back.in[3] = n->out[1];
    }
    back.in[4] = head_dest(p, n->in[1]);
    program_append(p, &back, "dx");
    if (program_trains(p, n->in[0])) {
        program_add_grad(p, n->in[0], back.out[0]);
    }
}

const struct op_def op_head_loss_def = {
    .name = "head.loss",
    .math = "loss = sum of lse - target",
    .rule = loss_rule,
    .diff = loss_diff,
    .run = loss_run,
};

val op_head(struct program *p, val x, val w, val targets, int64_t first, int64_t valid)
{
    struct node stats = { .op = OP_HEAD_STATS,
                          .in = { x, w, targets },
                          .arg.head = { first, valid } };
    struct node loss = { .op = OP_HEAD_LOSS,
                         .in = { x, w, targets },
                         .arg.head = { first, valid } };

    program_append(p, &stats, "stats");
    loss.in[3] = stats.out[0];
    if (p->failed == OK && p->mesh->size[AXIS_TP] > 1 && value_of(p, w)->place.on[AXIS_TP] == 1) {
        loss.in[3] = op_gather(p, AXES_TP, 0, false, stats.out[0]);
    }
    program_append(p, &loss, "loss");
    return loss.out[0];
}

/* ---- derivative: dx, and dw is added ---- */

static status grad_places(const struct program *p, const struct node *n, struct sketch *dx)
{
    const struct value *x = value_of(p, n->in[0]), *w = value_of(p, n->in[1]);

    TRY(head_inputs(p, n->in[0], n->in[1]));
    TRY(rule_type(p, n->in[2], DT_I32, 2));
    sketch_like(p, n->in[0], dx);
    dx->place = place_gradient(x->place);
    if (n->in[4].id != 0) {
        const struct value *dest = value_of(p, n->in[4]);
        struct place want = place_gradient(w->place);

        TRY(rule_type(p, n->in[4], p->sum, 2));
        FOR_AXES(p, a)
        {
            if (dest->place.on[a] != want.on[a]) {
                return fail(ERR_PLAN, "over %s the gradient of %s is %s, but %s is %s",
                            axis_name((enum axis)a), w->name, place_word(want.on[a]), dest->name,
                            place_word(dest->place.on[a]));
            }
        }
    }
    return OK;
}

static void backward_run(const struct call *c, struct head_args *a, bool learn)
{
    int64_t steps;

    a->dx = call_bytes(c, c->n->out[0]);
    a->dw = call_bytes(c, c->n->in[4]);
    steps = c->d->kernels->head_steps(a);
    for (int64_t s = 0; s < steps; s++) {
        c->d->kernels->head_backward(a, learn, s, c->team);
        if (s + 1 < steps) {
            call_barrier(c);
        }
    }
}

static status grad_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *lse = value_of(p, n->in[3]), *x = value_of(p, n->in[0]);

    TRY(rule_type(p, n->in[3], DT_F64, 2));
    FOR_AXES(p, a)
    {
        int8_t on = x->place.on[a];

        if (lse->place.on[a] != (place_is_split(on) ? on : WHOLE)) {
            return rule_misplaced(p, n->in[3], a, "it must go with the rows");
        }
    }
    return grad_places(p, n, out);
}

static void grad_run(const struct call *c)
{
    struct head_args a = head_call(c, c->n->in[0], c->n->in[1], c->n->in[2]);

    a.lse_in = call_bytes(c, c->n->in[3]);
    backward_run(c, &a, false);
}

static int64_t grad_flops(const struct program *p, const struct node *n)
{
    return 3 * product_flops(p, n);
}

const struct op_def op_head_grad_def = {
    .name = "head.grad",
    .math = "dx = (softmax - target) w, dw += ...",
    .adds = 1 << 4,
    .rule = grad_rule,
    .flops = grad_flops,
    .scratch = head_scratch,
    .run = grad_run,
};

/* ---- learn: dx, loss, lse in one pass ---- */

static status learn_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]);

    TRY(grad_places(p, n, &out[0]));
    out[1] = (struct sketch){ .dtype = DT_F64, .shape = shape_1(x->shape.d[0]), .place = x->place };
    out[2] = (struct sketch){ .dtype = DT_F64,
                              .shape = shape_2(x->shape.d[0], x->shape.d[1]),
                              .place = x->place };
    FOR_AXES(p, a)
    {
        if (value_of(p, n->in[1])->place.on[a] == 1) {
            return rule_misplaced(p, n->in[1], a, "the fused head needs the whole vocabulary");
        }
        if (x->place.on[a] == 2) {
            out[1].place.on[a] = PARTIAL;
        }
    }
    return OK;
}

static void learn_run(const struct call *c)
{
    struct head_args a = head_call(c, c->n->in[0], c->n->in[1], c->n->in[2]);

    a.loss = call_bytes(c, c->n->out[1]);
    a.lse = call_bytes(c, c->n->out[2]);
    backward_run(c, &a, true);
}

const struct op_def op_head_learn_def = {
    .name = "head.learn",
    .math = "loss, and dx = (softmax - target) w, dw += ...",
    .adds = 1 << 4,
    .rule = learn_rule,
    .flops = grad_flops,
    .scratch = head_scratch,
    .run = learn_run,
};

/* ---- logits [B, S, valid]: for probes and generation ---- */

static status logits_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *x = value_of(p, n->in[0]);

    TRY(head_inputs(p, n->in[0], n->in[1]));
    sketch_like(p, n->in[0], out);
    out->dtype = p->sum;
    out->shape = shape_3(x->shape.d[0], x->shape.d[1], n->arg.head.valid);
    FOR_AXES(p, a)
    {
        if (value_of(p, n->in[1])->place.on[a] == 1) {
            out->place.on[a] = 3;
        }
    }
    return OK;
}

static void logits_run(const struct call *c)
{
    struct head_args a = head_call(c, c->n->in[0], c->n->in[1], (val){ 0 });

    a.logits = call_bytes(c, c->n->out[0]);
    a.ldl = a.valid;
    c->d->kernels->head_logits(&a, c->team);
}

const struct op_def op_head_logits_def = {
    .name = "head.logits",
    .math = "y = x w^T",
    .rule = logits_rule,
    .flops = product_flops,
    .scratch = head_scratch,
    .run = logits_run,
};

val op_head_logits(struct program *p, val x, val w, int64_t valid)
{
    struct node n = { .op = OP_HEAD_LOGITS, .in = { x, w }, .arg.head = { .valid = valid } };

    program_append(p, &n, "logits");
    return n.out[0];
}
