/* One row of token ids as a JSON object. Of the room data alone, and of its fuzzer; others use
 * data/corpus.h. */
#ifndef ROUX_DATA_ROW_JSON_H
#define ROUX_DATA_ROW_JSON_H

#include "data/corpus.h"

enum { ROW_PROBLEM = 240 };

/* What is wrong with a row: where, in bytes from its beginning, and the text behind "file:line:
 * ". */
struct row_fault {
    size_t at;
    char text[ROW_PROBLEM];
};

/*
 * The object in bytes[0..length), white space around it allowed, to ids, labels and starts (`file`
 * and `line` of `out` are left alone). Needed: input_ids, attention_mask, labels, lists of integers
 * of one length; 0 <= id < vocab <= 2^31 - 1, labels -100 or an id, mask values unused. Optional:
 * document_ids (a new value starts a document), position_ids (0 starts one; else one more than
 * before). All other members are skipped, whatever they hold. False with `fault` filled if the row
 * is not so.
 */
bool row_parse(const char *bytes, size_t length, int64_t vocab, struct arena *a, struct row *out,
               struct row_fault *fault);

#endif
