#include "tools/golden_models/golden.h"

#include <math.h>
#include "base/file.h"
#include "train/schedule.h"

static const double TOLERANCE = 1e-14;

static status read_set(const json_t *set, const char *path, struct schedule *out)
{
    double warmup, constant, horizon;

    TRY(json_number_at(set, path, "lr", &out->lr));
    TRY(json_number_at(set, path, "min_lr", &out->min_lr));
    TRY(json_number_at(set, path, "warmup_steps", &warmup));
    TRY(json_number_at(set, path, "constant_steps", &constant));
    TRY(json_number_at(set, path, "horizon", &horizon));
    out->warmup = (int64_t)warmup;
    out->constant = (int64_t)constant;
    out->horizon = (int64_t)horizon;
    return OK;
}

static const char *set_text(struct arena *a, const char *list, size_t i, const struct schedule *s)
{
    return arena_format(
        a, "schedule %s %zu (lr %g to %g, warm-up %lld, constant %lld, horizon %lld)", list, i,
        s->lr, s->min_lr, (long long)s->warmup, (long long)s->constant, (long long)s->horizon);
}

static void see_rates(struct golden *g, struct arena *a, const char *path, const json_t *set,
                      size_t i)
{
    const json_t *rates = json_object_get(set, "rate"), *rate;
    struct worst w = { 0 };
    struct schedule s;
    size_t t;

    if (!check_ok(g, read_set(set, path, &s), "schedule set %zu", i) ||
        !check_ok(g, schedule_check(&s), "%s", set_text(a, "set", i, &s))) {
        return;
    }
    json_array_foreach(rates, t, rate)
    {
        worst_see(&w, relative(schedule_rate(&s, (int64_t)t), json_number_value(rate)), TOLERANCE,
                  arena_format(a, "step %zu", t + 1));
    }
    check_worst(g, &w, "%s", set_text(a, "set", i, &s));
}

static void see_refused(struct golden *g, struct arena *a, const char *path, const json_t *set,
                        size_t i)
{
    struct schedule s;
    status refused;

    if (check_ok(g, read_set(set, path, &s), "schedule refused %zu", i)) {
        refused = schedule_check(&s);
        check_true(g, refused == ERR_RECIPE, "%s: %s", set_text(a, "refused", i, &s),
                   refused == OK ? "is taken, but must be refused" : fail_text());
    }
}

void golden_schedule(struct golden *g)
{
    struct arena a = { 0 };
    const char *path = path_join(&a, g->folder, "schedule.json");
    json_t *j = NULL, *set;
    size_t i;

    if (!file_is_there(path)) {
        check_skip(g, "is not there", "schedule.json");
    } else if (check_ok(g, json_take(&a, path, &j), "schedule.json")) {
        json_array_foreach(json_object_get(j, "sets"), i, set)
        {
            see_rates(g, &a, path, set, i);
        }
        json_array_foreach(json_object_get(j, "refused"), i, set)
        {
            see_refused(g, &a, path, set, i);
        }
    }
    json_decref(j);
    arena_release(&a);
}
