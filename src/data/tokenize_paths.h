/* The file side of tokenizing: what is read, where it may go, and how it appears there. Of the
 * room data alone. */
#ifndef ROUX_DATA_TOKENIZE_PATHS_H
#define ROUX_DATA_TOKENIZE_PATHS_H

#include "base/arena.h"
#include "data/tokenize.h"

struct tokenize_input {
    const char *path;
    uint64_t size;          /* at least 1 */
    uint64_t held_out_from; /* byte; `size` if none of it is held out */
};

/* All input files in order, readable and not empty. */
MUST_USE status tokenize_list_inputs(struct arena *a, const struct tokenize_options *o,
                                     struct tokenize_input **inputs, int64_t *count);

/* `out` is free or, with force, holds only what tokenizing made; and no input holds it or lies
 * in it. */
MUST_USE status tokenize_check_out(struct arena *a, const struct tokenize_options *o);

/* Makes an empty folder beside `out`. */
MUST_USE status tokenize_make_partial(struct arena *a, const char *out, const char **partial);

/* Gives the folder its name; what stood there before is removed afterwards. */
MUST_USE status tokenize_publish(struct arena *a, const char *partial, const char *out);

/* Removes the folder after a failure, whose text is kept. */
void tokenize_discard(const char *partial);

#endif
