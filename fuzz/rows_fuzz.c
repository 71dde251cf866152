/* Any bytes as lines of JSON rows, by each of some vocabularies. Golden data sets are seeds as
 * they are. */
#include <stdlib.h>
#include <string.h>
#include "data/row_json.h"

static void try_row(const uint8_t *line, size_t length, int64_t vocab)
{
    struct row_fault fault = { 0 };
    struct arena a = { 0 };
    struct row row = { 0 };
    /* A copy of the exact length, so that one byte too far is seen. */
    char *text = malloc(length + (length == 0));

    check(text != NULL, "no memory for a row");
    memcpy(text, line, length);
    if (row_parse(text, length, vocab, &a, &row, &fault)) {
        for (int64_t i = 0; i < row.length; i++) {
            check(row.ids[i] >= 0 && row.ids[i] < vocab, "an id outside was let through");
            check(row.labels[i] == -100 || (row.labels[i] >= 0 && row.labels[i] < vocab),
                  "a label that is no id was let through");
            check(row.starts[i] <= i && (i == 0 || row.starts[i] >= row.starts[i - 1]),
                  "documents begin in the wrong order");
        }
    } else {
        check(fault.at <= length && fault.text[0] != '\0', "a fault without place or text");
    }
    free(text);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t vocabularies[4] = { 1, 256, 50000, INT32_MAX };
    const uint8_t *end = data + size;

    for (int line = 0; data < end; line++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        const uint8_t *stop = newline == NULL ? end : newline;

        try_row(data, (size_t)(stop - data), vocabularies[(size + (size_t)line) % 4]);
        data = newline == NULL ? end : newline + 1;
    }
    return 0;
}
