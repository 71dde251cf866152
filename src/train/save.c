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
    const struct program *p = &t->programs.update;
    val v = strcmp(kind, "weight") == 0 ? weights_master(p, g) : program_find(p, name);
    struct weight_piece *pieces = arena_take_array(a, (size_t)g->count, sizeof *pieces);
    struct slice *slices = arena_take_array(a, (size_t)g->count, sizeof *slices);
    int count = weights_pieces(w, g, pieces);

    for (int i = 0; i < count; i++) {
        slices[i] = slice_of(&pieces[i], kind);
    }
    return (struct checkpoint_buffer){ .name = name,
                                       .dtype = program_value(p, v)->dtype,
                                       .bytes = device_bytes(&t->device, p, v),
                                       .count = g->shard_blocks * WEIGHT_BLOCK,
                                       .slices = slices,
                                       .slice_count = count };
}

void trainer_content(const struct trainer *t, struct arena *a, struct checkpoint_content *c)
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

    trainer_content(t, &a, &c);
    c.state = state_text(t, &a);
    s = checkpoint_save(folder, &t->mesh, &c);
    if (s == OK) {
        metrics_event(t, "saved %s", folder);
        metrics_saved(t);
        if (t->stop_folder != NULL && strcmp(t->stop_folder, folder) != 0) {
            s = drop_stop_folder(t);
        }
    }
    arena_release(&a);
    return s;
}

status trainer_export(struct trainer *t, const char *folder)
{
    TRY(weights_export(t->programs.model.weights, &t->spec->model, &t->device, &t->programs.update,
                       folder, DT_F32, 0));
    metrics_event(t, "exported %s", folder);
    /* Until the run is done, an export does not replace what a resume needs. */
    return t->at.step >= t->spec->max_steps ? drop_stop_folder(t) : OK;
}
