/*
 * XXH3-128 of bytes, whole or block by block (libxxhash). A file's digest is the digest of its
 * blocks' digests, so that a reader can verify any 16 MiB block by itself. Text form: 32 lower-case
 * hexadecimal digits, high half first.
 */
#ifndef ROUX_BASE_DIGEST_H
#define ROUX_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BLOCK = 16 << 20, DIGEST_TEXT = 33 };

struct digest {
    uint64_t low, high;
};

struct digest digest_of(const void *bytes, size_t length);
/* Of `count` block digests, in their canonical (big-endian, high half first) form. */
struct digest digest_of_blocks(const struct digest *blocks, size_t count);
bool digest_same(struct digest a, struct digest b);
char *digest_text(struct digest d, char out[DIGEST_TEXT]);
bool digest_parse(const char *text, struct digest *out); /* exactly 32 hexadecimal digits */

#endif
