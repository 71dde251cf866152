/* Which rows a step takes is arithmetic; what remains is copying them into rectangles. */
#include "data/batch.h"

#include "base/log.h"

status sampler_open(struct sampler *s, const struct corpus *corpus, int64_t B, int64_t S,
                    int64_t vocab, int data_index, int data_size)
{
    int64_t n;

    check(B > 0 && S > 0 && S <= INT32_MAX && data_size > 0 && data_index >= 0 &&
              data_index < data_size,
          "a sampler of %lld x %lld, data index %d of %d", (long long)B, (long long)S, data_index,
          data_size);
    *s = (struct sampler){ .corpus = corpus,
                           .B = B,
                           .S = S,
                           .vocab = vocab,
                           .data_index = data_index,
                           .data_size = data_size };
    if (__builtin_mul_overflow(B, (int64_t)data_size, &n) || corpus->rows < n) {
        return fail(ERR_RECIPE,
                    "the data set has %lld rows, one step of %lld sequences on each of %d data "
                    "ranks needs %lld: take a "
                    "smaller train_batch_size, fewer ranks or more data",
                    (long long)corpus->rows, (long long)B, data_size,
                    (long long)(B > INT64_MAX / data_size ? INT64_MAX : B * data_size));
    }
    s->global_batches = corpus->rows / n;
    return OK;
}

void sampler_close(struct sampler *s)
{
    arena_release(&s->scratch);
    *s = (struct sampler){ 0 };
}

static int64_t rows_a_batch(const struct sampler *s)
{
    return s->B * s->data_size;
}

static status take_row(struct sampler *s, int64_t index, struct batch *out, int64_t slot)
{
    struct row row;

    arena_clear(&s->scratch);
    TRY(corpus_row(s->corpus, index, s->vocab, &s->scratch, &row));
    if (row.length > s->S) {
        if (s->strict) {
            return fail(ERR_FORMAT,
                        "%s:%lld: the row has %lld tokens, the sequences of this run have %lld",
                        row.file, (long long)row.line, (long long)row.length, (long long)s->S);
        }
        if (s->counts.cut == 0) {
            log_warning("%s:%lld: the row has %lld tokens and is cut to %lld; rows that are too "
                        "long are counted and "
                        "not told again",
                        row.file, (long long)row.line, (long long)row.length, (long long)s->S);
        }
        s->counts.cut++;
    }
    s->counts.padded += row.length < s->S;
    s->counts.taken++;
    batch_put(out, slot, &row);
    out->rows[slot] = index;
    return OK;
}

status sampler_take(struct sampler *s, int64_t m, struct batch *out)
{
    int64_t n = rows_a_batch(s), at = m % s->global_batches,
            left = s->corpus->rows - s->global_batches * n;

    check(m >= 0, "micro-batch %lld", (long long)m);
    check(out->B == s->B && out->S == s->S, "a batch of %lld x %lld for a sampler of %lld x %lld",
          (long long)out->B, (long long)out->S, (long long)s->B, (long long)s->S);
    for (int64_t slot = 0; slot < s->B; slot++) {
        TRY(take_row(s, at * n + slot * s->data_size + s->data_index, out, slot));
    }
    if (at == s->global_batches - 1 && left > s->data_index) {
        /* This rank's share of the rows that nobody takes, so that the sum over ranks is their
         * number. */
        s->counts.passed_over += (left - s->data_index - 1) / s->data_size + 1;
    }
    return OK;
}

int64_t sampler_rows_consumed(const struct sampler *s, int64_t m)
{
    return m / s->global_batches * s->corpus->rows + m % s->global_batches * rows_a_batch(s);
}

int64_t sampler_at(const struct sampler *s, int64_t rows_consumed)
{
    int64_t pass = rows_consumed / s->corpus->rows,
            within = rows_consumed % s->corpus->rows / rows_a_batch(s);

    return pass * s->global_batches + within;
}

void batch_make(struct batch *b, struct arena *a, int64_t B, int64_t S)
{
    size_t count = (size_t)B * (size_t)S;

    check(B > 0 && S > 0 && S <= INT32_MAX && B <= INT64_MAX / S, "a batch of %lld x %lld",
          (long long)B, (long long)S);
    *b = (struct batch){ .B = B, .S = S };
    b->ids = arena_take_array(a, count, sizeof *b->ids);
    b->targets = arena_take_array(a, count, sizeof *b->targets);
    b->positions = arena_take_array(a, count, sizeof *b->positions);
    b->starts = arena_take_array(a, count, sizeof *b->starts);
    b->rows = arena_take_array(a, (size_t)B, sizeof *b->rows);
    for (size_t i = 0; i < count; i++) {
        b->targets[i] = -1;
    }
}

/* The id that position i of the row is scored by: the label of the next token, if it is of the
 * same document. */
static int32_t target_of(const struct row *row, int64_t i, int64_t length)
{
    if (i + 1 >= length || row->starts[i + 1] == i + 1 || row->labels[i + 1] == -100) {
        return -1;
    }
    return row->labels[i + 1];
}

void batch_put(struct batch *b, int64_t slot, const struct row *row)
{
    int64_t length = row->length < b->S ? row->length : b->S;
    int32_t *ids = b->ids + slot * b->S, *targets = b->targets + slot * b->S;
    int32_t *positions = b->positions + slot * b->S, *starts = b->starts + slot * b->S;

    check(slot >= 0 && slot < b->B, "slot %lld of %lld", (long long)slot, (long long)b->B);
    for (int64_t i = 0; i < b->S; i++) {
        b->valid -= targets[i] != -1; /* of the row that was here before */
        /* Padding is a document of its own, so that no attention mixes it with tokens. */
        ids[i] = i < length ? row->ids[i] : 0;
        targets[i] = i < length ? target_of(row, i, length) : -1;
        starts[i] = i < length ? row->starts[i] : (int32_t)length;
        positions[i] = (int32_t)i - starts[i];
        b->valid += targets[i] != -1;
    }
}
