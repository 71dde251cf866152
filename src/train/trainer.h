/*
 * Inside the room: one rank's training as a struct, and the verbs that the files here share.
 *
 * Lifetimes: `run` holds everything described here until train_run ends; tensor memory is the
 * device's, taken once.
 */
#ifndef ROUX_TRAIN_TRAINER_H
#define ROUX_TRAIN_TRAINER_H

#include "checkpoint/checkpoint.h"
#include "data/batch.h"
#include "model/model.h"
#include "program/device.h"
#include "program/watch.h"
#include "train/train.h"

/* The programs of a recipe and the memory they share; also built for ranks that this
 * process is not. */
struct programs {
    struct model model;
    struct program learn, update, judge, cast;
    struct residents residents;
    struct memory_plan learn_plan, update_plan, judge_plan, cast_plan;
    struct model_inputs learn_in, judge_in;
    val loss, judge_loss;       /* [B] F64 */
    val scalars, judge_scalars; /* I64 [SCALAR_WORDS] */
    val update_scalars, hyper, clip;
};

MUST_USE status programs_make(struct programs *p, struct arena *a, const struct train_spec *t,
                              const struct mesh *mesh, const struct kernels *kernels, int threads);
void programs_release(struct programs *p);

/* Counters that a checkpoint brings back. */
struct progress {
    int64_t step;    /* optimizer steps, skipped ones included */
    int64_t updates; /* AdamW's own counter: steps that changed weights */
    int64_t skipped, skipped_in_a_row;
    int64_t rows_consumed; /* over all ranks */
    int64_t tokens;        /* positions trained, over all ranks */
};

struct trainer {
    const struct train_spec *spec;
    struct arena run;
    struct comm *world;
    struct mesh mesh;
    const struct kernels *kernels;
    int threads;
    struct programs programs;
    struct device device;
    struct corpus train_corpus, val_corpus;
    struct sampler train, val;
    bool validates;
    int64_t val_batches, val_every; /* micro-batches of a validation; steps between validations */
    struct batch batch, val_batch;
    struct progress at;
    const char *log_dir; /* rank 0's choice, on every rank */
    int log_file;        /* descriptor of this rank's log file; -1: none */
    int locks[2];        /* of log_dir and checkpoint_dir; -1: none */
    /* a stop_<k> that this run resumed: removed after the next publication */
    const char *stop_folder;
    struct metrics *metrics;
    struct watch watch;       /* of learn and update; zeroed where nobody asked */
    struct run_options looks; /* says so to the runner */
    int64_t watched_from;     /* the step behind which the times begin */
    bool warming;             /* the first step is under way, whose times do not count */
    bool alone;               /* a batch could not be made here, and the other ranks do not know */
    double start_seconds;
};

/* ---- train.c ---- */

/* Everything up to the first step: mesh, data, programs, memory, folders, and weights (resumed,
 * pretrained or initial). Collective over world. trainer_close takes a trainer that failed to
 * open, too. */
MUST_USE status trainer_open(struct trainer *t, const struct train_spec *spec, struct comm *world);
void trainer_close(struct trainer *t);

/* ---- targets.c: where a run writes ---- */

/* Tries before the first step what would fail at its end: folders that take files, a name that the
 * export may have, room for a checkpoint and the export. Then keeps other runs out of the log and
 * checkpoint folders as long as this one lasts, on file systems that know locks. Rank 0 only. */
MUST_USE status targets_open(struct trainer *t);
void targets_close(struct trainer *t);

/* ---- step.c ---- */

struct step_report {
    double loss, grad_norm, lr, next_lr;
    int64_t targets;    /* valid ones, all ranks */
    bool skipped, stop; /* stop: some rank was asked to */
    double seconds;
};

/* One optimizer step: all micro-batches, then update. Collective over world. */
MUST_USE status trainer_step(struct trainer *t, struct step_report *out);

/* Its two halves. After the first, gradients hold sums over the step's tokens; `bad_rows`: a
 * row's loss was not finite. */
MUST_USE status trainer_learn(struct trainer *t, bool *bad_rows);
MUST_USE status trainer_update(struct trainer *t, bool bad_rows, struct step_report *out);

/* Mean loss over the validation batches. Collective over world. */
MUST_USE status trainer_validate(struct trainer *t, double *loss, int64_t *targets);

/* ---- save.c ---- */

/* A sharded checkpoint called `name` below <checkpoint_dir>/sharded. Collective over world. */
MUST_USE status trainer_save(struct trainer *t, const char *name);

/* A Hugging Face folder. Collective over world. */
MUST_USE status trainer_export(struct trainer *t, const char *folder);

/* What of a trainer is written: its buffers, with the step; `state` is left open. */
void trainer_content(const struct trainer *t, struct arena *a, struct checkpoint_content *c);

/* ---- resume.c ---- */

/* Restores what `resume_from`, a stop_<k>, or resume_if_exists asks for; `resumed` says whether
 * anything was. Collective. */
MUST_USE status trainer_resume(struct trainer *t, bool *resumed);

/* ---- metrics.c: rank 0's console, and the files that say how it went; on other ranks nothing ---- */

MUST_USE status metrics_open(struct trainer *t, const struct train_options *o);
void metrics_close(struct trainer *t);
void metrics_step(struct trainer *t, const struct step_report *r);
void metrics_validation(struct trainer *t, double loss, int64_t targets, double seconds);
void metrics_saved(struct trainer *t); /* loss.svg is drawn anew, as after a validation */
void metrics_end(struct trainer *t);   /* and shown to whoever sits at a terminal */
void metrics_event(struct trainer *t, const char *format, ...)
    FORMAT(2, 3); /* a line that must not tear the progress line */

/*
 * The reference's TFLOPS a device (facts: TFLOPS/GPU; dense models), from sequences a step over all
 * ranks, seconds and ranks:
 *   12 Sq L n h^2 ((1 + kv/a + L/h) q/h + f/h + V / (2 n h)) / (seconds 1e12 W),  q = floor(h / a) a
 */
double metrics_tflops(const struct model_spec *s, int64_t sequences, int64_t length, double seconds,
                      int ranks);

/* ---- signals.c ---- */

int train_stop_signal(void); /* the signal that asked for a stop; 0 if none did */

#endif
