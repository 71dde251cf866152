/* schedule.json: rates of sets of parameters, and sets that must be refused. */
#include <math.h>

#include "tools/golden_models/golden.h"
#include "train/schedule.h"

static struct schedule schedule_of(const json_t *set)
{
    return (struct schedule) { .lr = golden_number(set, "lr", NAN), .min_lr = golden_number(set, "min_lr", NAN),
                               .warmup = (int64_t)golden_number(set, "warmup_steps", -1),
                               .constant = (int64_t)golden_number(set, "constant_steps", -1),
                               .horizon = (int64_t)golden_number(set, "horizon", -1) };
}

static void check_rates(struct golden *g, const json_t *set, const char *name)
{
    struct schedule s = schedule_of(set);
    const json_t *rates = json_object_get(set, "rate");
    double worst = 0;
    char at[32] = "";

    if (schedule_check(&s) != OK) {
        tally_fail(&g->tally, name, fail_text());
        return;
    }
    for (size_t t = 0; t < json_array_size(rates); t++) {
        double d = relative(schedule_rate(&s, (int64_t)t), json_number_value(json_array_get(rates, t)));

        if (!(d <= worst)) {
            worst = d;
            snprintf(at, sizeof at, "t = %zu", t);
        }
    }
    golden_figure(g, name, json_array_size(rates) == 0 ? NAN : worst, 1e-14, *at == 0 ? NULL : at);
}

void golden_schedule(struct golden *g)
{
    char path[PATH], name[64];
    json_t *file, *set;
    size_t i;

    snprintf(path, sizeof path, "%s/schedule.json", g->folder);
    file = golden_json(g, path);
    json_array_foreach(json_object_get(file, "sets"), i, set) {
        snprintf(name, sizeof name, "schedule set %zu", i);
        check_rates(g, set, name);
    }
    json_array_foreach(json_object_get(file, "refused"), i, set) {
        struct schedule s = schedule_of(set);

        snprintf(name, sizeof name, "schedule refused %zu", i);
        golden_verdict(g, name, schedule_check(&s) == ERR_RECIPE, "must be ERR_RECIPE");
    }
    json_decref(file);
}
