#include "store/crc32c.h"

/* [i]: what four bits of value i leave behind. Records are some 40 bytes, so a table that fits a
 * cache line is worth more than a wider stride. */
static const uint32_t left_by[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                      0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                      0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                      0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

uint32_t crc32c(const void *bytes, size_t length)
{
    const unsigned char *b = bytes;
    uint32_t c = UINT32_MAX;

    for (size_t i = 0; i < length; i++) {
        c ^= b[i];
        c = left_by[c & 15] ^ c >> 4;
        c = left_by[c & 15] ^ c >> 4;
    }
    return ~c;
}

uint32_t crc32c_masked(const void *bytes, size_t length)
{
    uint32_t c = crc32c(bytes, length);

    return (c >> 15 | c << 17) + 0xa282ead8u;
}
