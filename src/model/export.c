/* Exports: which tensors go into which files, and the ranks around the one that writes. */
#include "model/export.h"

#include <string.h>
#include "base/file.h"
#include "base/text.h"

enum { FILES_BESIDE = 3 }; /* config.json, generation_config.json, the index */

static const int64_t limit_default = 5000000000;
static const uint64_t slack = 1 << 20; /* of the space asked for: headers and configurations */

static uint64_t part_bytes(const struct export *e, int part)
{
    const struct weight_part *q = e->parts[part];

    return (uint64_t)q->whole[0] * (uint64_t)q->whole[1] * dtype_bytes(e->dtype);
}

static void list_parts(struct export *e, const struct weights *w)
{
    for (int i = 0; i < w->count; i++) {
        e->part_count += w->segments[i].count;
    }
    e->parts = arena_take_array(e->arena, (size_t)e->part_count, sizeof *e->parts);
    e->part_count = 0;
    for (int i = 0; i < w->count; i++) {
        for (int k = 0; k < w->segments[i].count; k++) {
            e->parts[e->part_count++] = &w->segments[i].parts[k];
        }
    }
}

/* A file ends where the next tensor would make it larger than the limit; a tensor that is larger
 * is a file by itself. */
static void plan_files(struct export *e, uint64_t limit)
{
    struct export_file *f = NULL;

    e->files = arena_take_array(e->arena, (size_t)e->part_count, sizeof *e->files);
    for (int i = 0; i < e->part_count; i++) {
        uint64_t bytes = part_bytes(e, i);

        if (f == NULL || f->bytes + bytes > limit) {
            f = &e->files[e->file_count++];
            f->first = i;
        }
        f->count++;
        f->bytes += bytes;
        e->bytes += bytes;
    }
    for (int i = 0; i < e->file_count; i++) {
        size_t blocks = (size_t)((e->files[i].bytes + DIGEST_BLOCK - 1) / DIGEST_BLOCK);
        size_t bytes = e->files[i].bytes < DIGEST_BLOCK ? (size_t)e->files[i].bytes : DIGEST_BLOCK;

        e->files[i].blocks = arena_take_array(e->arena, blocks, sizeof *e->files[i].blocks);
        e->files[i].name =
            e->file_count == 1
                ? "model.safetensors"
                : arena_format(e->arena, "model-%05d-of-%05d.safetensors", i + 1, e->file_count);
        e->stage_size = bytes > e->stage_size ? bytes : e->stage_size;
    }
}

static status space_check(const struct export *e)
{
    uint64_t needed = e->bytes + slack, space;
    char needed_text[32], space_text[32];

    TRY(file_space(e->target, &space));
    if (space < needed) {
        return fail(ERR_IO, "%s: the export needs %s, and %s are free there", e->target,
                    text_bytes(needed_text, needed), text_bytes(space_text, space));
    }
    return OK;
}

/* The names that the mark lists. */
static const char **list_files(const struct export *e, int *count)
{
    const char **names =
        arena_take_array(e->arena, (size_t)e->file_count + FILES_BESIDE, sizeof *names);

    *count = 0;
    for (int i = 0; i < e->file_count; i++) {
        names[(*count)++] = e->files[i].name;
    }
    if (e->file_count > 1) {
        names[(*count)++] = "model.safetensors.index.json";
    }
    names[(*count)++] = "config.json";
    names[(*count)++] = "generation_config.json";
    return names;
}

status export_open(struct export *e, struct arena *a, const struct weights *w,
                   const struct model_spec *s, const char *folder, enum dtype dtype, int64_t limit)
{
    const char **names, *writing;
    int count;

    check(dtype == DT_F32 || dtype == DT_BF16, "an export in %s", dtype_name(dtype));
    check(limit >= 0, "an export in files of %lld bytes", (long long)limit);
    *e = (struct export){ .arena = a, .spec = s, .dtype = dtype };
    list_parts(e, w);
    plan_files(e, (uint64_t)(limit == 0 ? limit_default : limit));
    TRY(export_folder_name(a, folder, &e->target));
    TRY(export_folder_check(a, e->target));
    TRY(space_check(e));
    names = list_files(e, &count);
    writing = arena_format(a, "%s.writing", e->target);
    TRY(export_folder_make(a, writing, names, count));
    e->writing = writing; /* from here on it is ours to remove */
    e->stage = arena_take(a, e->stage_size);
    return OK;
}

status weights_export_check(const struct weights *w, const char *folder, enum dtype dtype,
                            int64_t limit)
{
    struct arena a = { 0 };
    struct export e = { .arena = &a, .dtype = dtype };
    status result;

    list_parts(&e, w);
    plan_files(&e, (uint64_t)(limit == 0 ? limit_default : limit));
    TRY_OR(release, result, export_folder_name(&a, folder, &e.target));
    TRY_OR(release, result, export_folder_check(&a, e.target));
    TRY_OR(release, result, folder_check_writable(path_folder(&a, e.target)));
    result = space_check(&e);
release:
    arena_release(&a);
    return result;
}

void export_abandon(struct export *e)
{
    tensor_writer_abandon(&e->writer);
    if (e->writing != NULL) {
        struct arena a = { 0 };
        char *text = arena_text(&a, fail_text());

        /* What is left is marked as ours and goes with the next export; the reason to give up is
         * what counts. */
        if (folder_remove(e->writing) != OK) {
            (void)!fail(ERR_IO, "%s", text);
        }
        arena_release(&a);
    }
    *e = (struct export){ 0 };
}

/* ---- over ranks ---- */

struct exporting {
    struct export export;
    bool writes;
    struct arena *arena;
    status failed; /* the first failure of the writing rank ... */
    char *text;    /* ... and its text */
};

static void remember(struct exporting *x, status s)
{
    if (s != OK && x->failed == OK) {
        x->failed = s;
        x->text = arena_text(x->arena, fail_text());
    }
}

/* The others wait for this rank in the next collective, so it goes on, without writing, after a
 * failure. */
static status bring(void *user, const struct weight_part *part, enum dtype type, const void *bytes)
{
    struct exporting *x = user;

    if (x->writes && x->failed == OK) {
        remember(x, export_tensor(&x->export, part, type, bytes));
    }
    return OK;
}

static status agree(struct exporting *x, const struct mesh *mesh)
{
    return comm_agree(mesh->world, x->failed == OK ? OK : fail(x->failed, "%s", x->text));
}

status weights_export(const struct weights *w, const struct model_spec *s, const struct device *d,
                      const struct program *p, const char *folder, enum dtype dtype, int64_t limit)
{
    struct arena a = { 0 };
    struct exporting x = { .writes = w->mesh->world->rank == 0, .arena = &a };
    status result;

    if (x.writes) {
        remember(&x, export_open(&x.export, &a, w, s, folder, dtype, limit));
    }
    TRY_OR(release, result, agree(&x, w->mesh));
    TRY_OR(release, result, weights_collect(w, d, p, "master.", bring, &x));
    if (x.writes && x.failed == OK) {
        remember(&x, export_publish(&x.export));
    }
    result = agree(&x, w->mesh);
release:
    export_abandon(&x.export);
    arena_release(&a);
    return result == OK ? OK : fail_while(result, "exporting the model to %s", folder);
}
