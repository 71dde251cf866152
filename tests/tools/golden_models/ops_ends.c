/* Operations at the ends of a model: embedding, and cross-entropy within the head. */
#include "tools/golden_models/ops.h"

status op_embedding_case(struct op_case *o)
{
    int64_t T = 0, V = 0, D = 0;
    struct embed_args a = { .B = 1, .pad = (int64_t)op_number_or(o, "pad_token_id", -1) };
    void *w, *dy;
    int32_t *ids;

    TRY(op_read(o, "w", &w, 2, &V, &D));
    TRY(op_read(o, "d_y", &dy, 2, &T, &D));
    TRY(op_integers(o, "ids", T, &ids));
    a.ids = ids, a.w = w, a.dy = dy;
    a.S = T, a.D = D, a.rows = V;
    a.y = op_out(o, T * D);
    a.dw = op_sum(o, V * D);
    a.scratch = op_scratch(o, o->kernels->embed_scratch(&a, OP_THREADS));
    FOR_TEAM(t)
    {
        o->kernels->embed(&a, t);
    }
    FOR_TEAM(t)
    {
        o->kernels->embed_dw(&a, t);
    }
    TRY(op_expect(o, "y", a.y, T * D));
    return op_expect(o, "d_w", a.dw, V * D);
}

static void put(const struct op_case *o, void *at, int64_t i, double x)
{
    if (o->kernels->real == DT_F64) {
        ((double *)at)[i] = x;
    } else {
        ((float *)at)[i] = (float)x;
    }
}

static double get(const struct op_case *o, const void *at, int64_t i)
{
    return o->kernels->real == DT_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* The whole vocabulary in one slice: loss and derivative in one pass. */
static void head_whole(struct op_case *o, struct head_args *a)
{
    a->scratch = op_scratch(o, o->kernels->head_scratch(a, OP_THREADS));
    for (int64_t step = 0; step < o->kernels->head_steps(a); step++) {
        FOR_TEAM(t)
        {
            o->kernels->head_backward(a, true, step, t);
        }
    }
}

/* Two slices, as two ranks of a split vocabulary have it: statistics, merging, two derivatives
 * that are added. */
static void head_in_slices(struct op_case *o, const struct head_args *whole)
{
    int64_t T = whole->S, V = whole->rows, cut = V / 2;
    double *stats = op_out(o, 2 * T * 3);
    void *total = whole->dx, *part = op_out(o, T * V);
    struct head_args a[2] = { *whole, *whole }, merge = *whole;

    for (int i = 0; i < 2; i++) {
        a[i].first = i == 0 ? 0 : cut;
        a[i].rows = a[i].valid = i == 0 ? cut : V - cut;
        a[i].w = (const char *)whole->w + (size_t)(a[i].first * V) * dtype_bytes(o->kernels->real);
        a[i].stats = stats + i * T * 3;
        a[i].lse_in = whole->lse;
        a[i].dx = i == 0 ? total : part;
        a[i].scratch = op_scratch(o, o->kernels->head_scratch(&a[i], OP_THREADS));
        FOR_TEAM(t)
        {
            o->kernels->head_stats(&a[i], t);
        }
    }
    merge.stats_in = stats;
    merge.slices = 2;
    FOR_TEAM(t)
    {
        o->kernels->head_merge(&merge, t);
    }
    for (int i = 0; i < 2; i++) {
        for (int64_t step = 0; step < o->kernels->head_steps(&a[i]); step++) {
            FOR_TEAM(t)
            {
                o->kernels->head_backward(&a[i], false, step, t);
            }
        }
    }
    for (int64_t i = 0; i < T * V; i++) {
        put(o, total, i, get(o, total, i) + get(o, part, i));
    }
}

/* Our cross-entropy is part of the head, x w^T: with the identity as w its logits are x. */
static status see_cross_entropy(struct op_case *o, bool sliced)
{
    int64_t T = 0, V = 0, one = 1, count = 0;
    void *logits, *identity;
    int32_t *targets;
    double *dloss, mean;
    struct head_args a = { .B = 1, .slices = 1 };

    TRY(op_read(o, "logits", &logits, 2, &T, &V));
    TRY(op_integers(o, "target", T, &targets));
    TRY(op_doubles(o, "d_loss", one, &dloss));
    identity = op_sum(o, V * V);
    for (int64_t v = 0; v < V; v++) {
        put(o, identity, v * V + v, 1);
    }
    for (int64_t t = 0; t < T; t++) {
        targets[t] = targets[t] == -100 ? -1 : targets[t];
        count += targets[t] >= 0;
    }
    a.x = logits, a.w = identity, a.targets = targets;
    a.S = T, a.D = a.rows = a.valid = V;
    a.lse = op_out(o, T);
    a.loss = op_out(o, 1);
    a.dx = op_out(o, T * V);
    a.stats = op_out(o, T * 3);
    sliced ? head_in_slices(o, &a) : head_whole(o, &a);
    mean = count > 0 ? *a.loss / (double)count : *a.loss;
    for (int64_t i = 0; i < T * V; i++) {
        put(o, a.dx, i, get(o, a.dx, i) * *dloss / (double)(count > 0 ? count : 1));
    }
    /* The loss is a double for every kernel; here it is compared as a real. */
    put(o, identity, 0, mean);
    TRY(op_expect(o, "loss", identity, 1));
    return op_expect(o, "d_logits", a.dx, T * V);
}

status op_cross_entropy_case(struct op_case *o)
{
    TRY(see_cross_entropy(o, false));
    return see_cross_entropy(o, true);
}
