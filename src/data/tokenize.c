/*
 * Bytes to rows, in one pass over the inputs and with a few buffers of memory.
 *
 *   input k    | rows of `width` bytes, the last may be shorter ...  | the last h[k] rows: held out |
 *   out.partial-PID-N/train/rows-00000.json, rows-00001.json, ...     a new file behind 64 MB
 *   out.partial-PID-N/val/rows-00000.json, ...
 *
 * How many rows are held out is settled over all inputs together: after each input their number is
 * the share of the rows so far, rounded down, so that many small inputs give their share too.
 */
#include "data/tokenize.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "data/row_writer.h"
#include "data/tokenize_paths.h"

enum { PIECE = 1 << 20, WIDTH_LIMIT = 1 << 24, BYTES_A_TOKEN = 6 /* at least, in a row's text */ };

/* What the functions of one run pass on. */
struct run {
    const struct tokenize_options *options;
    struct tokenize_report *report;
    struct tokenize_input *inputs;
    int64_t input_count;
    struct row_writer train, val;
    uint64_t frequency[2][256]; /* of all bytes, of the held-out ones */
    unsigned char *piece;
};

static int64_t rows_of(uint64_t bytes, int64_t width)
{
    return (int64_t)(bytes / (uint64_t)width + (bytes % (uint64_t)width != 0));
}

/* Settles where each input's held-out rows begin. The tiny addend repairs products such as 0.29
 * * 100. */
static status divide_inputs(struct run *r)
{
    const struct tokenize_options *o = r->options;
    int64_t rows = 0, held_out = 0;

    for (int64_t k = 0; k < r->input_count; k++) {
        struct tokenize_input *in = &r->inputs[k];
        int64_t own = rows_of(in->size, o->width), before = held_out;

        rows += own;
        held_out = (int64_t)floor(o->validation * (double)rows + 1e-9);
        in->held_out_from = held_out == before
                                ? in->size
                                : (uint64_t)(own - (held_out - before)) * (uint64_t)o->width;
        r->report->bytes += (int64_t)in->size;
    }
    if (o->validation > 0 && held_out == 0) {
        return fail(ERR_RECIPE,
                    "%lld rows of %lld tokens: a share of %g holds out none; take at least %g",
                    (long long)rows, (long long)o->width, o->validation, 1 / (double)rows);
    }
    return OK;
}

static status read_input(struct run *r, int64_t number)
{
    const struct tokenize_input *in = &r->inputs[number];
    int fd = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    status s = OK;

    if (fd < 0) {
        return fail(errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", in->path, strerror(errno));
    }
    for (uint64_t at = 0; at < in->size;) {
        bool held_out = at >= in->held_out_from;
        uint64_t end = held_out ? in->size : in->held_out_from;
        size_t length = end - at < PIECE ? (size_t)(end - at) : PIECE;
        struct row_writer *to = held_out ? &r->val : &r->train;

        TRY_OR(done, s, file_read_at(fd, in->path, r->piece, length, at));
        for (size_t i = 0; i < length; i++) {
            r->frequency[held_out][r->piece[i]]++;
        }
        TRY_OR(done, s, row_writer_bytes(to, r->piece, length, number));
        at += length;
        if (!r->options->documents && (at == in->held_out_from || at == in->size)) {
            TRY_OR(done, s, row_writer_end_row(to));
        }
    }
done:
    close(fd);
    return s;
}

/* Nats a byte under the bytes' own frequencies. */
static double entropy_of(const uint64_t frequency[256])
{
    double total = 0, sum = 0;

    for (int i = 0; i < 256; i++) {
        total += (double)frequency[i];
    }
    for (int i = 0; i < 256; i++) {
        if (frequency[i] > 0) {
            double share = (double)frequency[i] / total;

            sum -= share * log(share);
        }
    }
    return sum + 0.0; /* no -0 for a single kind of byte */
}

static void report_entropy(struct run *r)
{
    uint64_t all[256];

    for (int i = 0; i < 256; i++) {
        all[i] = r->frequency[0][i] + r->frequency[1][i];
    }
    r->report->entropy0 = entropy_of(r->report->validation_rows > 0 ? r->frequency[1] : all);
}

/* Writes everything below `partial`, which is there and empty. */
static status write_rows(struct run *r, struct arena *a, const char *partial)
{
    const struct tokenize_options *o = r->options;
    const char *train = path_join(a, partial, "train"), *val = path_join(a, partial, "val");

    TRY(row_writer_open(&r->train, train, o->width, o->documents));
    if (o->validation > 0) {
        TRY(row_writer_open(&r->val, val, o->width, o->documents));
    }
    for (int64_t k = 0; k < r->input_count; k++) {
        TRY(read_input(r, k));
    }
    TRY(row_writer_finish(&r->train));
    if (o->validation > 0) {
        TRY(row_writer_finish(&r->val));
    }
    r->report->rows = r->train.rows;
    r->report->validation_rows = r->val.rows;
    r->report->tokens = r->train.tokens + r->val.tokens;
    return folder_sync(partial);
}

static status check_options(const struct tokenize_options *o)
{
    if (o->width < 2 || o->width > WIDTH_LIMIT) {
        return fail(ERR_RECIPE, "rows of %lld tokens: allowed are 2 to %d", (long long)o->width,
                    WIDTH_LIMIT);
    }
    if (!(o->validation >= 0 && o->validation < 1)) {
        return fail(ERR_RECIPE, "a held-out share of %g: allowed are 0 (none) to below 1",
                    o->validation);
    }
    if (o->input_count < 1) {
        return fail(ERR_RECIPE, "no input is given: name files or folders of text");
    }
    return OK;
}

static status check_space(const struct run *r)
{
    char needed_text[32], free_text[32];
    uint64_t needed = (uint64_t)r->report->bytes * BYTES_A_TOKEN, available;

    TRY(file_space(r->options->out, &available));
    if (available < needed) {
        return fail(ERR_IO, "%s: the rows need more than %s, %s are free there", r->options->out,
                    text_bytes(needed_text, needed), text_bytes(free_text, available));
    }
    return OK;
}

status tokenize_bytes(const struct tokenize_options *o, struct tokenize_report *out)
{
    struct arena scratch = { 0 };
    struct run run = { .options = o, .report = out };
    const char *partial = NULL;
    status s = OK;

    *out = (struct tokenize_report){ 0 };
    TRY(check_options(o));
    TRY_OR(done, s, tokenize_list_inputs(&scratch, o, &run.inputs, &run.input_count));
    out->inputs = run.input_count;
    TRY_OR(done, s, tokenize_check_out(&scratch, o));
    TRY_OR(done, s, divide_inputs(&run));
    TRY_OR(done, s, check_space(&run));
    run.piece = arena_take(&scratch, PIECE);
    TRY_OR(done, s, tokenize_make_partial(&scratch, o->out, &partial));
    TRY_OR(done, s, write_rows(&run, &scratch, partial));
    report_entropy(&run);
    s = tokenize_publish(&scratch, partial, o->out);
done:
    row_writer_close(&run.train);
    row_writer_close(&run.val);
    if (s != OK && partial != NULL) {
        tokenize_discard(partial);
    }
    arena_release(&scratch);
    return s;
}
