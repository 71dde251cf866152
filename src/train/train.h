/*
 * Training: from a plain spec to a trained model.
 *
 *   train_spec_make    the last place that reads recipe fields
 *   train_plan         what one rank of the job will hold and compute, without running anything
 *   train_run          one rank of the job: set up, resume, step, validate, save, export
 */
#ifndef ROUX_TRAIN_TRAIN_H
#define ROUX_TRAIN_TRAIN_H

#include <stdio.h>
#include "base/arena.h"
#include "comm/mesh.h"
#include "model/spec.h"
#include "program/program.h"
#include "recipe/recipe.h"
#include "train/schedule.h"

/* A whole number of batches or a share of all; neither: off. */
struct batch_amount {
    bool is_share;
    double value;
};

struct train_spec {
    const char *name, *recipe_text; /* the resolved recipe, kept in checkpoints */
    struct model_spec model;
    const char *hf_folder; /* NULL: from scratch */
    bool pretrained;       /* weights come from hf_folder */
    int size[AXIS_COUNT];
    enum dtype real;
    int threads; /* 0 = all that this process may use */

    int64_t B, S, accumulate, val_B;
    uint64_t seed;
    const char *const *train_dirs, *const *val_dirs;
    int train_dir_count, val_dir_count;
    bool synthetic, strict_rows;

    struct schedule schedule;
    double beta1, beta2, decay, eps, grad_clip;
    int64_t max_steps, max_skipped;
    /* of layers; of their gathered weights; begin gathers one layer early */
    bool recompute, regather, prefetch;

    struct batch_amount val_interval, val_batches;
    int64_t log_every;
    bool log_perf; /* step time, samples a second and TFLOPS a device go to the metrics */

    const char *event_dir; /* of TensorBoard's event files; NULL: none are written */
    const char *log_dir, *checkpoint_dir, *resume_from, *final_export_dir;
    bool resume_if_exists; /* resume the newest checkpoint of any kind below checkpoint_dir */
    int64_t save_every, save_top_k, export_every;
    bool save_last, save_on_stop, export_last;
};

/*
 * From a checked recipe. Reads the model folder's config.json where one is named. Directories are
 * made absolute names but not created. ERR_RECIPE, ERR_UNSUPPORTED, ERR_MISSING.
 */
MUST_USE status train_spec_make(struct train_spec *out, struct arena *a, const struct recipe *r,
                                int ranks);

struct train_plan_report {
    int64_t parameters; /* of the whole model, tied ones once */
    int64_t weights, gradients, optimizer, inputs, temporaries, total; /* bytes on this rank */
    int64_t temporaries_unshared;          /* the sum of all temporaries' sizes */
    int64_t flops_micro_batch, flops_step; /* this rank */
    int64_t tokens_step;                   /* all ranks */
    int64_t wire
        /* bytes this rank sends a step: over TP; over the shard axes (at AXIS_DS); over the
         * replicas */
        [AXIS_COUNT];
    int64_t checkpoint_bytes; /* all ranks, one save */
    int nodes, values;
};

/* Plans rank `rank` of the job. `programs`: NULL, or where to print learn, update and judge. */
MUST_USE status train_plan(const struct train_spec *t, int rank, struct train_plan_report *out,
                           FILE *programs);

struct train_options {
    bool quiet;        /* no progress, only warnings */
    bool json;         /* metrics lines on stdout as JSON too */
    FILE *time_ops;    /* rank 0's times by op go here at the end; NULL: not asked for */
    const char *trace; /* a file in Chrome's form; rank r above 0 adds ".r"; NULL: none */
    /* out, may be NULL: this rank failed while the others are still in the middle of a step, so
     * it must speak for itself and leave without closing anything that waits for them */
    bool *alone;
};

/*
 * Runs this rank to the end. Collective over world. OK when max_steps are done; ERR_STOPPED after a
 * signal (saved if possible); ERR_DIVERGED after max_skipped steps in a row without a usable
 * gradient. Prints progress (rank 0).
 */
MUST_USE status train_run(const struct train_spec *t, struct comm *world,
                          const struct train_options *o);

/* SIGTERM and SIGINT ask for a stop at the next step; a second one ends the process at once. */
void train_catch_signals(void);

#endif
