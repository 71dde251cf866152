/*
 * The derivative of attention. With p = exp(scale * score - lse) and D = sum(do * o) of a query,
 *
 *   dv += p do    ds = p (do . v - D)    dq = scale * sum of ds k    dk += scale * ds q
 *
 * chunk by chunk of keys for each block of queries. dk and dv collect in floats, head by head, block
 * by block. One thread does all of a pair of sequence and key/value head where these can be shared
 * out evenly. For the pairs that are left dq is shared out by blocks of queries and dk, dv by
 * ranges of keys, at the price of forming the weights twice. Every sum has the same order either
 * way.
 */
#include "tensor/cpu/attention.h"

enum wanted { WANT_QUERIES = 1, WANT_KEYS = 2 };

/* What belongs to a block of queries of one head. */
struct head {
    float lse[QUERIES], drop[QUERIES];
};

static float dot(const elem *a, const elem *b, int64_t n)
{
    vec sum = vec_of(0);
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        sum += elem_load(a + i) * elem_load(b + i);
    }
    if (i < n) {
        sum += elem_load_some(a + i, n - i) * elem_load_some(b + i, n - i);
    }
    return vec_sum(sum);
}

/* Query head h of sequence b: lse and D of its queries, and q and do as the products want them. */
static void head_begin(const struct attention_args *a, const struct block *k, int64_t b, int64_t h,
                       int wanted, const struct own *own, struct head *head)
{
    int64_t row = b * a->S + k->first, query = row * a->ldq + h * a->d,
            out = row * a->ldo + h * a->d, dout = row * a->lddo + h * a->d;
    const elem *q = (const elem *)a->q + query, *d = (const elem *)a->dout + dout;

    memset(head, 0, sizeof *head);
    memcpy(head->lse, (const float *)a->lse + (b * a->H + h) * a->S + k->first,
           (size_t)k->queries * sizeof(float));
    for (int64_t i = 0; i < k->queries; i++) {
        head->drop[i] = dot(d + i * a->lddo, (const elem *)a->o + out + i * a->ldo, a->d);
    }
    rows_turn(own->q_turned, q, a->ldq, k->queries, a->d);
    rows_turn(own->o_turned, d, a->lddo, k->queries, a->d);
    if (wanted & WANT_KEYS) {
        rows_widen(own->q, own->width, q, a->ldq, k->queries, a->d);
        rows_widen(own->o, own->width, d, a->lddo, k->queries, a->d);
    }
}

/* scores -> p, slopes -> ds; both are zero where the score is minus infinity. */
static void slopes_of(float *scores, float *slopes, int64_t keys, int64_t ahead, float scale,
                      const struct head *head)
{
    for (int v = 0; v < QUERIES; v += LANES) {
        vec low = vec_load(head->lse + v), off = vec_load(head->drop + v);

        for (int64_t j = 0; j < keys_seen(keys, ahead, v + LANES); j++) {
            int64_t at = j * QUERIES + v;
            vec p = vec_exp(scale * vec_load(scores + at) - low);

            vec_store(scores + at, p);
            vec_store(slopes + at, p * (vec_load(slopes + at) - off));
        }
    }
}

/* Keys [from, to), at most CHUNK of them. */
static void chunk_backward(const struct attention_args *a, const struct block *k,
                           const struct head *head, int64_t from, int64_t to, int wanted,
                           const struct own *own)
{
    int64_t keys = to - from, ahead = from - k->first, width = own->width, at = from * width;

    scores_of(own->scores, own->keys + at, width, own->q_turned, a->d, keys, ahead);
    mask(k, from, to, own->scores);
    scores_of(own->slopes, own->values + at, width, own->o_turned, a->d, keys, ahead);
    slopes_of(own->scores, own->slopes, keys, ahead, (float)a->scale, head);
    if (wanted & WANT_QUERIES) {
        sum_over_keys(own->sums, width, own->slopes, own->keys + at, keys, ahead);
    }
    if (wanted & WANT_KEYS) {
        sum_over_queries(own->dvalues + at, width, own->scores, own->o, k->queries, keys, ahead);
        sum_over_queries(own->dkeys + at, width, own->slopes, own->q, k->queries, keys, ahead);
    }
}

/* Query head h of a pair, keys [from, to) that the block sees. */
static void block_backward(const struct attention_args *a, const struct block *k, int64_t pair,
                           int64_t h, int64_t from, int64_t to, int wanted, struct own *own)
{
    int64_t b = pair / a->G, row = b * a->S + k->first;
    struct head head;

    from = k->key > from ? k->key : from;
    to = k->end < to ? k->end : to;
    if (from >= to) {
        return;
    }
    keys_ready(a, own, pair, from, to);
    head_begin(a, k, b, h, wanted, own, &head);
    memset(own->sums, 0, (size_t)(QUERIES * own->width) * sizeof(float));
    for (int64_t j = from; j < to; j += CHUNK) {
        chunk_backward(a, k, &head, j, to - j < CHUNK ? to : j + CHUNK, wanted, own);
    }
    if (wanted & WANT_QUERIES) {
        rows_store((elem *)a->dq + row * a->lddq + h * a->d, a->lddq, own->sums, own->width,
                   k->queries, a->d, (float)a->scale);
    }
}

/* dk and dv of a pair at keys [from, to), whole tiles, and with WANT_QUERIES dq of its query heads.
 */
static void keys_backward(const struct attention_args *a, int64_t pair, int64_t from, int64_t to,
                          int wanted, struct own *own)
{
    int64_t each = a->H / a->G, b = pair / a->G, g = pair % a->G, width = own->width,
            rows = (to < a->S ? to : a->S) - from, row = b * a->S + from;

    memset(own->dkeys + from * width, 0, (size_t)((to - from) * width) * sizeof(float));
    memset(own->dvalues + from * width, 0, (size_t)((to - from) * width) * sizeof(float));
    for (int64_t h = g * each; h < (g + 1) * each; h++) {
        for (int64_t i = from / QUERIES; i < block_count(a); i++) {
            struct block k = block_at(a, b, i);

            block_backward(a, &k, pair, h, from, to, wanted, own);
        }
    }
    rows_store((elem *)a->dk + row * a->lddk + g * a->d, a->lddk, own->dkeys + from * width, width,
               rows, a->d, (float)a->scale);
    rows_store((elem *)a->dv + row * a->lddv + g * a->d, a->lddv, own->dvalues + from * width,
               width, rows, a->d, 1);
}

/* ---- shares ---- */

static void share_queries(const struct attention_args *a, int64_t first, struct team t,
                          struct own *own)
{
    int64_t pairs = a->B * a->G, each = a->H / a->G, cost = 0;
    struct share share;

    for (int64_t pair = first; pair < pairs; pair++) {
        cost += each * sequence_cost(a, pair / a->G, 0, a->S);
    }
    share = share_of(cost, t);
    for (int64_t pair = first; pair < pairs; pair++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            struct block k = block_at(a, pair / a->G, i);

            for (int64_t h = 0; h < each; h++) {
                if (share_takes(&share, block_cost(&k, 0, a->S))) {
                    block_backward(a, &k, pair, pair % a->G * each + h, 0, k.end, WANT_QUERIES,
                                   own);
                }
            }
        }
    }
}

/* Long ranges save preparing queries, short ones give each thread something to do. */
static int64_t range_of(const struct attention_args *a, int64_t pairs, int threads)
{
    int64_t range = 4 * QUERIES;

    while (range > QUERIES && pairs * a->S < 3 * range * threads) {
        range /= 2;
    }
    return range;
}

static void share_keys(const struct attention_args *a, int64_t first, struct team t,
                       struct own *own)
{
    int64_t pairs = a->B * a->G, range = range_of(a, pairs - first, t.threads), cost = 0;
    struct share share;

    for (int64_t pair = first; pair < pairs; pair++) {
        cost += sequence_cost(a, pair / a->G, 0, a->S);
    }
    share = share_of(cost, t);
    for (int64_t pair = first; pair < pairs; pair++) {
        for (int64_t from = 0; from < a->S; from += range) {
            int64_t to = from + range < a->S ? from + range : a->S;

            if (share_takes(&share, sequence_cost(a, pair / a->G, from, to))) {
                keys_backward(a, pair, from, whole(to, TILE_ROWS), WANT_KEYS, own);
            }
        }
    }
}

void NAME(attention_d)(const struct attention_args *a, struct team t)
{
    int64_t pairs = a->B * a->G, left = pairs % t.threads, from, to;
    struct own own = own_at(a, t);

    if (7 * left >= 5 * t.threads) { /* products: 5 together, 7 apart */
        left = 0;
    }
    team_share(t, pairs - left, &from, &to);
    for (int64_t pair = from; pair < to; pair++) {
        keys_backward(a, pair, 0, whole(a->S, TILE_ROWS), WANT_KEYS | WANT_QUERIES, &own);
    }
    share_queries(a, pairs - left, t, &own);
    share_keys(a, pairs - left, t, &own);
}
