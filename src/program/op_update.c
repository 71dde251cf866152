/*
 * clip, cast and adamw: what `update` does once a step with sums that are complete on every rank.
 *
 * Gradients are sums over tokens. clip turns the reduced words into the mean loss, the norm of the
 * mean gradient, and the factor that each gradient is multiplied by: min(1, clip / (norm + 1e-6)) /
 * count. A step without a valid target, or with a loss or norm that is not finite, is skipped:
 * weights and moments stay as they are.
 */
#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "program/op.h"

static status clip_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    TRY(rule_type(p, n->in[0], DT_I64, 1));
    TRY(rule_type(p, n->in[1], DT_F64, 1));
    *out = (struct sketch){ .dtype = DT_F64, .shape = shape_1(CLIP_WORDS) };
    return OK;
}

static void clip_run(const struct call *c)
{
    const int64_t *words = call_bytes(c, c->n->in[0]);
    const double *hyper = call_bytes(c, c->n->in[1]);
    double *result = call_bytes(c, c->n->out[0]);
    double count = (double)words[SCALAR_COUNT], loss, norm;

    if (c->team.thread != 0) {
        return;
    }
    loss = exact_value((const struct exact *)(words + SCALAR_LOSS));
    norm = sqrt(exact_value((const struct exact *)(words + SCALAR_NORM)));
    if (count > 0) {
        loss /= count;
        norm /= count;
    }
    result[CLIP_LOSS] = loss;
    result[CLIP_NORM] = norm;
    result[CLIP_SKIP] = count > 0 && isfinite(loss) && isfinite(norm) ? 0 : 1;
    result[CLIP_SCALE] = result[CLIP_SKIP] != 0 ? 0 : 1 / count;
    if (result[CLIP_SKIP] == 0 && hyper[HYPER_CLIP] > 0) {
        result[CLIP_SCALE] *= fmin(1, hyper[HYPER_CLIP] / (norm + 1e-6));
    }
}

const struct op_def op_clip_def = {
    .name = "clip",
    .math = "scale = min(1, clip / (norm + 1e-6)) / count",
    .rule = clip_rule,
    .run = clip_run,
};

val op_clip(struct program *p, val scalars, val hyper)
{
    struct node n = { .op = OP_CLIP, .in = { scalars, hyper } };

    program_append(p, &n, "clip");
    return n.out[0];
}

/* ---- cast: a copy of the master weights in the type that is computed in ---- */

static status copy_rule(const struct program *p, val w, val copy)
{
    TRY(rule_type(p, w, p->sum, 1));
    TRY(rule_type(p, copy, p->real, 1));
    TRY(rule_same_place(p, w, copy));
    if (!shape_same(&value_of(p, w)->shape, &value_of(p, copy)->shape)) {
        return fail(ERR_PLAN, "%s and %s differ in length", value_of(p, w)->name,
                    value_of(p, copy)->name);
    }
    return OK;
}

static status cast_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    (void)out;
    return copy_rule(p, n->in[0], n->in[1]);
}

static void cast_run(const struct call *c)
{
    struct cast_args a = { .w = call_bytes(c, c->n->in[0]),
                           .copy = call_bytes(c, c->n->in[1]),
                           .count = value_of(c->p, c->n->in[0])->shape.d[0] };

    c->d->kernels->cast(&a, c->team);
}

const struct op_def op_cast_def = {
    .name = "cast",
    .math = "copy = w",
    .adds = 2,
    .rule = cast_rule,
    .run = cast_run,
};

void op_cast(struct program *p, val w, val copy)
{
    struct node n = { .op = OP_CAST, .in = { w, copy } };

    program_append(p, &n, "cast");
}

/* ---- adamw, in place on a flat buffer; the gradient is zeroed for the next step ---- */

static status adamw_rule(const struct program *p, const struct node *n, struct sketch *out)
{
    const struct value *w = value_of(p, n->in[0]);

    (void)out;
    for (int i = 0; i < 4; i++) {
        TRY(rule_type(p, n->in[i], p->sum, 1));
        TRY(rule_same_place(p, n->in[0], n->in[i]));
        if (!shape_same(&w->shape, &value_of(p, n->in[i])->shape)) {
            return fail(ERR_PLAN, "%s and %s differ in length", w->name,
                        value_of(p, n->in[i])->name);
        }
    }
    TRY(rule_type(p, n->in[4], DT_F64, 1));
    TRY(rule_type(p, n->in[5], DT_F64, 1));
    return n->in[6].id == 0 ? OK : copy_rule(p, n->in[0], n->in[6]);
}

static void adamw_run(const struct call *c)
{
    const double *clip = call_bytes(c, c->n->in[4]), *hyper = call_bytes(c, c->n->in[5]);
    size_t width = dtype_bytes(c->p->sum);
    int64_t from, to;
    struct adamw_args a = { .w = call_bytes(c, c->n->in[0]),
                            .g = call_bytes(c, c->n->in[1]),
                            .m = call_bytes(c, c->n->in[2]),
                            .v = call_bytes(c, c->n->in[3]),
                            .copy = call_bytes(c, c->n->in[6]),
                            .count = value_of(c->p, c->n->in[0])->shape.d[0],
                            .lr = hyper[HYPER_LR],
                            .decay = hyper[HYPER_DECAY],
                            .beta1 = hyper[HYPER_BETA1],
                            .beta2 = hyper[HYPER_BETA2],
                            .eps = hyper[HYPER_EPS],
                            .scale = clip[CLIP_SCALE] };

    if (clip[CLIP_SKIP] == 0) {
        a.correction1 = 1 - pow(a.beta1, hyper[HYPER_STEP]);
        a.correction2 = 1 - pow(a.beta2, hyper[HYPER_STEP]);
        c->d->kernels->adamw(&a, c->team);
        return;
    }
    team_share(c->team, a.count, &from, &to);
    memset((char *)a.g + (size_t)from * width, 0, (size_t)(to - from) * width);
}

const struct op_def op_adamw_def = {
    .name = "adamw",
    .math = "w, m, v from g; g = 0",
    .adds = 15 | 1 << 6,
    .rule = adamw_rule,
    .run = adamw_run,
};

void op_adamw(struct program *p, val w, val grad, val m, val v, val clip, val hyper, val copy)
{
    struct node n = { .op = OP_ADAMW, .in = { w, grad, m, v, clip, hyper, copy } };

    program_append(p, &n, "adamw");
}
