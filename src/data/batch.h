/*
 * Batches: which rows a rank trains at which step, and their rectangular form.
 *
 * Order. One pass over the corpus has `global_batches = rows / n` global micro-batches of n = B * D
 * sequences (D data ranks); the rows of an incomplete last one are passed over and count as
 * consumed. Global micro-batch number m of the run (from 0) takes rows (m mod global_batches) * n +
 * i; sequence i is slot i div D of data index i mod D. So everything is a function of rows consumed
 * so far, and any position is reached at once. The same rows in the same step whatever D is, as
 * long as n is the same.
 */
#ifndef ROUX_DATA_BATCH_H
#define ROUX_DATA_BATCH_H

#include "data/corpus.h"

struct batch {
    int64_t B, S;
    /* [B, S]; padded with 0; the padding of a row is a document of its own, without targets */
    int32_t *ids;
    /* [B, S] the id scored at this position, -1 = none: labels shifted by one on the full row;
     * the last position has none; no document predicts the first token of the next */
    int32_t *targets;
    int32_t *positions; /* [B, S] within the document */
    int32_t *starts;    /* [B, S] where the document begins, within the row */
    int64_t *rows;      /* [B] index of each row in the corpus */
    int64_t valid;      /* targets that are not -1 */
};

struct row_counts {
    int64_t taken, padded, cut; /* rows: trained, shorter than S, longer than S */
    /* left of an incomplete batch: this rank's share of them, so that ranks can be summed */
    int64_t passed_over;
};

struct sampler {
    const struct corpus *corpus;
    int64_t B, S, vocab;
    int data_index, data_size;
    int64_t global_batches;   /* per pass */
    struct row_counts counts; /* of this rank, this process */
    bool strict; /* a row longer than S is an error instead of cut; set it after sampler_open */
    struct arena scratch;
};

/* ERR_RECIPE naming rows and n if there are fewer rows than one global micro-batch. The corpus
 * is borrowed. */
MUST_USE status sampler_open(struct sampler *s, const struct corpus *corpus, int64_t B, int64_t S,
                             int64_t vocab, int data_index, int data_size);
void sampler_close(struct sampler *s);

/* Global micro-batch number m into `out`, whose arrays the caller made with batch_make. */
MUST_USE status sampler_take(struct sampler *s, int64_t m, struct batch *out);

/* Rows consumed (and passed over) by the first m global micro-batches, and the number of the
 * micro-batch at which a run that consumed `rows` rows goes on. The two are inverse to each
 * other. Rows consumed under another n may end inside a micro-batch: then that one is taken
 * whole, rows are trained again and none is lost; a caller sees it by asking back. */
int64_t sampler_rows_consumed(const struct sampler *s, int64_t m);
int64_t sampler_at(const struct sampler *s, int64_t rows_consumed);

void batch_make(struct batch *b, struct arena *a, int64_t B, int64_t S);

/* One row into slot `slot`: padding, cutting, shifting as above; `valid` follows, `rows` is the
 * caller's. For sampler, probe and evaluation alike. */
void batch_put(struct batch *b, int64_t slot, const struct row *row);

#endif
