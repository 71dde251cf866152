/* Resuming: which checkpoint is taken, and what is done where it turns out damaged. */
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "train/trainer.h"

/* ---- state: what is not a tensor ---- */

static status count_of(const struct checkpoint_info *info, const json_t *v, const char *key,
                       int64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) {
        return fail(ERR_FORMAT, "%s: the state's %s is not a count", info->folder, key);
    }
    *out = json_integer_value(v);
    return OK;
}

static void compare_schedule(const struct trainer *t, const json_t *s)
{
    const struct schedule *now = &t->spec->schedule;

    if (t->world->rank != 0) {
        return;
    }
    if (json_number_value(json_object_get(s, "lr")) != now->lr ||
        json_number_value(json_object_get(s, "min_lr")) != now->min_lr ||
        json_integer_value(json_object_get(s, "warmup")) != now->warmup ||
        json_integer_value(json_object_get(s, "constant")) != now->constant ||
        json_integer_value(json_object_get(s, "horizon")) != now->horizon) {
        log_warning("the recipe's learning-rate schedule differs from the checkpoint's; the "
                    "recipe's is used from step %lld on",
                    (long long)t->at.step + 1);
    }
}

static status state_read(struct trainer *t, const struct checkpoint_info *info)
{
    json_error_t e;
    json_t *state = json_loads(info->state, JSON_REJECT_DUPLICATES, &e);
    int64_t seed = 0;
    status s;

    if (!json_is_object(state)) {
        json_decref(state);
        return fail(ERR_FORMAT, "%s: its state is not a JSON object", info->folder);
    }
    TRY_OR(release, s, count_of(info, json_object_get(state, "step"), "step", &t->at.step));
    TRY_OR(release, s,
           count_of(info, json_object_get(state, "updates"), "updates", &t->at.updates));
    TRY_OR(release, s,
           count_of(info, json_object_get(state, "skipped"), "skipped", &t->at.skipped));
    TRY_OR(release, s,
           count_of(info, json_object_get(state, "skipped_in_a_row"), "skipped_in_a_row",
                    &t->at.skipped_in_a_row));
    TRY_OR(release, s,
           count_of(info, json_array_get(json_object_get(state, "rows_consumed"), 0),
                    "rows_consumed", &t->at.rows_consumed));
    TRY_OR(release, s, count_of(info, json_object_get(state, "tokens"), "tokens", &t->at.tokens));
    TRY_OR(release, s, count_of(info, json_object_get(state, "seed"), "seed", &seed));
    if ((uint64_t)seed != t->spec->seed) {
        s = fail(ERR_RECIPE,
                 "model.seed is %llu, but %s was trained with %lld; a resumed run keeps its seed",
                 (unsigned long long)t->spec->seed, info->folder, (long long)seed);
        goto release;
    }
    compare_schedule(t, json_object_get(state, "schedule"));
release:
    json_decref(state);
    return s;
}

/* ---- which one ---- */

/* The newest usable stop_<k> below <checkpoint_dir>/sharded; `found` stays false if there is
 * none. `damage` is what is wrong with one that is not usable. */
static status find_stop(struct trainer *t, struct checkpoint_info *out, bool *found,
                        const char **damage)
{
    const char *folder = path_join(&t->run, t->spec->checkpoint_dir, "sharded");
    char **names;
    size_t count;
    status s = folder_list(&t->run, folder, &names, &count);

    if (s == ERR_MISSING) {
        return OK;
    }
    TRY(s);
    for (size_t i = 0; i < count; i++) {
        struct checkpoint_info info;

        if (!text_starts(names[i], "stop_") || strchr(names[i], '.') != NULL) {
            continue;
        }
        s = checkpoint_open(&info, &t->run, path_join(&t->run, folder, names[i]));
        if (s != OK) {
            *damage = arena_text(&t->run, fail_text());
        } else if (!*found || info.step > out->step) {
            *out = info;
            *found = true;
        }
    }
    return OK;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Where the recipe says that checkpoints may be taken from; NULL: nowhere. */
static const char *resume_place(const struct trainer *t)
{
    if (t->spec->resume_from != NULL) {
        return t->spec->resume_from;
    }
    return t->spec->resume_if_exists ? t->spec->checkpoint_dir : NULL;
}

/* A damaged stop_<k> and nothing else: whoever stopped the run counts on it. */
static status stop_is_lost(const struct trainer *t, const char *damage, bool found)
{
    if (damage == NULL) {
        return OK;
    }
    if (!found) {
        return fail(ERR_FORMAT,
                    "%s; a run that was stopped is not begun again without a word: remove that "
                    "stop_<k> folder to begin anew, or name another checkpoint with "
                    "exp_manager.resume_from_checkpoint",
                    damage);
    }
    if (t->world->rank == 0) {
        log_warning("%s; it is passed over", damage);
    }
    return OK;
}

static status find_checkpoint(struct trainer *t, struct checkpoint_info *out, bool *found)
{
    struct checkpoint_info stop, named;
    bool has_stop = false, has_named = false;
    const char *place = resume_place(t), *damage = NULL;

    TRY(find_stop(t, &stop, &has_stop, &damage));
    if (place != NULL) {
        status s = checkpoint_find(&named, &t->run, place, NULL);

        if (s != OK && (s != ERR_MISSING || t->spec->resume_from != NULL)) {
            return s;
        }
        has_named = s == OK;
    }
    *found = has_stop || has_named;
    TRY(stop_is_lost(t, damage, *found));
    *out = has_named && (!has_stop || named.step > stop.step) ? named : stop;
    /* It goes with the next publication, unless the recipe names it: what is named is kept. */
    if (has_stop &&
        (t->spec->resume_from == NULL || !same_folder(t->spec->resume_from, stop.folder))) {
        t->stop_folder = stop.folder;
    }
    return OK;
}

/* The next older one than `info`, whose tensors turned out damaged. A checkpoint that is named
 * itself has none. */
static status find_older(struct trainer *t, struct checkpoint_info *info)
{
    const char *why = arena_text(&t->run, fail_text()), *place = resume_place(t);
    struct checkpoint_info older;
    status s;

    if (place == NULL || same_folder(place, info->folder)) {
        return fail(ERR_FORMAT,
                    "%s; name another checkpoint with exp_manager.resume_from_checkpoint", why);
    }
    s = checkpoint_find(&older, &t->run, place, info);
    if (s == ERR_MISSING || s == ERR_FORMAT) {
        return fail(ERR_FORMAT, "%s; and %s holds no older one that is whole", why, place);
    }
    TRY(s);
    if (t->world->rank == 0) {
        log_warning("the checkpoint %s is damaged and is passed over: %s", info->folder, why);
    }
    *info = older;
    return OK;
}

static status check_tensors(struct trainer *t, const struct checkpoint_info *info)
{
    const struct weights *w = t->programs.model.weights;
    struct arena a = { 0 };
    const char **names;
    int count = 0;
    status s;

    for (int i = 0; i < w->count; i++) {
        count += w->segments[i].count;
    }
    names = arena_take_array(&a, (size_t)count, sizeof *names);
    count = 0;
    for (int i = 0; i < w->count; i++) {
        for (int k = 0; k < w->segments[i].count; k++) {
            names[count++] = w->segments[i].parts[k].name;
        }
    }
    s = checkpoint_check_tensors(info, names, count);
    arena_release(&a);
    return s;
}

static status load(struct trainer *t, const struct checkpoint_info *info)
{
    struct checkpoint_content c;

    if (strcmp(info->family, t->kernels->family) != 0 && t->world->rank == 0) {
        log_warning("%s was trained with the kernel family %s, this run uses %s: it goes on within "
                    "rounding, not to the bit",
                    info->folder, info->family, t->kernels->family);
    }
    TRY(comm_agree(t->world, state_read(t, info)));
    TRY(comm_agree(t->world, t->world->rank == 0 ? check_tensors(t, info) : OK));
    trainer_content(t, &t->run, &c);
    return checkpoint_load(info, &t->mesh, &c);
}

status trainer_resume(struct trainer *t, bool *resumed)
{
    struct checkpoint_info info = { 0 };
    status s;

    *resumed = false;
    TRY(comm_agree(t->world, find_checkpoint(t, &info, resumed)));
    if (!*resumed) {
        return OK;
    }
    while ((s = load(t, &info)) == ERR_FORMAT || s == ERR_MISSING) {
        TRY(comm_agree(t->world, find_older(t, &info)));
    }
    TRY(s);
    if (t->world->rank == 0) {
        log_info("resumed %s: step %lld, %lld rows consumed", info.folder, (long long)t->at.step,
                 (long long)t->at.rows_consumed);
    }
    return OK;
}
