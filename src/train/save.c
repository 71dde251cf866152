/* Checkpoints and exports: what of a trainer is written, and how it comes back. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "train/trainer.h"

/* ---- buffers: weight, moment1 and moment2 of each segment ---- */

static struct slice slice_of(const struct weight_piece *piece, const char *kind)
{
    const struct weight_part *q = piece->part;
    struct slice s = { .tensor = q->name,
                       .kind = kind,
                       .rank = q->rank,
                       .first = piece->first,
                       .count = piece->count,
                       .at = piece->at };

    for (int i = 0; i < q->rank; i++) {
        s.shape[i] = q->whole[i];
        s.from[i] = q->from[i];
        s.to[i] = q->to[i];
    }
    return s;
}

static struct checkpoint_buffer buffer_of(const struct trainer *t, struct arena *a, int segment,
                                          const char *kind)
{
    const struct weights *w = t->programs.model.weights;
    const struct weight_segment *g = &w->segments[segment];
    const char *name = arena_format(a, "%s.%s", kind, g->name);
    val v = program_find(&t->programs.update, name);
    struct weight_piece *pieces = arena_take_array(a, (size_t)g->count, sizeof *pieces);
    struct slice *slices = arena_take_array(a, (size_t)g->count, sizeof *slices);
    int count = weights_pieces(w, g, pieces);

    for (int i = 0; i < count; i++) {
        slices[i] = slice_of(&pieces[i], kind);
    }
    return (struct checkpoint_buffer){ .name = name,
                                       .dtype = t->spec->real,
                                       .bytes = device_bytes(&t->device, &t->programs.update, v),
                                       .count = g->shard_blocks * WEIGHT_BLOCK,
                                       .slices = slices,
                                       .slice_count = count };
}

static void content_of(const struct trainer *t, struct arena *a, struct checkpoint_content *c)
{
    static const char *const kinds[] = { "weight", "moment1", "moment2" };
    int segments = t->programs.model.weights->count;

    *c = (struct checkpoint_content){ .step = t->at.step,
                                      .family = t->kernels->family,
                                      .recipe = t->spec->recipe_text };
    c->buffers = arena_take_array(a, (size_t)segments * 3, sizeof *c->buffers);
    for (int i = 0; i < segments; i++) {
        for (int k = 0; k < 3; k++) {
            c->buffers[c->buffer_count++] = buffer_of(t, a, i, kinds[k]);
        }
    }
}

/* ---- state: what is not a tensor ---- */

static const char *state_text(const struct trainer *t, struct arena *a)
{
    const struct progress *at = &t->at;
    const struct schedule *s = &t->spec->schedule;
    json_t *state =
        json_pack("{s:I, s:I, s:I, s:I, s:[I], s:I, s:I, s:{s:f, s:f, s:I, s:I, s:I}}", "step",
                  (json_int_t)at->step, "updates", (json_int_t)at->updates, "skipped",
                  (json_int_t)at->skipped, "skipped_in_a_row", (json_int_t)at->skipped_in_a_row,
                  "rows_consumed", (json_int_t)at->rows_consumed, "tokens", (json_int_t)at->tokens,
                  "seed", (json_int_t)t->spec->seed, "schedule", "lr", s->lr, "min_lr", s->min_lr,
                  "warmup", (json_int_t)s->warmup, "constant", (json_int_t)s->constant, "horizon",
                  (json_int_t)s->horizon);
    char *text = state == NULL ? NULL : json_dumps(state, JSON_INDENT(2) | JSON_REAL_PRECISION(17)),
         *kept;

    check(text != NULL, "the state does not become JSON");
    kept = arena_text(a, text);
    free(text);
    json_decref(state);
    return kept;
}

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

/* ---- saving ---- */

/* A stop_<k> has done its duty once something newer stands. */
static status drop_stop_folder(struct trainer *t)
{
    status s = OK;

    if (t->stop_folder == NULL) {
        return OK;
    }
    if (t->world->rank == 0) {
        s = checkpoint_remove(t->stop_folder);
    }
    t->stop_folder = NULL;
    return comm_agree(t->world, s);
}

status trainer_save(struct trainer *t, const char *name)
{
    struct arena a = { 0 };
    struct checkpoint_content c;
    const char *folder = path_join(&a, path_join(&a, t->spec->checkpoint_dir, "sharded"), name);
    status s;

    content_of(t, &a, &c);
    c.state = state_text(t, &a);
    s = checkpoint_save(folder, &t->mesh, &c);
    if (s == OK) {
        metrics_event(t, "saved %s", folder);
        if (t->stop_folder != NULL && strcmp(t->stop_folder, folder) != 0) {
            s = drop_stop_folder(t);
        }
    }
    arena_release(&a);
    return s;
}

status trainer_export(struct trainer *t, const char *folder)
{
    TRY(weights_export(t->programs.model.weights, &t->spec->model, &t->device, &t->programs.learn,
                       folder, DT_F32, 0));
    metrics_event(t, "exported %s", folder);
    return drop_stop_folder(t);
}

/* ---- resuming ---- */

/* The newest usable stop_<k> below <checkpoint_dir>/sharded; `found` stays false if there is
 * none. */
static status find_stop(struct trainer *t, struct checkpoint_info *out, bool *found)
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
            log_warning("%s; it is passed over", fail_text());
        } else if (!*found || info.step > out->step) {
            *out = info;
            *found = true;
        }
    }
    return OK;
}

static status find_checkpoint(struct trainer *t, struct checkpoint_info *out, bool *found)
{
    struct checkpoint_info stop, named;
    bool has_stop = false, has_named = false;

    TRY(find_stop(t, &stop, &has_stop));
    if (t->spec->resume_from != NULL) {
        TRY(checkpoint_find(&named, &t->run, t->spec->resume_from));
        has_named = true;
    } else if (t->spec->resume_if_exists) {
        status s = checkpoint_find(&named, &t->run, t->spec->checkpoint_dir);

        if (s != OK && s != ERR_MISSING) {
            return s;
        }
        has_named = s == OK;
    }
    *found = has_stop || has_named;
    *out = has_named && (!has_stop || named.step > stop.step) ? named : stop;
    return OK;
}

static bool is_stop(const char *folder)
{
    return text_starts(path_name(folder), "stop_");
}

status trainer_resume(struct trainer *t, bool *resumed)
{
    struct checkpoint_info info = { 0 };
    struct checkpoint_content c;

    *resumed = false;
    TRY(comm_agree(t->world, find_checkpoint(t, &info, resumed)));
    if (!*resumed) {
        return OK;
    }
    if (strcmp(info.family, t->kernels->family) != 0) {
        log_warning("%s was trained with the kernel family %s, this run uses %s: it goes on within "
                    "rounding, not to the bit",
                    info.folder, info.family, t->kernels->family);
    }
    TRY(comm_agree(t->world, state_read(t, &info)));
    content_of(t, &t->run, &c);
    TRY(checkpoint_load(&info, &t->mesh, &c));
    if (is_stop(info.folder)) {
        t->stop_folder = info.folder;
    }
    if (t->world->rank == 0) {
        log_info("resumed %s: step %lld, %lld rows consumed", info.folder, (long long)t->at.step,
                 (long long)t->at.rows_consumed);
    }
    return OK;
}
