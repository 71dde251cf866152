/* What the files of this room share about tensor headers; others use store/safetensors.h. */
#ifndef ROUX_STORE_TENSOR_HEADER_H
#define ROUX_STORE_TENSOR_HEADER_H

#include "store/safetensors.h"

enum { SHOWN_NAME = 100 };

/* A tensor's name for a message. Names come from files: this one is cut and made printable.
 * Returns `out`. */
const char *tensor_name_shown(const char *name, char out[SHOWN_NAME]);

/* The rule for the length field alone; `file_size` is at least 8. */
MUST_USE status tensor_header_check_length(const char *path, uint64_t length, uint64_t file_size);

#endif
