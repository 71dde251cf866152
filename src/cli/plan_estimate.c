#include "cli/plan_estimate.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"

/* As a rank of the job will have them on this machine. */
static int threads_of_rank(const struct train_spec *spec, int ranks_here)
{
    int threads = threads_default(spec->threads);

    if (spec->threads > 0 || getenv("OMP_NUM_THREADS") != NULL) {
        return threads;
    }
    return threads > ranks_here ? threads / ranks_here : 1;
}

static status find_calibration(struct plan_estimate *e, struct arena *a,
                               const struct train_spec *spec, int ranks_here)
{
    const struct kernels *kernels;
    struct calibration_key key;

    e->found = CALIBRATION_ABSENT;
    if (calibration_path(a, &e->path) != OK) {
        e->path = NULL;
        e->why = arena_text(a, fail_text());
        return OK;
    }
    TRY(kernels_find(spec->real, &kernels));
    calibration_key_here(&key, kernels, threads_of_rank(spec, ranks_here));
    e->found = calibration_find(&e->calibration, a, e->path, &key, &e->why);
    if (e->found == CALIBRATION_DAMAGED) {
        log_warning("%s; no time is estimated: roux bench --calibrate makes a new one", e->why);
    }
    return OK;
}

status plan_estimate_make(struct plan_estimate *e, struct arena *a, const struct train_spec *spec,
                          int rank, int ranks_here)
{
    *e = (struct plan_estimate){ .other = *spec };
    e->other.recompute = !spec->recompute;
    TRY(train_plan(&e->other, rank, &e->report, NULL));
    TRY(find_calibration(e, a, spec, ranks_here));
    if (e->found != CALIBRATION_FITS) {
        return OK;
    }
    TRY(train_estimate(spec, rank, &e->calibration, &e->time));
    return train_estimate(&e->other, rank, &e->calibration, &e->other_time);
}

static void print_missing(const struct plan_estimate *e)
{
    static const char hint[] = "`roux bench --calibrate` makes one, in a minute";

    switch (e->found) {
    case CALIBRATION_FOREIGN:
        printf("  the calibration in %s is not for this run (%s); %s\n", e->path, e->why, hint);
        break;
    case CALIBRATION_DAMAGED:
        printf("  the calibration in %s is damaged; %s\n", e->path, hint);
        break;
    case CALIBRATION_ABSENT:
    case CALIBRATION_FITS:
        printf("  there is no calibration of this machine; %s\n", e->path == NULL ? e->why : hint);
        break;
    }
}

void plan_estimate_print(const struct plan_estimate *e, const struct train_spec *spec,
                         const struct train_plan_report *r)
{
    double seconds = e->time.seconds;
    char text[32];

    printf("\ntime on this machine, estimated%s\n",
           r->tokens_step > spec->B * spec->S * spec->accumulate || spec->size[AXIS_TP] > 1
               ? ", without messages between ranks"
               : "");
    if (e->found != CALIBRATION_FITS) {
        print_missing(e);
        return;
    }
    printf("  %-18s %10.3g s (%.4g tokens/s)\n", "a step", seconds,
           (double)r->tokens_step / seconds);
    printf("  %-18s %12s\n", "to max_steps", text_seconds(text, seconds * (double)spec->max_steps));
    for (int i = 0; i < ESTIMATE_KINDS; i++) {
        printf("    %-16s %10.1f %%\n", estimate_kind_name((enum estimate_kind)i),
               100 * e->time.by_kind[i] / seconds);
    }
}

/* In percent of what it is now. */
static double change(double other, double now)
{
    return 100 * (other / now - 1);
}

void plan_checkpointing_print(const struct plan_estimate *e, const struct train_plan_report *r)
{
    char less[32], now[32];

    printf("  with model.activation_checkpointing=%s: temporaries %s instead of %s, %+.1f %% "
           "computation",
           e->other.recompute ? "true" : "false", text_bytes(less, (uint64_t)e->report.temporaries),
           text_bytes(now, (uint64_t)r->temporaries),
           change((double)e->report.flops_step, (double)r->flops_step));
    if (e->found == CALIBRATION_FITS) {
        printf(", %+.1f %% time", change(e->other_time.seconds, e->time.seconds));
    }
    putchar('\n');
}

json_t *plan_estimate_json(const struct plan_estimate *e, const struct train_spec *spec,
                           const struct train_plan_report *r)
{
    static const char *const states[] = { "fits", "absent", "foreign", "damaged" };
    json_t *kinds, *state = json_pack("{s:s, s:s?, s:s?}", "state", states[e->found], "path",
                                      e->path, "why", e->why);

    if (e->found != CALIBRATION_FITS) {
        return json_pack("{s:o}", "calibration", state);
    }
    kinds = json_object();
    for (int i = 0; i < ESTIMATE_KINDS; i++) {
        json_object_set_new(kinds, estimate_kind_name((enum estimate_kind)i),
                            json_real(e->time.by_kind[i]));
    }
    return json_pack("{s:o, s:f, s:f, s:f, s:o}", "calibration", state, "seconds_step",
                     e->time.seconds, "tokens_per_second", (double)r->tokens_step / e->time.seconds,
                     "seconds_to_max_steps", e->time.seconds * (double)spec->max_steps,
                     "seconds_by_kind", kinds);
}

json_t *plan_checkpointing_json(const struct plan_estimate *e)
{
    json_t *o = json_pack("{s:b, s:I, s:I}", "activation_checkpointing", e->other.recompute,
                          "temporaries", (json_int_t)e->report.temporaries, "flops_step",
                          (json_int_t)e->report.flops_step);

    if (e->found == CALIBRATION_FITS) {
        json_object_set_new(o, "seconds_step", json_real(e->other_time.seconds));
    }
    return o;
}
