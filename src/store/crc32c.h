/* CRC-32C (Castagnoli), as event files have it. Not a door. */
#ifndef ROUX_STORE_CRC32C_H
#define ROUX_STORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Reflected polynomial 0x82f63b78, begun with and complemented by all ones: of "123456789" it is
 * 0xe3069283. */
uint32_t crc32c(const void *bytes, size_t length);

/* The form in which a record carries it: rotated by 15 bits and shifted by a constant, since the
 * sum of a text that holds its own sum says little. */
uint32_t crc32c_masked(const void *bytes, size_t length);

#endif
