/* Opening a checkpoint, and finding the newest complete one below a folder. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/table.h"

static status tables_check(const struct manifest *m, const char *folder)
{
    for (int w = 0; w < layout_writers(m->size); w++) {
        struct arena a = { 0 };
        struct cell cell = layout_cell(m->size, w);
        struct table t;
        int fd = -1;
        status s = table_read(&t, &a, path_join(&a, folder, layout_table(&a, cell)), &m->tables[w],
                              layout_state(&a, cell));

        if (s == OK) {
            s = table_open_state(&t, folder, &fd);
        }
        if (fd >= 0) {
            close(fd);
        }
        arena_release(&a);
        TRY(s);
    }
    return OK;
}

status checkpoint_open(struct checkpoint_info *out, struct arena *a, const char *folder)
{
    struct manifest m;

    *out = (struct checkpoint_info){ 0 };
    TRY(manifest_read(&m, a, folder));
    TRY(tables_check(&m, folder));
    *out = (struct checkpoint_info){ .folder = arena_text(a, folder),
                                     .step = m.step,
                                     .written_ns = m.written_ns,
                                     .family = m.family,
                                     .recipe = m.recipe,
                                     .state = m.state };
    memcpy(out->size, m.size, sizeof out->size);
    return OK;
}

static status table_check_known(const struct table *t, const char *folder, const struct map *known)
{
    for (int i = 0; i < t->buffer_count; i++) {
        for (int j = 0; j < t->buffers[i].slice_count; j++) {
            const char *name = t->buffers[i].slices[j].tensor;

            if (!map_find(known, name, NULL)) {
                return fail(ERR_RECIPE,
                            "%s: tensor %s of the checkpoint is no part of this model; resume with "
                            "the model that was trained (layers, tied embeddings, biases)",
                            folder, name);
            }
        }
    }
    return OK;
}

status checkpoint_check_tensors(const struct checkpoint_info *info, const char *const *names,
                                int count)
{
    struct arena a = { 0 };
    struct map known = { 0 };
    struct manifest m;
    status s;

    for (int i = 0; i < count; i++) {
        map_put(&known, names[i], NULL);
    }
    s = manifest_read(&m, &a, info->folder);
    for (int w = 0; s == OK && w < layout_writers(m.size); w++) {
        struct arena own = { 0 };
        struct cell cell = layout_cell(m.size, w);
        struct table t;

        s = table_read(&t, &own, path_join(&own, info->folder, layout_table(&own, cell)),
                       &m.tables[w], layout_state(&own, cell));
        if (s == OK) {
            s = table_check_known(&t, info->folder, &known);
        }
        arena_release(&own);
    }
    map_release(&known);
    arena_release(&a);
    return s;
}

struct candidate {
    const char *folder;
    int64_t step, written_ns;
    struct candidate *next;
};

struct find {
    struct arena *arena;
    const struct checkpoint_info *than; /* only older ones count; NULL: all do */
    struct candidate *newest;           /* newest first */
    int damaged;
};

static bool is_newer(const struct candidate *a, const struct candidate *b)
{
    return a->step != b->step ? a->step > b->step : a->written_ns > b->written_ns;
}

static void candidate_put(struct find *f, struct candidate *c)
{
    struct candidate **at = &f->newest;

    while (*at && is_newer(*at, c)) {
        at = &(*at)->next;
    }
    c->next = *at;
    *at = c;
}

static void damage_note(struct find *f, const char *folder)
{
    log_warning("the checkpoint %s is damaged and is passed over: %s", folder, fail_text());
    f->damaged++;
}

/* A folder that has a manifest, or what only a checkpoint has: the remains of one count as
 * damage. An exported model has a folder of ours too, with neither. */
static bool is_candidate(struct find *f, const char *folder)
{
    return file_is_there(path_join(f->arena, folder, LAYOUT_MANIFEST)) ||
           file_is_folder(path_join(f->arena, folder, "tp0_ep0"));
}

static status candidate_read(struct find *f, const char *folder)
{
    struct candidate *c = arena_take(f->arena, sizeof *c);
    struct manifest m;
    status s = manifest_read(&m, f->arena, folder);

    if (s == ERR_MISSING || s == ERR_FORMAT) {
        damage_note(f, folder);
        return OK;
    }
    TRY(s);
    *c = (struct candidate){ .folder = folder, .step = m.step, .written_ns = m.written_ns };
    if (f->than == NULL ||
        is_newer(&(struct candidate){ .step = f->than->step, .written_ns = f->than->written_ns },
                 c)) {
        candidate_put(f, c);
    }
    return OK;
}

static status walk(struct find *f, const char *folder, int depth)
{
    char **names;
    size_t count;

    if (is_candidate(f, folder)) {
        return candidate_read(f, folder);
    }
    if (depth == LAYOUT_DEPTH) {
        return OK;
    }
    TRY(folder_list(f->arena, folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(f->arena, folder, names[i]);

        if (names[i][0] == '.' || !file_is_folder(path)) {
            continue;
        }
        if (text_ends(names[i], LAYOUT_WRITING)) {
            log_warning("%s: is left from a save that was not finished; it is passed over and may "
                        "be removed",
                        path);
            continue;
        }
        TRY(walk(f, path, depth + 1));
    }
    return OK;
}

static status newest_open(struct find *f, struct checkpoint_info *out, struct arena *a,
                          const char *path)
{
    for (struct candidate *c = f->newest; c; c = c->next) {
        status s = checkpoint_open(out, a, c->folder);

        if (s != ERR_FORMAT && s != ERR_MISSING) {
            return s;
        }
        damage_note(f, c->folder);
    }
    if (f->damaged > 0) {
        return fail(ERR_FORMAT, "%s: %d checkpoint%s, none of them usable; the last one: %s", path,
                    f->damaged, f->damaged == 1 ? "" : "s", arena_text(f->arena, fail_text()));
    }
    return fail(ERR_MISSING, "%s: there is no checkpoint here, nor in the folders below", path);
}

static status find_with(struct find *f, struct checkpoint_info *out, struct arena *a,
                        const char *path)
{
    char *writing = arena_text(f->arena, path);

    for (size_t n = strlen(writing); n > 1 && writing[n - 1] == '/'; n--) {
        writing[n - 1] = 0;
    }
    if (text_ends(writing, LAYOUT_WRITING)) {
        return fail(ERR_MISSING,
                    "%s: is left from a save that was not finished, so it is no checkpoint", path);
    }
    if (!file_is_there(path)) {
        return fail(ERR_MISSING, "%s: there is no such folder", path);
    }
    if (!file_is_folder(path)) {
        return fail(ERR_MISSING, "%s: is a file; the folder of a checkpoint is needed", path);
    }
    TRY(walk(f, path, 0));
    return newest_open(f, out, a, path);
}

status checkpoint_find(struct checkpoint_info *out, struct arena *a, const char *path,
                       const struct checkpoint_info *older_than)
{
    struct arena own = { 0 };
    struct find f = { .arena = &own, .than = older_than };
    status s;

    *out = (struct checkpoint_info){ 0 };
    s = find_with(&f, out, a, path);
    arena_release(&own);
    return s;
}
