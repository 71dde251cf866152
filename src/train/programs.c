/*
 * learn: forward and backward of a micro-batch, losses and gradients added up.
 * update: one message of exact scalars, clip, AdamW. judge: forward and loss of a validation batch.
 * cast: weights from their masters, where these are of another type.
 */
#include "train/trainer.h"

static val scalars_of(struct program *p, const char *name)
{
    return program_state(p, name, DT_I64, shape_1(SCALAR_WORDS), (struct place){ { 0 } });
}

static status learn_make(struct programs *s, struct arena *a, const struct train_spec *t,
                         const struct mesh *mesh)
{
    unsigned flags =
        MODEL_TRAINS | (t->recompute ? MODEL_RECOMPUTE : 0u) | (t->regather ? MODEL_REGATHER : 0u);
    struct program *p = &s->learn;

    program_init(p, "learn", a, mesh, t->real);
    p->prefetch = t->prefetch;
    s->learn_in = model_inputs(p, t->B, t->S);
    s->scalars = scalars_of(p, "scalars");
    s->loss = model_loss(p, &s->model, &s->learn_in, flags);
    TRY(program_backward(p, s->loss));
    op_exact_sum(p, s->loss, s->scalars, SCALAR_LOSS);
    program_keep(p, s->loss);
    return OK;
}

/* What AdamW changes: the weights themselves, or masters of which these are copies. */
static val master_of(struct program *p, struct arena *a, const struct value *flat, const char *name,
                     val *copy)
{
    val weight = program_weight(p, flat->name, flat->dtype, flat->shape, flat->place, false);

    if (p->real == p->sum) {
        return weight;
    }
    *copy = weight;
    return program_state(p, arena_format(a, "master.%s", name), p->sum, flat->shape, flat->place);
}

static void update_segment(struct programs *s, struct arena *a, const struct weights *w, int i)
{
    struct program *p = &s->update, *learn = &s->learn;
    const char *name = w->segments[i].name;
    val there = program_find(learn, arena_format(a, "weight.%s", name));
    const struct value *flat = program_value(learn, there);
    val copy = { 0 }, master = master_of(p, a, flat, name, &copy);
    val grad = program_grad_state(p, arena_format(a, "grad.%s", flat->name), p->sum, flat->shape,
                                  flat->place);
    val m = program_state(p, arena_format(a, "moment1.%s", name), p->sum, flat->shape, flat->place);
    val v = program_state(p, arena_format(a, "moment2.%s", name), p->sum, flat->shape, flat->place);

    op_adamw(p, master, grad, m, v, s->clip, s->hyper, copy);
}

static void update_make(struct programs *s, struct arena *a, const struct train_spec *t,
                        const struct mesh *mesh)
{
    const struct weights *w = s->model.weights;
    struct program *p = &s->update;

    program_init(p, "update", a, mesh, t->real);
    s->update_scalars = scalars_of(p, "scalars");
    s->hyper = program_input(p, "hyper", DT_F64, shape_1(HYPER_WORDS), (struct place){ { 0 } });
    program_segment(p, "norm", 0);
    for (int i = 0; i < w->count; i++) {
        const struct value *flat = program_value(
            &s->learn, program_find(&s->learn, arena_format(a, "weight.%s", w->segments[i].name)));
        val grad = program_grad_state(p, arena_format(a, "grad.%s", flat->name), p->sum,
                                      flat->shape, flat->place);

        op_norm(p, grad, s->update_scalars, w->norm_ranges[i], w->norm_counts[i]);
    }
    op_reduce(p, s->update_scalars);
    s->clip = op_clip(p, s->update_scalars, s->hyper);
    program_keep(p, s->clip);
    program_segment(p, "adamw", 0);
    for (int i = 0; i < w->count; i++) {
        update_segment(s, a, w, i);
    }
}

static void judge_make(struct programs *s, struct arena *a, const struct train_spec *t,
                       const struct mesh *mesh)
{
    struct program *p = &s->judge;

    program_init(p, "judge", a, mesh, t->real);
    p->prefetch = t->prefetch;
    s->judge_in = model_inputs(p, t->val_B, t->S);
    s->judge_scalars = scalars_of(p, "judge.scalars");
    s->judge_loss = model_loss(p, &s->model, &s->judge_in, 0);
    op_exact_sum(p, s->judge_loss, s->judge_scalars, SCALAR_LOSS);
    program_keep(p, s->judge_loss);
}

/* Where weights are copies: what brings them up to date after the masters were made or loaded. */
static void cast_make(struct programs *s, struct arena *a, const struct train_spec *t,
                      const struct mesh *mesh)
{
    const struct weights *w = s->model.weights;
    struct program *p = &s->cast;

    program_init(p, "cast", a, mesh, t->real);
    program_segment(p, "cast", 0);
    for (int i = 0; i < w->count && p->real != p->sum; i++) {
        const char *name = w->segments[i].name;
        const struct value *flat =
            program_value(&s->learn, program_find(&s->learn, arena_format(a, "weight.%s", name)));
        val copy = { 0 }, master = master_of(p, a, flat, name, &copy);

        op_cast(p, master, copy);
    }
}

status programs_make(struct programs *s, struct arena *a, const struct train_spec *t,
                     const struct mesh *mesh, const struct kernels *kernels, int threads)
{
    TRY(model_make(&s->model, a, &t->model, mesh));
    residents_init(&s->residents, a);
    TRY(learn_make(s, a, t, mesh));
    update_make(s, a, t, mesh);
    cast_make(s, a, t, mesh);
    judge_make(s, a, t, mesh);
    TRY(program_plan(&s->learn, &s->residents, kernels, threads, &s->learn_plan));
    TRY(program_plan(&s->update, &s->residents, kernels, threads, &s->update_plan));
    TRY(program_plan(&s->cast, &s->residents, kernels, threads, &s->cast_plan));
    return program_plan(&s->judge, &s->residents, kernels, threads, &s->judge_plan);
}

void programs_release(struct programs *p)
{
    residents_release(&p->residents);
}
