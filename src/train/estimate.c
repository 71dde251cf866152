#include "train/estimate.h"

#include <math.h>

#include "train/trainer.h"

static const char *const names[ESTIMATE_KINDS] = { "products", "head",   "attention",
                                                   "rows",     "update", "barriers" };

const char *estimate_kind_name(enum estimate_kind kind)
{
    return names[kind];
}

static enum estimate_kind kind_of(enum op op)
{
    switch (op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
        return ESTIMATE_PRODUCTS;
    case OP_HEAD_STATS:
    case OP_HEAD_LOSS:
    case OP_HEAD_GRAD:
    case OP_HEAD_LEARN:
    case OP_HEAD_LOGITS:
        return ESTIMATE_HEAD;
    case OP_ATTENTION:
    case OP_ATTENTION_D:
        return ESTIMATE_ATTENTION;
    case OP_NORM:
    case OP_REDUCE:
    case OP_CLIP:
    case OP_ADAMW:
    case OP_CAST:
        return ESTIMATE_UPDATE;
    default:
        return ESTIMATE_ROWS;
    }
}

/* Squared, in logarithms. */
static double distance(const double *a, const double *b)
{
    double sum = 0;

    for (int i = 0; i < 3; i++) {
        double d = log(a[i] / b[i]);

        sum += d * d;
    }
    return sum;
}

double estimate_node(const struct calibration *c, enum op op, const struct node_work *w)
{
    double work = w->flops > 0 ? w->flops : w->bytes, sum = 0, weights = 0;

    if (work <= 0) {
        return 0;
    }
    for (int i = 0; i < c->count; i++) {
        const struct calibration_point *p = &c->points[i];

        if (p->op == op) {
            double near = distance(p->size, w->size) + 1e-4, weight = 1 / (near * near);

            sum += weight * log(p->work / p->seconds);
            weights += weight;
        }
    }
    if (weights == 0) {
        return work / (w->flops > 0 ? c->peak / 2 : c->memory);
    }
    return work / exp(sum / weights);
}

void estimate_add(struct estimate *e, const struct calibration *c, const struct program *p,
                  double times)
{
    for (int i = 0; i < p->node_count; i++) {
        struct node_work w = program_node_work(p, i);
        double seconds = w.wire > 0 ? 0 : times * estimate_node(c, p->nodes[i].op, &w);
        double meeting = p->nodes[i].barrier ? times * c->barrier_seconds : 0;

        e->by_kind[kind_of(p->nodes[i].op)] += seconds;
        e->by_kind[ESTIMATE_BARRIERS] += meeting;
        e->seconds += seconds + meeting;
    }
}

status train_estimate(const struct train_spec *t, int rank, const struct calibration *c,
                      struct estimate *out)
{
    struct arena a = { 0 };
    struct mesh mesh;
    struct programs s = { 0 };
    const struct kernels *kernels;
    status st;

    *out = (struct estimate){ 0 };
    TRY_OR(release, st, kernels_find(t->real, &kernels));
    TRY_OR(release, st, mesh_imagine(&mesh, rank, t->size));
    TRY_OR(release, st, programs_make(&s, &a, t, &mesh, kernels, c->key.threads));
    estimate_add(out, c, &s.learn, (double)t->accumulate);
    estimate_add(out, c, &s.update, 1);
release:
    programs_release(&s);
    arena_release(&a);
    return st;
}
