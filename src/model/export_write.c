/* Exports: tensors into files, what stands beside them, and reading all of it back. */
#include "model/export.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "model/hf.h"

/* ---- tensors ---- */

static status file_begin(struct export *e)
{
    const struct export_file *f = &e->files[e->file];

    TRY(tensor_writer_open(&e->writer, e->arena, path_join(e->arena, e->writing, f->name)));
    tensor_writer_metadata(&e->writer, "format", "pt");
    for (int i = f->first; i < f->first + f->count; i++) {
        const struct weight_part *q = e->parts[i];

        tensor_writer_declare(&e->writer, q->name, e->dtype, q->rank, q->whole);
    }
    e->flushed = 0;
    return tensor_writer_begin(&e->writer, 8);
}

static status stage_flush(struct export *e)
{
    struct export_file *f = &e->files[e->file];

    if (e->staged == 0) {
        return OK;
    }
    f->blocks[e->flushed / DIGEST_BLOCK] = digest_of(e->stage, e->staged);
    TRY(tensor_writer_append(&e->writer, e->stage, e->staged));
    e->flushed += e->staged;
    e->staged = 0;
    return OK;
}

static double staged_value(const struct export *e, size_t at)
{
    float value;
    uint16_t bits;

    if (e->dtype == DT_BF16) {
        memcpy(&bits, e->stage + at, sizeof bits);
        return (double)bf16_to_float(bits);
    }
    memcpy(&value, e->stage + at, sizeof value);
    return (double)value;
}

/* Elements [first, first + count) of the part have just been staged. */
static status staged_check(const struct export *e, const struct weight_part *part, int64_t first,
                           int64_t count)
{
    size_t width = dtype_bytes(e->dtype), from = e->staged - (size_t)count * width;

    for (int64_t i = 0; i < count; i++) {
        double value = staged_value(e, from + (size_t)i * width);

        if (!isfinite(value)) {
            return fail(ERR_FORMAT,
                        "%s: element %lld of %s is %s in %s; such a model is not exported",
                        e->target, (long long)(first + i), part->name,
                        isnan(value) ? "NaN" : "infinite", dtype_name(e->dtype));
        }
    }
    return OK;
}

status export_tensor(struct export *e, const struct weight_part *part, enum dtype real,
                     const void *bytes)
{
    const struct export_file *f = &e->files[e->file];
    size_t width = dtype_bytes(e->dtype);
    int64_t count = part->whole[0] * part->whole[1];

    check(e->part < e->part_count && e->parts[e->part] == part, "%s is not the next tensor",
          part->name);
    if (e->part == f->first) {
        TRY(file_begin(e));
    }
    for (int64_t i = 0; i < count;) {
        int64_t room = (int64_t)((e->stage_size - e->staged) / width);
        int64_t n = count - i < room ? count - i : room;
        const uint8_t *from = (const uint8_t *)bytes + (size_t)i * dtype_bytes(real);

        check(dtype_convert(e->dtype, e->stage + e->staged, real, from, (size_t)n),
              "%s does not convert to %s", dtype_name(real), dtype_name(e->dtype));
        e->staged += (size_t)n * width;
        TRY(staged_check(e, part, i, n));
        if (e->staged == e->stage_size) {
            TRY(stage_flush(e));
        }
        i += n;
    }
    e->part++;
    if (e->part == f->first + f->count) {
        TRY(stage_flush(e));
        TRY(tensor_writer_finish(&e->writer));
        e->file++;
    }
    return OK;
}

/* ---- the index ---- */

struct index_line {
    const char *tensor, *file;
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct index_line *)a)->tensor, ((const struct index_line *)b)->tensor);
}

static status index_write(const struct export *e)
{
    struct index_line *lines = arena_take_array(e->arena, (size_t)e->part_count, sizeof *lines);
    struct text t = { 0 };
    status s;

    for (int i = 0; i < e->file_count; i++) {
        for (int k = e->files[i].first; k < e->files[i].first + e->files[i].count; k++) {
            lines[k] = (struct index_line){ e->parts[k]->name, e->files[i].name };
        }
    }
    qsort(lines, (size_t)e->part_count, sizeof *lines, compare_lines);
    text_add_format(&t, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                    (unsigned long long)e->bytes);
    for (int i = 0; i < e->part_count; i++) {
        text_add_format(&t, "%s\n    \"%s\": \"%s\"", i == 0 ? "" : ",", lines[i].tensor,
                        lines[i].file);
    }
    text_add(&t, "\n  }\n}\n");
    s = file_replace(path_join(e->arena, e->writing, "model.safetensors.index.json"), t.data,
                     t.length);
    text_release(&t);
    return s;
}

/* ---- reading back ---- */

static status reads_otherwise(const char *path, const char *what)
{
    return fail(
        ERR_IO,
        "%s: %s reads back otherwise than it was written: the disk or its driver is at fault", path,
        what);
}

static status entry_verify(const struct export *e, const struct export_file *f, int part,
                           const struct tensor_folder *folder)
{
    const struct weight_part *q = e->parts[part];
    const struct tensor_entry *found = tensor_folder_find(folder, q->name);
    bool same = found != NULL && found->dtype == e->dtype && found->rank == q->rank;

    for (int i = 0; same && i < q->rank; i++) {
        same = found->shape[i] == q->whole[i];
    }
    if (!same || strcmp(path_name(folder->files[found->file].path), f->name) != 0) {
        return reads_otherwise(path_join(e->arena, e->writing, f->name), q->name);
    }
    return OK;
}

static status bytes_verify(const struct export *e, const struct export_file *f,
                           const struct tensor_file *file)
{
    if (file->size - file->data_begin != f->bytes) {
        return reads_otherwise(file->path, "the size");
    }
    /* From the disk, if the system lets go of what it remembers of the file. */
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    for (uint64_t at = 0; at < f->bytes; at += DIGEST_BLOCK) {
        size_t length = f->bytes - at < DIGEST_BLOCK ? (size_t)(f->bytes - at) : DIGEST_BLOCK;

        TRY(file_read_at(file->fd, file->path, e->stage, length, file->data_begin + at));
        if (!digest_same(digest_of(e->stage, length), f->blocks[at / DIGEST_BLOCK])) {
            char place[64];

            snprintf(place, sizeof place, "the block at byte %llu",
                     (unsigned long long)(file->data_begin + at));
            return reads_otherwise(file->path, place);
        }
    }
    return OK;
}

static status tensors_verify(const struct export *e, const struct tensor_folder *folder)
{
    if (folder->by_name.count != (size_t)e->part_count) {
        return reads_otherwise(e->writing, "the list of tensors");
    }
    for (int i = 0; i < e->file_count; i++) {
        const struct export_file *f = &e->files[i];

        for (int k = f->first; k < f->first + f->count; k++) {
            TRY(entry_verify(e, f, k, folder));
        }
        TRY(bytes_verify(
            e, f, &folder->files[tensor_folder_find(folder, e->parts[f->first]->name)->file]));
    }
    return OK;
}

static status verify(const struct export *e)
{
    struct tensor_folder folder = { 0 };
    struct model_spec spec;
    status s;

    TRY(hf_config_read(&spec, e->arena, e->writing));
    if (spec_parameters(&spec) != spec_parameters(e->spec)) {
        return reads_otherwise(e->writing, "config.json");
    }
    TRY(tensor_folder_open(&folder, e->arena, e->writing));
    s = tensors_verify(e, &folder);
    tensor_folder_close(&folder);
    return s;
}

status export_publish(struct export *e)
{
    check(e->part == e->part_count, "%d of %d tensors were exported", e->part, e->part_count);
    if (e->file_count > 1) {
        TRY(index_write(e));
    }
    TRY(hf_config_write(e->spec, e->writing, e->dtype == DT_F32 ? "float32" : "bfloat16"));
    TRY(verify(e));
    TRY(export_folder_publish(e->arena, e->writing, e->target));
    e->writing = NULL; /* it has its place and is not to be removed any more */
    return OK;
}
