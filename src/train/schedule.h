/* The learning-rate schedule CosineAnnealing, as NeMo has it (facts: learning-rate schedule; [R]
 * rules for its 0/0 cases). */
#ifndef ROUX_TRAIN_SCHEDULE_H
#define ROUX_TRAIN_SCHEDULE_H

#include <stdint.h>
#include "base/status.h"

struct schedule {
    double lr, min_lr;
    int64_t warmup, constant, horizon;
};

/* ERR_RECIPE: min_lr above lr; with constant steps lr must be above min_lr. */
MUST_USE status schedule_check(const struct schedule *s);

/* The rate of step t + 1, that is after t completed steps. */
double schedule_rate(const struct schedule *s, int64_t t);

#endif
