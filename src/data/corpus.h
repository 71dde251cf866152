/*
 * A corpus: rows of token ids in files, any row at once.
 *
 * A data set is one folder or a list of folders; only files directly inside count. Now: JSON lines
 * and single JSON arrays in files that end in .json, sorted by name (facts of the format:
 * docs/data.md). Several folders are taken in turn, a row each, until the shortest ends. JSON.GZ,
 * Arrow, and weights of sources are a later issue: the struct leaves them room, the messages say so
 * by name.
 *
 * Opening scans each file once: checks that every line begins an object, and remembers where each
 * row lies. Rows are read and checked when they are needed: columns present, of equal lengths,
 * integers, ids in the vocabulary.
 */
#ifndef ROUX_DATA_CORPUS_H
#define ROUX_DATA_CORPUS_H

#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

struct row {
    int64_t length;  /* tokens; 0 for an empty row, which is all padding when trained */
    int32_t *ids;    /* [length] */
    int32_t *labels; /* [length], -100 = not scored; not shifted */
    /* [length] position at which the token's document begins; all 0 for an unpacked row */
    int32_t *starts;
    const char *file; /* where it stands, for messages */
    int64_t line;     /* from 1; in an array the element, from 1 */
};

struct corpus {
    struct corpus_source *sources;
    int source_count;
    int64_t rows;
};

/* ERR_MISSING, ERR_FORMAT naming file, line and row, ERR_IO, ERR_UNSUPPORTED for JSON.GZ and
 * Arrow. `folders` is copied. */
MUST_USE status corpus_open(struct corpus *c, const char *const *folders, int folder_count);

/* 100,000 synthetic rows of `length` uniform ids in [0, vocab), labels equal to the ids; row i
 * is a function of (seed, i). */
MUST_USE status corpus_synthetic(struct corpus *c, uint64_t seed, int64_t length, int64_t vocab);

/*
 * Row `index` in [0, rows). Memory is the arena's. Ids must be in [0, vocab), labels -100 or an id;
 * vocab is at most 2^31 - 1. A row may carry document_ids or position_ids: a new id, or a restart
 * at 0, starts a document. ERR_FORMAT reads "file:line:byte: row N: column[position]: ...", N from
 * 0 within its folder.
 */
MUST_USE status corpus_row(const struct corpus *c, int64_t index, int64_t vocab, struct arena *a,
                           struct row *out);

void corpus_close(struct corpus *c); /* also of a zeroed struct */

#endif
