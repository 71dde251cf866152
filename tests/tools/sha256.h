/*
 * SHA-256 for the golden tools alone: expected.jsonl gives it, and the program itself has no use
 * for it. Source: FIPS 180-4.
 */
#ifndef ROUX_TESTS_SHA256_H
#define ROUX_TESTS_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct sha256 {
    uint32_t state[8];
    unsigned char block[64];
    size_t filled;
    uint64_t length; /* bytes */
};

static inline uint32_t sha256_turn(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static inline void sha256_init(struct sha256 *h)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

static inline void sha256_block(struct sha256 *h)
{
    /* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2
    };
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++) {
        const unsigned char *b = h->block + 4 * i;

        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = sha256_turn(w[i - 15], 7) ^ sha256_turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = sha256_turn(w[i - 2], 17) ^ sha256_turn(w[i - 2], 19) ^ w[i - 2] >> 10;

        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(v, h->state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = sha256_turn(v[4], 6) ^ sha256_turn(v[4], 11) ^ sha256_turn(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = sha256_turn(v[0], 2) ^ sha256_turn(v[0], 13) ^ sha256_turn(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) {
        h->state[i] += v[i];
    }
}

static inline void sha256_add(struct sha256 *h, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;

    h->length += length;
    while (length > 0) {
        size_t room = sizeof h->block - h->filled, now = length < room ? length : room;

        memcpy(h->block + h->filled, p, now);
        h->filled += now;
        p += now;
        length -= now;
        if (h->filled == sizeof h->block) {
            sha256_block(h);
            h->filled = 0;
        }
    }
}

static inline void sha256_text(struct sha256 *h, char out[65])
{
    uint64_t bits = h->length * 8;
    unsigned char end[72] = { 0x80 };
    size_t pad = (h->filled < 56 ? 56 : 120) - h->filled;

    for (int i = 0; i < 8; i++) {
        end[pad + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    sha256_add(h, end, pad + 8);
    for (int i = 0; i < 8; i++) {
        snprintf(out + 8 * i, 9, "%08x", h->state[i]);
    }
}

#endif
