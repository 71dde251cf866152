/* The header rules of safetensors on any bytes: four of them give the size of the data, the others are the header. */
#include <stdlib.h>
#include <string.h>
#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = { 0 };
    struct tensor_file f;
    uint32_t data_size;
    char *header;

    if (size < sizeof data_size) {
        return 0;
    }
    memcpy(&data_size, data, sizeof data_size);
    size -= sizeof data_size;
    /* A copy of the exact length, so that one byte too far is seen. */
    header = malloc(size + (size == 0));
    memcpy(header, data + sizeof data_size, size);
    if (tensor_header_parse(&f, &a, "fuzz", header, size, 8 + (uint64_t)size + data_size) == OK) {
        uint64_t at = f.data_begin;

        for (size_t i = 0; i < f.count; i++) {
            check(f.entries[i].begin == at && f.entries[i].end >= at,
                  "a hole or overlap was let through");
            check(tensor_file_find(&f, f.entries[i].name) == &f.entries[i],
                  "a tensor is not found by its name");
            at = f.entries[i].end;
        }
        check(at == f.size, "the data does not end with the file");
        tensor_file_close(&f);
    }
    free(header);
    arena_release(&a);
    return 0;
}
