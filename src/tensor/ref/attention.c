/*
 * Attention by blocks of QUERIES positions of one head. Everything that has a key and a query is
 * held transposed,
 *
 *   scores [keys, QUERIES]      a column is one query, so a vector runs over queries
 *
 * and softmax needs no sum across a vector. Keys are those that some query of the block may see:
 * from the block's earliest document start or window edge to its last position. What a query may
 * not see is exactly zero there, and every sum over keys is one chain, so a query's result depends
 * on its own keys alone.
 */
#include <string.h>

#include "tensor/ref/ref.h"

enum { QUERIES = 32 };

struct block {
    int64_t b, h, g;        /* sequence, query head, key/value head */
    int64_t first, queries; /* positions of the queries */
    int64_t key, keys;      /* positions of the keys */
    int64_t low[QUERIES];   /* the first key that each query sees */
};

static int64_t block_count(const struct attention_args *a)
{
    return (a->S + QUERIES - 1) / QUERIES;
}

static struct block block_at(const struct attention_args *a, int64_t b, int64_t h, int64_t index)
{
    struct block k = { .b = b, .h = h, .g = h / (a->H / a->G), .first = index * QUERIES };

    k.queries = a->S - k.first < QUERIES ? a->S - k.first : QUERIES;
    k.key = k.first;
    for (int64_t i = 0; i < k.queries; i++) {
        int64_t at = k.first + i, low = a->starts == NULL ? 0 : a->starts[b * a->S + at];

        if (a->window > 0 && at - a->window + 1 > low) {
            low = at - a->window + 1;
        }
        k.low[i] = low;
        k.key = low < k.key ? low : k.key;
    }
    k.keys = k.first + k.queries - k.key;
    return k;
}

/* out [keys, QUERIES] = rows of `keys` times rows of `queries`, both of width d; idle columns are
 * zeros. */
static void key_by_query(const struct block *k, const real *keys, int64_t ldk, const real *queries,
                         int64_t ldq, int64_t d, real *out)
{
    struct product p = {
        .a = keys,
        .a_row = ldk,
        .a_red = 1,
        .b = queries,
        .b_red = 1,
        .b_col = ldq,
        .c = out,
        .ldc = QUERIES,
        .rows = k->keys,
        .cols = k->queries,
        .red = d,
        .scale = 1,
    };

    if (k->queries < QUERIES) {
        memset(out, 0, (size_t)(k->keys * QUERIES) * sizeof(real));
    }
    NAME(product)(&p);
}

/* out [queries, d] = weights [keys, QUERIES]^T times rows of `values`. */
static void sum_over_keys(const struct block *k, const real *weights, const real *values,
                          int64_t ldv, int64_t d, real *out, int64_t ldo)
{
    struct product p = {
        .a = weights,
        .a_row = 1,
        .a_red = QUERIES,
        .b = values,
        .b_red = ldv,
        .b_col = 1,
        .c = out,
        .ldc = ldo,
        .rows = k->queries,
        .cols = d,
        .red = k->keys,
        .scale = 1,
        .chain = true,
    };

    NAME(product)(&p);
}

/* out [keys, d] += weights [keys, QUERIES] times rows of `values`. */
static void add_over_queries(const struct block *k, const real *weights, const real *values,
                             int64_t ldv, int64_t d, real *out, int64_t ldo)
{
    struct product p = {
        .a = weights,
        .a_row = QUERIES,
        .a_red = 1,
        .b = values,
        .b_red = ldv,
        .b_col = 1,
        .c = out,
        .ldc = ldo,
        .rows = k->keys,
        .cols = d,
        .red = k->queries,
        .scale = 1,
        .add = true,
    };

    NAME(product)(&p);
}

/* Where a query does not see a key the score is minus infinity. */
static void mask(const struct block *k, real *scores)
{
    for (int64_t i = 0; i < k->queries; i++) {
        for (int64_t j = 0; j < k->low[i] - k->key && j < k->keys; j++) {
            scores[j * QUERIES + i] = -(real)INFINITY;
        }
        for (int64_t j = k->first + i + 1 - k->key; j < k->keys; j++) {
            scores[j * QUERIES + i] = -(real)INFINITY;
        }
    }
}

/* scores -> exp(scale * (score - largest)); the largest and the sum of each query. */
static void softmax(const struct block *k, real *restrict scores, real scale,
                    real *restrict largest, real *restrict sum)
{
    for (int i = 0; i < QUERIES; i++) {
        largest[i] = -(real)INFINITY;
        sum[i] = 0;
    }
    for (int64_t j = 0; j < k->keys; j++) {
        const real *row = scores + j * QUERIES;

        for (int i = 0; i < QUERIES; i++) {
            largest[i] = row[i] > largest[i] ? row[i] : largest[i];
        }
    }
    for (int64_t j = 0; j < k->keys; j++) {
        real *row = scores + j * QUERIES;

        for (int i = 0; i < QUERIES; i++) {
            row[i] = real_exp(scale * (row[i] - largest[i]));
            sum[i] += row[i];
        }
    }
}

static void block_forward(const struct attention_args *a, const struct block *k, real *scores)
{
    int64_t row = k->b * a->S + k->first, key = k->b * a->S + k->key;
    real largest[QUERIES], sum[QUERIES], scale = (real)a->scale;
    real *o = (real *)a->o + row * a->ldo + k->h * a->d;
    real *lse = (real *)a->lse + (k->b * a->H + k->h) * a->S + k->first;

    key_by_query(k, (const real *)a->k + key * a->ldk + k->g * a->d, a->ldk,
                 (const real *)a->q + row * a->ldq + k->h * a->d, a->ldq, a->d, scores);
    mask(k, scores);
    softmax(k, scores, scale, largest, sum);
    sum_over_keys(k, scores, (const real *)a->v + key * a->ldv + k->g * a->d, a->ldv, a->d, o,
                  a->ldo);
    for (int64_t i = 0; i < k->queries; i++) {
        lse[i] = scale * largest[i] + real_log(sum[i]);
        for (int64_t c = 0; c < a->d; c++) {
            o[i * a->ldo + c] /= sum[i];
        }
    }
}

/* scratch [threads][2][S][QUERIES]: scores, and in the derivative their slopes. */
size_t NAME(attention_scratch)(const struct attention_args *a, int threads)
{
    return (size_t)threads * 2 * (size_t)a->S * QUERIES * sizeof(real);
}

static real *own_scratch(const struct attention_args *a, struct team t)
{
    return (real *)a->scratch + t.thread * 2 * a->S * QUERIES;
}

/* Later blocks see more keys; dealing out blocks in turn, moved on by one each head, evens that
 * out. */
static bool is_own(int64_t head, int64_t index, struct team t)
{
    return (head + index) % t.threads == t.thread;
}

void NAME(attention)(const struct attention_args *a, struct team t)
{
    for (int64_t head = 0; head < a->B * a->H; head++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            if (is_own(head, i, t)) {
                struct block k = block_at(a, head / a->H, head % a->H, i);

                block_forward(a, &k, own_scratch(a, t));
            }
        }
    }
}

/*
 * The derivative. With p = exp(scale * score - lse) and D = sum(do * o) of a query,
 *
 *   dv += p do    ds = p (do . v - D) scale    dq = sum of ds k    dk += ds q
 *
 * dk and dv collect head by head, block by block. One thread does all of a key/value head where
 * these can be shared out evenly; else dq is shared out by blocks of queries and dk, dv by blocks
 * of keys, at the price of forming the weights twice. Every sum has the same order either way.
 */
enum wanted { WANT_QUERIES = 1, WANT_KEYS = 2 };

/* scores -> p, slopes -> ds; both are zero where the score is minus infinity. */
static void slopes_of(const struct block *k, const struct attention_args *a, real *restrict p,
                      real *restrict slopes)
{
    real lse[QUERIES] = { 0 }, drop[QUERIES] = { 0 }, scale = (real)a->scale;

    for (int64_t i = 0; i < k->queries; i++) {
        int64_t row = k->b * a->S + k->first + i, head = k->h * a->d;

        drop[i] = NAME(dot)((const real *)a->dout + row * a->lddo + head,
                            (const real *)a->o + row * a->ldo + head, a->d);
        lse[i] = ((const real *)a->lse)[(k->b * a->H + k->h) * a->S + k->first + i];
    }
    for (int64_t j = 0; j < k->keys; j++) {
        real *weight = p + j * QUERIES, *slope = slopes + j * QUERIES;

        for (int i = 0; i < QUERIES; i++) {
            weight[i] = real_exp(scale * weight[i] - lse[i]);
            slope[i] = weight[i] * (slope[i] - drop[i]) * scale;
        }
    }
}

static void block_backward(const struct attention_args *a, const struct block *k, int wanted,
                           real *p)
{
    int64_t row = k->b * a->S + k->first, key = k->b * a->S + k->key;
    int64_t query_head = k->h * a->d, key_head = k->g * a->d;
    const real *q = (const real *)a->q + row * a->ldq + query_head;
    const real *dout = (const real *)a->dout + row * a->lddo + query_head;
    const real *keys = (const real *)a->k + key * a->ldk + key_head;
    const real *values = (const real *)a->v + key * a->ldv + key_head;
    real *slopes = p + a->S * QUERIES;

    key_by_query(k, keys, a->ldk, q, a->ldq, a->d, p);
    mask(k, p);
    key_by_query(k, values, a->ldv, dout, a->lddo, a->d, slopes);
    slopes_of(k, a, p, slopes);
    if (wanted & WANT_QUERIES) {
        sum_over_keys(k, slopes, keys, a->ldk, a->d, (real *)a->dq + row * a->lddq + query_head,
                      a->lddq);
    }
    if (wanted & WANT_KEYS) {
        add_over_queries(k, p, dout, a->lddo, a->d, (real *)a->dv + key * a->lddv + key_head,
                         a->lddv);
        add_over_queries(k, slopes, q, a->ldq, a->d, (real *)a->dk + key * a->lddk + key_head,
                         a->lddk);
    }
}

/* Keeps of the block's keys those in [from, to). */
static void block_narrow(struct block *k, int64_t from, int64_t to)
{
    int64_t end = k->key + k->keys < to ? k->key + k->keys : to;

    k->key = k->key > from ? k->key : from;
    k->keys = end > k->key ? end - k->key : 0;
}

/* dk and dv of key/value head g at positions [from, to), and with WANT_QUERIES dq of its query
 * heads. */
static void keys_backward(const struct attention_args *a, int64_t b, int64_t g, int64_t from,
                          int64_t to, int wanted, real *scratch)
{
    int64_t each = a->H / a->G;

    for (int64_t j = from; j < to; j++) {
        int64_t row = b * a->S + j;

        memset((real *)a->dk + row * a->lddk + g * a->d, 0, (size_t)a->d * sizeof(real));
        memset((real *)a->dv + row * a->lddv + g * a->d, 0, (size_t)a->d * sizeof(real));
    }
    for (int64_t h = g * each; h < (g + 1) * each; h++) {
        for (int64_t i = from / QUERIES; i < block_count(a); i++) {
            struct block k = block_at(a, b, h, i);

            block_narrow(&k, from, to);
            if (k.keys > 0) {
                block_backward(a, &k, wanted, scratch);
            }
        }
    }
}

void NAME(attention_d)(const struct attention_args *a, struct team t)
{
    enum { KEYS = 4 * QUERIES };
    int64_t groups = a->B * a->G, most = (groups + t.threads - 1) / t.threads, from, to;
    real *scratch = own_scratch(a, t);

    if (5 * most * t.threads <= 7 * groups) { /* products: 5 together, 7 apart */
        team_share(t, groups, &from, &to);
        for (int64_t i = from; i < to; i++) {
            keys_backward(a, i / a->G, i % a->G, 0, a->S, WANT_KEYS | WANT_QUERIES, scratch);
        }
        return;
    }
    for (int64_t head = 0; head < a->B * a->H; head++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            if (is_own(head, i, t)) {
                struct block k = block_at(a, head / a->H, head % a->H, i);

                block_backward(a, &k, WANT_QUERIES, scratch);
            }
        }
    }
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t j = 0; j * KEYS < a->S; j++) {
            if (is_own(i, j, t)) {
                to = (j + 1) * KEYS < a->S ? (j + 1) * KEYS : a->S;
                keys_backward(a, i / a->G, i % a->G, j * KEYS, to, WANT_KEYS, scratch);
            }
        }
    }
}
