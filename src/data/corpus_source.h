/*
 * What a source of rows must offer. Of the room data alone: a new file form (JSON.GZ, Arrow) is one
 * more struct of these functions and a line in corpus.c, which chooses the form by the names of the
 * files.
 */
#ifndef ROUX_DATA_CORPUS_SOURCE_H
#define ROUX_DATA_CORPUS_SOURCE_H

#include "data/corpus.h"

struct corpus_source;

struct source_kind {
    status (*read)(const struct corpus_source *s, int64_t row, int64_t vocab, struct arena *a,
                   struct row *out);
    void (*close)(struct corpus_source *s);
};

struct corpus_source {
    const struct source_kind *kind; /* NULL: not open */
    int64_t rows;
    void *own; /* the kind's */
};

/* The files names[0..count) of a folder, as JSON lines or arrays, in this order. */
MUST_USE status json_source_open(struct corpus_source *s, const char *folder, char *const *names,
                                 size_t count);

void synthetic_source_open(struct corpus_source *s, uint64_t seed, int64_t length, int64_t vocab);

#endif
