/* What plan says about time, and about activation checkpointing. */
#ifndef ROUX_CLI_PLAN_ESTIMATE_H
#define ROUX_CLI_PLAN_ESTIMATE_H

#include <jansson.h>
#include "train/estimate.h"

struct plan_estimate {
    enum calibration_found found;
    const char *path, *why; /* path NULL: there is no place for a calibration */
    struct calibration calibration;
    struct estimate time;            /* of a step; if found is CALIBRATION_FITS */
    struct train_spec other;         /* the same job with activation checkpointing the other way */
    struct train_plan_report report; /* ... and its plan */
    struct estimate other_time;
};

/* For rank `rank` of the job, of which `ranks_here` share this machine. */
MUST_USE status plan_estimate_make(struct plan_estimate *e, struct arena *a,
                                   const struct train_spec *spec, int rank, int ranks_here);

void plan_estimate_print(const struct plan_estimate *e, const struct train_spec *spec,
                         const struct train_plan_report *r);
void plan_checkpointing_print(const struct plan_estimate *e, const struct train_plan_report *r);

json_t *plan_estimate_json(const struct plan_estimate *e, const struct train_spec *spec,
                           const struct train_plan_report *r);
json_t *plan_checkpointing_json(const struct plan_estimate *e);

#endif
