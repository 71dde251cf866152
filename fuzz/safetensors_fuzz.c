/* Any bytes as a safetensors file: the length field and the header's rules. Golden files are
 * seeds as they are. */
#include <stdlib.h>
#include <string.h>
#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = { 0 };
    struct tensor_file f;
    uint64_t length = 0;
    char *header;

    if (size < 8) {
        return 0;
    }
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | data[i];
    }
    if (length > size - 8) {
        length = size - 8; /* mutations of the length alone would end here too often */
    }
    /* A copy of the exact length, so that one byte too far is seen. */
    header = malloc(length + (length == 0));
    check(header != NULL, "no memory for a header");
    memcpy(header, data + 8, length);
    if (tensor_header_parse(&f, &a, "fuzz", header, length, size) == OK) {
        uint64_t at = f.data_begin;

        for (size_t i = 0; i < f.count; i++) {
            check(f.entries[i].begin == at && f.entries[i].end >= at, "a hole was let through");
            check(tensor_file_find(&f, f.entries[i].name) == &f.entries[i], "a name finds another");
            at = f.entries[i].end;
        }
        check(at == f.size, "the data does not end with the file");
        tensor_file_close(&f);
    }
    free(header);
    arena_release(&a);
    return 0;
}
