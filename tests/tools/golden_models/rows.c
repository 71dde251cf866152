#include "tools/golden_models/golden.h"

#include "base/text.h"

static status column(const struct rows *r, struct arena *a, const struct tensor_file *f,
                     const char *prefix, const char *name, double **out)
{
    return tensor_take(f, a, arena_format(a, "%s%s", prefix, name), r->B * r->S, out);
}

static bool has(const struct tensor_file *f, struct arena *a, const char *prefix, const char *name)
{
    return tensor_file_find(f, arena_format(a, "%s%s", prefix, name)) != NULL;
}

status rows_read(struct rows *r, struct arena *a, const struct tensor_file *f, const char *prefix)
{
    const char *ids = arena_format(a, "%sinput_ids", prefix);
    const struct tensor_entry *e = tensor_file_find(f, ids);

    *r = (struct rows){ 0 };
    if (e == NULL || e->rank != 2 || e->count == 0) {
        return fail(ERR_FORMAT, "%s: tensor %s must be there and be [B, S]", f->path, ids);
    }
    r->B = e->shape[0];
    r->S = e->shape[1];
    TRY(column(r, a, f, prefix, "input_ids", &r->ids));
    TRY(column(r, a, f, prefix, "labels", &r->labels));
    TRY(column(r, a, f, prefix, "attention_mask", &r->mask));
    if (has(f, a, prefix, "document_ids") || has(f, a, prefix, "position_ids")) {
        TRY(column(r, a, f, prefix, "document_ids", &r->documents));
        TRY(column(r, a, f, prefix, "position_ids", &r->positions));
    }
    return OK;
}

static bool begins_document(const struct rows *r, enum packing by, int64_t row, int64_t i)
{
    int64_t at = row * r->S + i;

    if (i == 0 || r->documents == NULL) {
        return i == 0;
    }
    return by == PACKED_BY_DOCUMENTS ? r->documents[at] != r->documents[at - 1]
                                     : r->positions[at] == 0;
}

void rows_batch(const struct rows *r, struct arena *a, enum packing by, struct batch *out)
{
    batch_make(out, a, r->B, r->S);
    for (int64_t b = 0; b < r->B; b++) {
        struct row row = { .length = r->S, .file = "golden", .line = b + 1 };

        row.ids = arena_take_array(a, (size_t)r->S, sizeof *row.ids);
        row.labels = arena_take_array(a, (size_t)r->S, sizeof *row.labels);
        row.starts = arena_take_array(a, (size_t)r->S, sizeof *row.starts);
        for (int64_t i = 0; i < r->S; i++) {
            row.ids[i] = (int32_t)r->ids[b * r->S + i];
            row.labels[i] = (int32_t)r->labels[b * r->S + i];
            row.starts[i] = begins_document(r, by, b, i) ? (int32_t)i : row.starts[i - 1];
        }
        batch_put(out, b, &row);
    }
}

static void print_column(const struct rows *r, const char *name, const double *values, int64_t row,
                         struct text *out)
{
    if (values == NULL) {
        return;
    }
    text_add_format(out, "%s\"%s\":[",
                    out->length == 0 || out->data[out->length - 1] == '\n' ? "{" : ",", name);
    for (int64_t i = 0; i < r->S; i++) {
        text_add_format(out, "%s%lld", i == 0 ? "" : ",", (long long)values[row * r->S + i]);
    }
    text_add(out, "]");
}

void rows_print(const struct rows *r, enum packing by, struct text *out)
{
    for (int64_t row = 0; row < r->B; row++) {
        print_column(r, "input_ids", r->ids, row, out);
        print_column(r, "attention_mask", r->mask, row, out);
        print_column(r, "labels", r->labels, row, out);
        print_column(r, "document_ids", by == PACKED_BY_DOCUMENTS ? r->documents : NULL, row, out);
        print_column(r, "position_ids", by == PACKED_BY_POSITIONS ? r->positions : NULL, row, out);
        text_add(out, "}\n");
    }
}
