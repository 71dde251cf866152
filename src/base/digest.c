#include "base/digest.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include "base/status.h"

struct digest digest_of(const void *bytes, size_t length)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);

    return (struct digest){ .low = hash.low64, .high = hash.high64 };
}

struct digest digest_of_blocks(const struct digest *blocks, size_t count)
{
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t hash;

    check(state != NULL, "out of memory: a digest's state");
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < count; i++) {
        XXH128_hash_t block = { .low64 = blocks[i].low, .high64 = blocks[i].high };
        XXH128_canonical_t canonical;

        XXH128_canonicalFromHash(&canonical, block);
        XXH3_128bits_update(state, &canonical, sizeof canonical);
    }
    hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return (struct digest){ .low = hash.low64, .high = hash.high64 };
}

bool digest_same(struct digest a, struct digest b)
{
    return a.low == b.low && a.high == b.high;
}

char *digest_text(struct digest d, char out[DIGEST_TEXT])
{
    snprintf(out, DIGEST_TEXT, "%016llx%016llx", (unsigned long long)d.high,
             (unsigned long long)d.low);
    return out;
}

static int hexadecimal_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

bool digest_parse(const char *text, struct digest *out)
{
    uint64_t half[2] = { 0, 0 };

    if (strnlen(text, DIGEST_TEXT) != DIGEST_TEXT - 1) {
        return false;
    }
    for (int i = 0; i < DIGEST_TEXT - 1; i++) {
        int value = hexadecimal_value(text[i]);

        if (value < 0) {
            return false;
        }
        half[i / 16] = half[i / 16] << 4 | (uint64_t)value;
    }
    *out = (struct digest){ .high = half[0], .low = half[1] };
    return true;
}
