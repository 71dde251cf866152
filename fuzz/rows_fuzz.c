/* One JSON row on any bytes; the first byte chooses the vocabulary. */
#include <stdlib.h>
#include <string.h>
#include "data/row_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t vocabularies[4] = { 1, 256, 50000, INT32_MAX };
    struct row_fault fault = { 0 };
    struct arena a = { 0 };
    struct row row = { 0 };
    int64_t vocab;
    char *text;

    if (size < 1) {
        return 0;
    }
    vocab = vocabularies[data[0] % 4];
    size--;
    /* A copy of the exact length, so that one byte too far is seen. */
    text = malloc(size + (size == 0));
    memcpy(text, data + 1, size);
    if (row_parse(text, size, vocab, &a, &row, &fault)) {
        for (int64_t i = 0; i < row.length; i++) {
            check(row.ids[i] >= 0 && row.ids[i] < vocab,
                  "an id outside of the vocabulary was let through");
            check(row.labels[i] == -100 || (row.labels[i] >= 0 && row.labels[i] < vocab),
                  "a label is no id");
            check(row.starts[i] <= i && (i == 0 || row.starts[i] >= row.starts[i - 1]),
                  "starts fall");
        }
    } else {
        check(fault.at <= size && fault.text[0] != '\0', "a fault without place or text");
    }
    free(text);
    arena_release(&a);
    return 0;
}
