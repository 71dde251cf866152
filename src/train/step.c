/* The step: micro-batches through learn, then update; and validation. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/exact.h"
#include "base/log.h"
#include "train/trainer.h"

static void feed(struct trainer *t, const struct program *p, const struct model_inputs *in,
                 const struct batch *b)
{
    int64_t count = b->B * b->S;

    device_write(&t->device, p, in->ids, 0, count, b->ids);
    device_write(&t->device, p, in->targets, 0, count, b->targets);
    device_write(&t->device, p, in->positions, 0, count, b->positions);
    device_write(&t->device, p, in->starts, 0, count, b->starts);
}

static void add_word(struct trainer *t, const struct program *p, val scalars, int word,
                     int64_t more)
{
    int64_t now;

    device_read(&t->device, p, scalars, word, 1, &now);
    now += more;
    device_write(&t->device, p, scalars, word, 1, &now);
}

/* ---- what is not finite ---- */

/* Names the rows of this micro-batch whose loss is not finite; true if there was one. */
static bool name_bad_rows(const struct trainer *t, const struct batch *b)
{
    bool found = false;

    for (int64_t i = 0; i < b->B; i++) {
        double loss;
        struct row row;
        struct arena a = { 0 };

        device_read(&t->device, &t->programs.learn, t->programs.loss, i, 1, &loss);
        if (isfinite(loss)) {
            continue;
        }
        found = true;
        if (corpus_row(&t->train_corpus, b->rows[i], t->spec->model.vocab, &a, &row) == OK) {
            log_warning("row %lld (%s:%lld): its loss is not finite", (long long)b->rows[i],
                        row.file, (long long)row.line);
        }
        arena_release(&a);
    }
    return found;
}

/* The weights are as they were, so running the last micro-batch again finds the first bad value. */
static status name_bad_node(struct trainer *t)
{
    const char *bad = NULL;
    struct run_options o = { .test_finite = true, .bad_value = &bad };

    TRY(program_run(&t->programs.learn, &t->device, &o));
    for (int i = 1; i < t->programs.learn.value_count; i++) {
        if (t->programs.learn.values[i].role == ROLE_GRAD) {
            device_fill_zero(&t->device, &t->programs.learn, (val){ i });
        }
    }
    if (bad != NULL) {
        log_warning("the first value that is not finite is %s", bad);
    }
    return OK;
}

/* ---- learn ---- */

/* A batch of this rank's own: what is wrong with it no other rank knows. */
static status take_batch(struct trainer *t, struct sampler *from, int64_t m, struct batch *out)
{
    status s = sampler_take(from, m, out);

    t->alone = s != OK && t->world->size > 1;
    return s;
}

status trainer_learn(struct trainer *t, bool *bad_rows)
{
    const struct programs *p = &t->programs;
    int64_t m = sampler_at(&t->train, t->at.rows_consumed);

    *bad_rows = false;
    for (int64_t i = 0; i < t->spec->accumulate; i++) {
        TRY(take_batch(t, &t->train, m + i, &t->batch));
        feed(t, &p->learn, &p->learn_in, &t->batch);
        TRY(program_run(&p->learn, &t->device, &t->looks));
        *bad_rows = name_bad_rows(t, &t->batch) || *bad_rows;
        if (t->mesh.at[AXIS_TP] == 0) {
            add_word(t, &p->learn, p->scalars, SCALAR_COUNT, t->batch.valid);
        }
    }
    t->at.rows_consumed = sampler_rows_consumed(&t->train, m + t->spec->accumulate);
    return OK;
}

/* ---- update ---- */

static void write_hyper(struct trainer *t, double lr)
{
    const struct train_spec *s = t->spec;
    double hyper[HYPER_WORDS] = { [HYPER_LR] = lr,
                                  [HYPER_DECAY] = s->decay,
                                  [HYPER_BETA1] = s->beta1,
                                  [HYPER_BETA2] = s->beta2,
                                  [HYPER_EPS] = s->eps,
                                  [HYPER_STEP] = (double)(t->at.updates + 1),
                                  [HYPER_CLIP] = s->grad_clip };

    device_write(&t->device, &t->programs.update, t->programs.hyper, 0, HYPER_WORDS, hyper);
}

static void read_back(struct trainer *t, struct step_report *out)
{
    const struct programs *p = &t->programs;
    double clip[CLIP_WORDS];
    int64_t stop;

    device_read(&t->device, &p->update, p->clip, 0, CLIP_WORDS, clip);
    device_read(&t->device, &p->update, p->update_scalars, SCALAR_COUNT, 1, &out->targets);
    device_read(&t->device, &p->update, p->update_scalars, SCALAR_STOP, 1, &stop);
    device_fill_zero(&t->device, &p->update, p->update_scalars);
    out->loss = clip[CLIP_LOSS];
    out->grad_norm = clip[CLIP_NORM];
    out->skipped = clip[CLIP_SKIP] != 0;
    out->stop = stop != 0;
}

static status count_step(struct trainer *t, const struct step_report *r, bool bad_rows)
{
    t->at.step++;
    t->at.tokens += t->spec->accumulate * t->spec->B * t->spec->S * mesh_data_size(&t->mesh);
    if (!r->skipped) {
        t->at.updates++;
        t->at.skipped_in_a_row = 0;
        return OK;
    }
    t->at.skipped++;
    t->at.skipped_in_a_row++;
    if (r->targets == 0) {
        log_warning("step %lld has no valid target: it changes nothing", (long long)t->at.step);
        return OK;
    }
    log_warning("step %lld is skipped: loss %g, gradient norm %g", (long long)t->at.step, r->loss,
                r->grad_norm);
    return bad_rows ? OK : name_bad_node(t);
}

status trainer_update(struct trainer *t, bool bad_rows, struct step_report *out)
{
    *out = (struct step_report){ .lr = schedule_rate(&t->spec->schedule, t->at.step) };
    if (train_stop_signal() != 0) {
        add_word(t, &t->programs.learn, t->programs.scalars, SCALAR_STOP, 1);
    }
    write_hyper(t, out->lr);
    TRY(program_run(&t->programs.update, &t->device, &t->looks));
    read_back(t, out);
    TRY(count_step(t, out, bad_rows));
    out->next_lr = schedule_rate(&t->spec->schedule, t->at.step);
    return OK;
}

status trainer_step(struct trainer *t, struct step_report *out)
{
    double start = clock_seconds();
    bool bad_rows;

    TRY(trainer_learn(t, &bad_rows));
    TRY(trainer_update(t, bad_rows, out));
    out->seconds = clock_seconds() - start;
    return OK;
}

/* ---- validation ---- */

static status reduce_words(struct trainer *t, int64_t *words)
{
    struct collective what = {
        .kind = COMM_ALL_REDUCE, .dtype = DT_I64, .in = words, .out = words, .n = SCALAR_WORDS
    };

    return comm_run(t->world, &what);
}

status trainer_validate(struct trainer *t, double *loss, int64_t *targets)
{
    const struct programs *p = &t->programs;
    int64_t words[SCALAR_WORDS];

    device_fill_zero(&t->device, &p->judge, p->judge_scalars);
    for (int64_t i = 0; i < t->val_batches; i++) {
        TRY(take_batch(t, &t->val, i, &t->val_batch));
        feed(t, &p->judge, &p->judge_in, &t->val_batch);
        TRY(program_run(&p->judge, &t->device, NULL));
        if (t->mesh.at[AXIS_TP] == 0) {
            add_word(t, &p->judge, p->judge_scalars, SCALAR_COUNT, t->val_batch.valid);
        }
    }
    device_read(&t->device, &p->judge, p->judge_scalars, 0, SCALAR_WORDS, words);
    TRY(reduce_words(t, words));
    *targets = words[SCALAR_COUNT];
    *loss = *targets == 0
                ? 0
                : exact_value((const struct exact *)(words + SCALAR_LOSS)) / (double)*targets;
    return OK;
}
