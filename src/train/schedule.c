#include "train/schedule.h"

#include <math.h>

status schedule_check(const struct schedule *s)
{
    if (s->lr < s->min_lr) {
        return fail(
            ERR_RECIPE,
            "model.optim.sched.min_lr is %g, above model.optim.lr %g; lower min_lr or raise lr",
            s->min_lr, s->lr);
    }
    if (s->constant > 0 && !(s->lr > s->min_lr)) {
        return fail(ERR_RECIPE,
                    "model.optim.sched.constant_steps is %lld, which needs model.optim.lr above "
                    "min_lr, but both are "
                    "%g",
                    (long long)s->constant, s->lr);
    }
    return OK;
}

/* From lr to min_lr over `length` steps, `at` of them done. */
static double cosine(const struct schedule *s, int64_t at, int64_t length)
{
    if (length == 0) {
        return s->min_lr;
    }
    return s->min_lr + 0.5 * (s->lr - s->min_lr) * (1 + cos(M_PI * (double)at / (double)length));
}

double schedule_rate(const struct schedule *s, int64_t t)
{
    int64_t w = s->warmup, M = s->horizon;

    if (w > 0 && t <= w) {
        return s->constant > 0 ? s->lr * (double)t / (double)w
                               : s->lr * (double)(t + 1) / (double)(w + 1);
    }
    if (t > M || (s->constant > 0 && t > M - s->constant)) {
        return s->min_lr;
    }
    return cosine(s, t - w, M - s->constant - w);
}
