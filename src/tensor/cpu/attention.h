/*
 * What attention and its derivative are made of: blocks of QUERIES positions of one head, keys and
 * values of one key/value head as floats, and the three products between them.
 *
 *   keys, values   [S, width]          rows of d floats, zeros behind them up to whole vectors
 *   queries        [d, QUERIES]        turned: a vector runs over queries
 *   scores         [keys, QUERIES]     a column is one query, so softmax needs no sum across a vector
 *
 * All of it lies in the thread's scratch. Keys come in whole tiles: the first tile begins at or
 * before the earliest key that a query of the block sees, the last one ends at or behind the last,
 * and what a query may not see is exactly zero. Every sum over keys or queries is one chain of
 * floats, in their order, heads one after another; so zeros leave no trace in it, and neither does
 * the place where a block, a tile or a thread's share begins: what a query or a key gets depends on
 * what it sees alone. (Sums of floats also in families with bf16 products: pairs of keys would show
 * where they begin, and weights would lose their lower half.)
 */
#ifndef ROUX_TENSOR_CPU_ATTENTION_H
#define ROUX_TENSOR_CPU_ATTENTION_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/transpose.h"

enum {
    TILE_ROWS = LANES == 16 ? 8 : 4,
    TILE_VECS = LANES == 4 ? 2 : 3,
    QUERIES = 48,
    VECS = QUERIES / LANES,
    CHUNK = 64 /* keys whose scores, values and sums stay in the first cache together */
};

/* ---- the thread's scratch ---- */

struct own {
    float *keys, *values;       /* [S, width] */
    float *dkeys, *dvalues;     /* [S, width], in the place of all_scores */
    float *all_scores;          /* [S, QUERIES] */
    float *scores, *slopes;     /* [CHUNK, QUERIES] */
    float *q_turned, *o_turned; /* [width, QUERIES] */
    float *q, *o, *sums;        /* [QUERIES, width] */
    int64_t width;              /* d, up to whole vectors */
    int64_t pair, from, ready;  /* keys and values hold positions [from, ready) of this pair */
};

static inline int64_t whole(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* How many floats; each part is a multiple of 64 bytes. */
static inline int64_t own_floats(const struct attention_args *a)
{
    int64_t width = whole(a->d, LANES), rows = whole(a->S, TILE_ROWS),
            wide = width > QUERIES / 2 ? width : QUERIES / 2;

    return 2 * rows * width + 2 * rows * wide + 2 * CHUNK * QUERIES + 5 * width * QUERIES;
}

static inline struct own own_at(const struct attention_args *a, struct team t)
{
    float *at = (float *)a->scratch + t.thread * own_floats(a);
    int64_t width = whole(a->d, LANES), rows = whole(a->S, TILE_ROWS), block = width * QUERIES;
    struct own own = { .scores = at, .width = width, .pair = -1 };

    own.slopes = own.scores + CHUNK * QUERIES;
    own.q_turned = own.slopes + CHUNK * QUERIES;
    own.o_turned = own.q_turned + block;
    own.q = own.o_turned + block;
    own.o = own.q + block;
    own.sums = own.o + block;
    own.keys = own.sums + block;
    own.values = own.keys + rows * width;
    own.all_scores = own.values + rows * width;
    own.dkeys = own.all_scores;
    own.dvalues = own.dkeys + rows * width;
    return own;
}

/* ---- blocks ---- */

struct block {
    int64_t first, queries; /* positions of the queries */
    int64_t key, end;       /* keys [key, end): whole tiles */
    int64_t highest;        /* the highest of low */
    int32_t low[QUERIES];   /* the first key that each query sees; of idle columns 0 */
};

static inline int64_t block_count(const struct attention_args *a)
{
    return (a->S + QUERIES - 1) / QUERIES;
}

static inline struct block block_at(const struct attention_args *a, int64_t b, int64_t index)
{
    struct block k = { .first = index * QUERIES };

    k.queries = a->S - k.first < QUERIES ? a->S - k.first : QUERIES;
    k.key = k.first;
    for (int64_t i = 0; i < k.queries; i++) {
        int64_t at = k.first + i, low = a->starts == NULL ? 0 : a->starts[b * a->S + at];

        if (a->window > 0 && at - a->window + 1 > low) {
            low = at - a->window + 1;
        }
        k.low[i] = (int32_t)low;
        k.key = low < k.key ? low : k.key;
        k.highest = low > k.highest ? low : k.highest;
    }
    k.key = k.key / TILE_ROWS * TILE_ROWS;
    k.end = whole(k.first + k.queries, TILE_ROWS);
    return k;
}

/* How many keys of [from, to) the block takes. */
static inline int64_t block_cost(const struct block *k, int64_t from, int64_t to)
{
    from = k->key > from ? k->key : from;
    to = k->end < to ? k->end : to;
    return to > from ? to - from : 0;
}

/* How many of them all blocks of a head in sequence b take. */
static inline int64_t sequence_cost(const struct attention_args *a, int64_t b, int64_t from,
                                    int64_t to)
{
    int64_t cost = 0;

    for (int64_t i = from / QUERIES; i < block_count(a); i++) {
        struct block k = block_at(a, b, i);

        cost += block_cost(&k, from, to);
    }
    return cost;
}

/* Where a query does not see a key of [from, to) the score becomes minus infinity. */
static inline void mask(const struct block *k, int64_t from, int64_t to, float *scores)
{
    ivec lane;

    for (int l = 0; l < LANES; l++) {
        lane[l] = l;
    }
    for (int64_t j = from; j < to; j++, scores += QUERIES) {
        if (j >= k->highest && j <= k->first) {
            continue;
        }
        for (int v = 0; v < VECS; v++) {
            ivec low, own = lane + (int32_t)(k->first + v * LANES);

            memcpy(&low, k->low + v * LANES, sizeof low);
            vec_store(scores + v * LANES,
                      vec_select((low <= (int32_t)j) & (own >= (int32_t)j),
                                 vec_load(scores + v * LANES), vec_of(-INFINITY)));
        }
    }
}

/* ---- rows as floats ---- */

/* to [rows, width] = rows of d elements. */
static inline void rows_widen(float *to, int64_t width, const elem *from, int64_t ld, int64_t rows,
                              int64_t d)
{
    for (int64_t j = 0; j < rows; j++, to += width, from += ld) {
        int64_t c = 0;

        for (; c + LANES <= d; c += LANES) {
            vec_store(to + c, elem_load(from + c));
        }
        if (c < d) {
            vec_store(to + c, elem_load_some(from + c, d - c));
        }
    }
}

static inline void rows_store(elem *to, int64_t ld, const float *from, int64_t width, int64_t rows,
                              int64_t d, float scale)
{
    for (int64_t j = 0; j < rows; j++, to += ld, from += width) {
        int64_t c = 0;

        for (; c + LANES <= d; c += LANES) {
            elem_store(to + c, vec_load(from + c) * scale);
        }
        if (c < d) {
            elem_store_some(to + c, vec_load(from + c) * scale, d - c);
        }
    }
}

/* to [width, QUERIES] = rows of d elements, turned; idle columns are zeros. */
static inline void rows_turn(float *to, const elem *from, int64_t ld, int64_t rows, int64_t d)
{
    for (int64_t c = 0; c < d; c += LANES) {
        for (int64_t q = 0; q < QUERIES; q += LANES) {
            uvec t[LANES];

            for (int i = 0; i < LANES; i++) {
                const elem *at = from + (q + i) * ld + c;

                t[i] = (uvec)vec_of(0);
                if (q + i < rows) {
                    t[i] = (uvec)(d - c >= LANES ? elem_load(at) : elem_load_some(at, d - c));
                }
            }
            transpose(t);
            for (int i = 0; i < LANES; i++) {
                vec_store(to + (c + i) * QUERIES + q, (vec)t[i]);
            }
        }
    }
}

/* Makes keys and values [key, end) of a pair of sequence and key/value head ready, where they are
 * not; behind the sequence they are zeros. Of one pair, `key` is the same each time or below what
 * is ready. */
static inline void keys_ready(const struct attention_args *a, struct own *own, int64_t pair,
                              int64_t key, int64_t end)
{
    int64_t from, rows, row, head = pair % a->G * a->d;

    if (own->pair != pair || key < own->from || key > own->ready) {
        own->pair = pair;
        own->from = key;
        own->ready = key;
    }
    if (own->ready >= end) {
        return;
    }
    from = own->ready;
    rows = (end < a->S ? end : a->S) - from;
    row = pair / a->G * a->S + from;
    rows_widen(own->keys + from * own->width, own->width, (const elem *)a->k + row * a->ldk + head,
               a->ldk, rows, a->d);
    rows_widen(own->values + from * own->width, own->width,
               (const elem *)a->v + row * a->ldv + head, a->ldv, rows, a->d);
    if (end > a->S) {
        size_t idle = (size_t)((end - a->S) * own->width) * sizeof(float);

        memset(own->keys + a->S * own->width, 0, idle);
        memset(own->values + a->S * own->width, 0, idle);
    }
    own->ready = end;
}

/* ---- the tile ---- */

/* Accumulators have names because gcc keeps an array of them in memory. */
struct row {
    vec c0, c1, c2;
};

static inline __attribute__((always_inline)) void row_add(struct row *r, float a, vec b0, vec b1,
                                                          vec b2, int vecs)
{
    r->c0 += a * b0;
    if (vecs > 1) {
        r->c1 += a * b1;
    }
    if (vecs > 2) {
        r->c2 += a * b2;
    }
}

static inline __attribute__((always_inline)) struct row row_begin(const float *c, int vecs,
                                                                  bool chain)
{
    struct row r = { vec_of(0), vec_of(0), vec_of(0) };

    if (chain) {
        r.c0 = vec_load(c);
        r.c1 = vecs > 1 ? vec_load(c + LANES) : r.c1;
        r.c2 = vecs > 2 ? vec_load(c + 2 * LANES) : r.c2;
    }
    return r;
}

static inline __attribute__((always_inline)) void row_end(float *c, const struct row *r, int vecs)
{
    vec_store(c, r->c0);
    if (vecs > 1) {
        vec_store(c + LANES, r->c1);
    }
    if (vecs > 2) {
        vec_store(c + 2 * LANES, r->c2);
    }
}

/* c [TILE_ROWS, vecs vectors] = sum over n terms of a (element (i, r) at i * a_row + r * a_red)
 * times rows of b; with `chain` the sums go on from what c holds. */
static inline __attribute__((always_inline)) void tile(float *c, int64_t ldc, const float *a,
                                                       int64_t a_row, int64_t a_red, const float *b,
                                                       int64_t ldb, int64_t n, int vecs, bool chain)
{
    struct row r0 = row_begin(c, vecs, chain), r1 = row_begin(c + ldc, vecs, chain),
               r2 = row_begin(c + 2 * ldc, vecs, chain), r3 = row_begin(c + 3 * ldc, vecs, chain),
               r4 = { 0 }, r5 = { 0 }, r6 = { 0 }, r7 = { 0 };

    if (TILE_ROWS > 4) {
        r4 = row_begin(c + 4 * ldc, vecs, chain);
        r5 = row_begin(c + 5 * ldc, vecs, chain);
        r6 = row_begin(c + 6 * ldc, vecs, chain);
        r7 = row_begin(c + 7 * ldc, vecs, chain);
    }
    for (int64_t r = 0; r < n; r++, a += a_red, b += ldb) {
        vec b0 = vec_load(b), b1 = vecs > 1 ? vec_load(b + LANES) : b0,
            b2 = vecs > 2 ? vec_load(b + 2 * LANES) : b0;

        row_add(&r0, a[0], b0, b1, b2, vecs);
        row_add(&r1, a[a_row], b0, b1, b2, vecs);
        row_add(&r2, a[2 * a_row], b0, b1, b2, vecs);
        row_add(&r3, a[3 * a_row], b0, b1, b2, vecs);
        if (TILE_ROWS > 4) {
            row_add(&r4, a[4 * a_row], b0, b1, b2, vecs);
            row_add(&r5, a[5 * a_row], b0, b1, b2, vecs);
            row_add(&r6, a[6 * a_row], b0, b1, b2, vecs);
            row_add(&r7, a[7 * a_row], b0, b1, b2, vecs);
        }
    }
    row_end(c, &r0, vecs);
    row_end(c + ldc, &r1, vecs);
    row_end(c + 2 * ldc, &r2, vecs);
    row_end(c + 3 * ldc, &r3, vecs);
    if (TILE_ROWS > 4) {
        row_end(c + 4 * ldc, &r4, vecs);
        row_end(c + 5 * ldc, &r5, vecs);
        row_end(c + 6 * ldc, &r6, vecs);
        row_end(c + 7 * ldc, &r7, vecs);
    }
}

/* ---- the three products ----
 *
 * `ahead` is how far the first key lies ahead of the first query. Key j of a chunk is hidden from
 * query i where ahead + j > i; tiles and vectors that lie wholly there are neither computed nor
 * read.
 */

static inline __attribute__((always_inline)) void tile_any(float *c, int64_t ldc, const float *a,
                                                           int64_t a_row, int64_t a_red,
                                                           const float *b, int64_t ldb, int64_t n,
                                                           int vecs, bool chain)
{
    if (vecs == 1) {
        tile(c, ldc, a, a_row, a_red, b, ldb, n, 1, chain);
    } else if (vecs == 2) {
        tile(c, ldc, a, a_row, a_red, b, ldb, n, 2, chain);
    } else {
        tile(c, ldc, a, a_row, a_red, b, ldb, n, 3, chain);
    }
}

/* The vectors of a row spread evenly over the fewest tiles: how many the next one gets. */
static inline int tile_vecs(int64_t vecs)
{
    int64_t tiles = (vecs + TILE_VECS - 1) / TILE_VECS;

    return (int)((vecs + tiles - 1) / tiles);
}

static inline int64_t at_least_0(int64_t n)
{
    return n > 0 ? n : 0;
}

/* How many of the keys some of the queries [0, queries) of the block see. */
static inline int64_t keys_seen(int64_t keys, int64_t ahead, int64_t queries)
{
    return queries - ahead < keys ? at_least_0(queries - ahead) : keys;
}

/* scores [keys, QUERIES] = rows [keys, width] times turned [d, QUERIES]. */
static inline void scores_of(float *scores, const float *rows, int64_t width, const float *turned,
                             int64_t d, int64_t keys, int64_t ahead)
{
    for (int64_t j = 0; j < keys; j += TILE_ROWS) {
        int vecs;

        for (int64_t v = at_least_0(ahead + j) / LANES; v < VECS; v += vecs) {
            vecs = tile_vecs(VECS - v);
            tile_any(scores + j * QUERIES + v * LANES, QUERIES, rows + j * width, width, 1,
                     turned + v * LANES, QUERIES, d, vecs, false);
        }
    }
}

/* sums [QUERIES, width] += weights [keys, QUERIES]^T times rows [keys, width]. */
static inline void sum_over_keys(float *sums, int64_t width, const float *weights,
                                 const float *rows, int64_t keys, int64_t ahead)
{
    int vecs;

    for (int64_t c = 0; c < width; c += vecs * LANES) {
        vecs = tile_vecs((width - c) / LANES);
        for (int64_t i = 0; i < QUERIES; i += TILE_ROWS) {
            tile_any(sums + i * width + c, width, weights + i, 1, QUERIES, rows + c, width,
                     keys_seen(keys, ahead, i + TILE_ROWS), vecs, true);
        }
    }
}

/* sums [keys, width] += weights [keys, QUERIES] times rows [queries, width]. */
static inline void sum_over_queries(float *sums, int64_t width, const float *weights,
                                    const float *rows, int64_t queries, int64_t keys, int64_t ahead)
{
    int vecs;

    for (int64_t c = 0; c < width; c += vecs * LANES) {
        vecs = tile_vecs((width - c) / LANES);
        for (int64_t j = 0; j < keys; j += TILE_ROWS) {
            int64_t i = at_least_0(ahead + j);

            tile_any(sums + j * width + c, width, weights + j * QUERIES + i, QUERIES, 1,
                     rows + i * width + c, width, queries - i, vecs, true);
        }
    }
}

/* ---- shares ---- */

/* Units of work in order, each of a known cost: a thread gets those whose middle lies in its part
 * of the whole. */
struct share {
    int64_t from, to, passed;
};

static inline struct share share_of(int64_t whole_cost, struct team t)
{
    struct share s = { 0 };

    team_share(t, whole_cost, &s.from, &s.to);
    return s;
}

static inline bool share_takes(struct share *s, int64_t cost)
{
    int64_t middle = s->passed + cost / 2;

    s->passed += cost;
    return middle >= s->from && middle < s->to;
}

#endif
