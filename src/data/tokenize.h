/*
 * Text files to rows of byte tokens: token id = byte value (vocabulary 256).
 *
 * Later issues put trained tokenizers in the place of bytes; the row form stays.
 */
#ifndef ROUX_DATA_TOKENIZE_H
#define ROUX_DATA_TOKENIZE_H

#include <stdint.h>
#include "base/status.h"

struct tokenize_options {
    const char *const
        *inputs; /* files or folders (every regular file directly inside, sorted by name) */
    int input_count;
    const char *out; /* folder to make: out/train/, and out/val/ if `validation` > 0 */
    int64_t width;   /* tokens a row */
    /* share of rows held out, [0, 1): the last rows of each input, their number settled over all
     * inputs together and rounded down */
    double validation;
    /* pack the inputs: rows run across inputs, with document_ids; else each input begins a row
     * and its last, short row is padded when trained */
    bool documents;
    bool force; /* replace what stands in `out` (only files that this program made) */
};

struct tokenize_report {
    int64_t inputs, bytes;         /* read */
    int64_t rows, validation_rows; /* written to train, to val */
    int64_t tokens;                /* of both */
    /* nats a byte of the held-out bytes under their own order-0 frequencies; of all bytes if
     * none held out */
    double entropy0;
};

/* Writes the folders under temporary names and renames them last: a failed or stopped run leaves
 * nothing that looks whole. */
MUST_USE status tokenize_bytes(const struct tokenize_options *o, struct tokenize_report *out);

#endif
