#include "infer/batch_file.h"

#include <stdio.h>

#include "store/safetensors.h"

enum { BATCH_TOKENS = 1 << 28, NOT_SCORED = -100 };

struct reading {
    const struct tensor_file *file;
    struct arena *arena;
    int64_t B, S;
};

static status rectangle_check(const struct reading *r, const struct tensor_entry *e)
{
    if (e->dtype != DT_I64 && e->dtype != DT_I32) {
        return fail(ERR_FORMAT, "%s: tensor %s is %s; it must be I64 or I32", r->file->path,
                    e->name, dtype_name(e->dtype));
    }
    if (e->rank != 2) {
        return fail(ERR_FORMAT,
                    "%s: tensor %s has %d dimension%s; it must have two, sequences and positions",
                    r->file->path, e->name, e->rank, e->rank == 1 ? "" : "s");
    }
    if (r->B != 0 && (e->shape[0] != r->B || e->shape[1] != r->S)) {
        return fail(ERR_FORMAT, "%s: tensor %s is [%lld, %lld], but input_ids is [%lld, %lld]",
                    r->file->path, e->name, (long long)e->shape[0], (long long)e->shape[1],
                    (long long)r->B, (long long)r->S);
    }
    return OK;
}

/* NULL if the file has no tensor of that name and needs none. */
static status column_read(const struct reading *r, const char *name, bool needed, int64_t **out)
{
    const struct tensor_entry *e = tensor_file_find(r->file, name);

    *out = NULL;
    if (e == NULL) {
        return needed ? fail(ERR_FORMAT,
                             "%s: tensor %s is missing; a batch has input_ids and labels, both "
                             "[sequences, positions]",
                             r->file->path, name)
                      : OK;
    }
    TRY(rectangle_check(r, e));
    *out = arena_take_array(r->arena, (size_t)e->count, sizeof **out);
    return tensor_file_read(r->file, e, 0, e->count, DT_I64, *out);
}

static status wrong(const struct reading *r, const char *name, int64_t at, const char *what)
{
    return fail(ERR_FORMAT, "%s: tensor %s: row %lld, position %lld: %s", r->file->path, name,
                (long long)(at / r->S), (long long)(at % r->S), what);
}

static status tokens_check(const struct reading *r, const char *name, const int64_t *values,
                           int64_t vocabulary, bool is_label, int32_t **out)
{
    *out = arena_take_array(r->arena, (size_t)(r->B * r->S), sizeof **out);
    for (int64_t i = 0; i < r->B * r->S; i++) {
        if ((values[i] < 0 || values[i] >= vocabulary) && !(is_label && values[i] == NOT_SCORED)) {
            char what[128];

            snprintf(what, sizeof what, "%lld is not an id of the vocabulary of %lld%s",
                     (long long)values[i], (long long)vocabulary, is_label ? ", nor -100" : "");
            return wrong(r, name, i, what);
        }
        (*out)[i] = (int32_t)values[i];
    }
    return OK;
}

static void starts_of_documents(const struct reading *r, const int64_t *documents, int32_t *starts)
{
    for (int64_t i = 0; i < r->B * r->S; i++) {
        int32_t at = (int32_t)(i % r->S);

        starts[i] = at == 0 || documents[i] != documents[i - 1] ? at : starts[i - 1];
    }
}

static status starts_of_positions(const struct reading *r, const int64_t *positions,
                                  int32_t *starts)
{
    for (int64_t i = 0; i < r->B * r->S; i++) {
        int32_t at = (int32_t)(i % r->S);

        if (positions[i] == 0) {
            starts[i] = at;
        } else if (at > 0 && positions[i] == positions[i - 1] + 1) {
            starts[i] = starts[i - 1];
        } else {
            char what[128];

            snprintf(
                what, sizeof what,
                "%lld is neither 0, which starts a document, nor one more than the position before",
                (long long)positions[i]);
            return wrong(r, "position_ids", i, what);
        }
    }
    return OK;
}

static status starts_read(const struct reading *r, int32_t **out)
{
    int64_t *documents, *positions;

    TRY(column_read(r, "document_ids", false, &documents));
    TRY(column_read(r, "position_ids", false, &positions));
    *out = arena_take_array(r->arena, (size_t)(r->B * r->S), sizeof **out);
    if (documents != NULL) {
        starts_of_documents(r, documents, *out);
    } else if (positions != NULL) {
        return starts_of_positions(r, positions, *out);
    }
    return OK;
}

static status extents_read(struct reading *r)
{
    const struct tensor_entry *e = tensor_file_find(r->file, "input_ids");

    if (e == NULL || e->rank != 2) {
        return OK; /* column_read says so */
    }
    if (e->shape[0] < 1 || e->shape[1] < 1 || e->shape[1] > BATCH_TOKENS ||
        e->shape[0] > BATCH_TOKENS / e->shape[1]) {
        return fail(
            ERR_FORMAT,
            "%s: tensor input_ids is [%lld, %lld]; a batch has at least one token and at most %d",
            r->file->path, (long long)e->shape[0], (long long)e->shape[1], BATCH_TOKENS);
    }
    r->B = e->shape[0];
    r->S = e->shape[1];
    return OK;
}

static status columns_read(struct reading *r, int64_t vocabulary, struct batch_file *out)
{
    int64_t *ids, *labels;

    TRY(extents_read(r));
    TRY(column_read(r, "input_ids", true, &ids));
    TRY(column_read(r, "labels", true, &labels));
    TRY(tokens_check(r, "input_ids", ids, vocabulary, false, &out->ids));
    TRY(tokens_check(r, "labels", labels, vocabulary, true, &out->labels));
    TRY(starts_read(r, &out->starts));
    out->B = r->B;
    out->S = r->S;
    return OK;
}

status batch_file_read(struct batch_file *out, struct arena *a, const char *path,
                       int64_t vocabulary)
{
    struct tensor_file f = { 0 };
    struct reading r = { .file = &f, .arena = a };
    status s;

    *out = (struct batch_file){ 0 };
    TRY_OR(close_file, s, tensor_file_open(&f, a, path));
    s = columns_read(&r, vocabulary, out);
close_file:
    tensor_file_close(&f);
    return s;
}
