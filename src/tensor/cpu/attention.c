/*
 * Attention by blocks of QUERIES positions of one head. Everything that has a key and a query is
 * held transposed,
 *
 *   scores [keys, QUERIES]      a column is one query, so a vector runs over queries
 *
 * and softmax needs no sum across a vector. Keys are those that some query of the block may see:
 * from the block's earliest document start or window edge to its last position. What a query may
 * not see is exactly zero there, and every sum over keys is one chain of floats, so a query's
 * result depends on its own keys alone. (Families with bf16 products take these kernels from their
 * neighbour with float products: pairs of keys would show, and weights stay floats.)
 *
 *   scratch of a thread   product; scores [S, QUERIES]; slopes [S, QUERIES]; dk, dv [S, d] floats
 */
#include "tensor/cpu/cpu.h"

enum { QUERIES = 48, VECS = QUERIES / LANES };

struct block {
    int64_t b, h, g;        /* sequence, query head, key/value head */
    int64_t first, queries; /* positions of the queries */
    int64_t key, keys;      /* positions of the keys */
    int64_t low[QUERIES];   /* the first key that each query sees */
};

/* What a thread needs for itself. dk and dv begin at position `from` of their sequence. */
struct own {
    void *product;
    float *scores, *slopes, *dk, *dv;
    int64_t from;
};

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t longest(const struct attention_args *a)
{
    return a->S > a->d ? a->S : a->d;
}

static size_t own_bytes(const struct attention_args *a)
{
    size_t S = (size_t)a->S;

    return NAME(product_scratch)(a->S > QUERIES ? a->S : QUERIES, longest(a)) +
           2 * rounded(S * QUERIES * sizeof(float)) + 2 * rounded(S * (size_t)a->d * sizeof(float));
}

size_t NAME(attention_scratch)(const struct attention_args *a, int threads)
{
    return (size_t)threads * own_bytes(a);
}

static struct own own_at(const struct attention_args *a, struct team t)
{
    char *at = (char *)a->scratch + (size_t)t.thread * own_bytes(a);
    size_t scores = rounded((size_t)a->S * QUERIES * sizeof(float)),
           rows = rounded((size_t)(a->S * a->d) * sizeof(float));
    struct own o = { .product = at };

    at += NAME(product_scratch)(a->S > QUERIES ? a->S : QUERIES, longest(a));
    o.scores = (float *)(void *)at;
    o.slopes = (float *)(void *)(at + scores);
    o.dk = (float *)(void *)(at + 2 * scores);
    o.dv = (float *)(void *)(at + 2 * scores + rows);
    return o;
}

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

/* ---- the three products of a block ---- */

/* out [keys, QUERIES] = rows of `keys` times rows of `queries`, both of width d; idle columns are
 * zeros. */
static void key_by_query(const struct block *k, const elem *keys, int64_t ldk, const elem *queries,
                         int64_t ldq, int64_t d, float *out, void *scratch)
{
    struct product p = {
        .a = { keys, ldk, 1, false },
        .b = { queries, ldq, 1, false },
        .c = out,
        .ldc = QUERIES,
        .rows = k->keys,
        .cols = k->queries,
        .red = d,
        .scale = 1,
        .wide = true,
        .scratch = scratch,
    };

    if (k->queries < QUERIES) {
        memset(out, 0, (size_t)(k->keys * QUERIES) * sizeof *out);
    }
    NAME(product)(&p);
}

/* out [queries, d] = weights [keys, QUERIES]^T times rows of `values`. */
static void sum_over_keys(const struct block *k, const float *weights, const elem *values,
                          int64_t ldv, int64_t d, elem *out, int64_t ldo, void *scratch)
{
    struct product p = {
        .a = { weights, 1, QUERIES, true },
        .b = { values, 1, ldv, false },
        .c = out,
        .ldc = ldo,
        .rows = k->queries,
        .cols = d,
        .red = k->keys,
        .scale = 1,
        .wide = ELEM_WIDE,
        .chain = true,
        .scratch = scratch,
    };

    NAME(product)(&p);
}

/* out [keys, d] += weights [keys, QUERIES] times rows of `values`. */
static void add_over_queries(const struct block *k, const float *weights, const elem *values,
                             int64_t ldv, int64_t d, float *out, void *scratch)
{
    struct product p = {
        .a = { weights, QUERIES, 1, true },
        .b = { values, 1, ldv, false },
        .c = out,
        .ldc = d,
        .rows = k->keys,
        .cols = d,
        .red = k->queries,
        .scale = 1,
        .wide = true,
        .add = true,
        .scratch = scratch,
    };

    NAME(product)(&p);
}

/* ---- forward ---- */

/* Where a query does not see a key the score is minus infinity. */
static void mask(const struct block *k, float *scores)
{
    for (int64_t i = 0; i < k->queries; i++) {
        for (int64_t j = 0; j < k->low[i] - k->key && j < k->keys; j++) {
            scores[j * QUERIES + i] = -INFINITY;
        }
        for (int64_t j = k->first + i + 1 > k->key ? k->first + i + 1 - k->key : 0; j < k->keys;
             j++) {
            scores[j * QUERIES + i] = -INFINITY;
        }
    }
}

/* scores -> exp(scale * (score - largest)) / sum; lse [queries]. */
static void softmax(const struct block *k, float *scores, float scale, float *lse)
{
    float logs[QUERIES];

    for (int v = 0; v < VECS; v++) {
        float *at = scores + v * LANES;
        vec largest = vec_of(-INFINITY), sum = vec_of(0), inverse;

        for (int64_t j = 0; j < k->keys; j++) {
            largest = vec_max(largest, vec_load(at + j * QUERIES));
        }
        for (int64_t j = 0; j < k->keys; j++) {
            vec e = vec_exp(scale * (vec_load(at + j * QUERIES) - largest));

            sum += e;
            vec_store(at + j * QUERIES, e);
        }
        inverse = 1 / sum;
        for (int64_t j = 0; j < k->keys; j++) {
            vec_store(at + j * QUERIES, vec_load(at + j * QUERIES) * inverse);
        }
        for (int l = 0; l < LANES; l++) {
            logs[v * LANES + l] = scale * largest[l] + logf(sum[l]);
        }
    }
    memcpy(lse, logs, (size_t)k->queries * sizeof *lse);
}

static void block_forward(const struct attention_args *a, const struct block *k,
                          const struct own *own)
{
    int64_t row = k->b * a->S + k->first, key = k->b * a->S + k->key;
    elem *o = (elem *)a->o + row * a->ldo + k->h * a->d;
    float *lse = (float *)a->lse + (k->b * a->H + k->h) * a->S + k->first;

    key_by_query(k, (const elem *)a->k + key * a->ldk + k->g * a->d, a->ldk,
                 (const elem *)a->q + row * a->ldq + k->h * a->d, a->ldq, a->d, own->scores,
                 own->product);
    mask(k, own->scores);
    softmax(k, own->scores, (float)a->scale, lse);
    sum_over_keys(k, own->scores, (const elem *)a->v + key * a->ldv + k->g * a->d, a->ldv, a->d, o,
                  a->ldo, own->product);
}

/* Later blocks see more keys; dealing out blocks in turn, moved on by one each head, evens that
 * out. */
static bool is_own(int64_t head, int64_t index, struct team t)
{
    return (head + index) % t.threads == t.thread;
}

void NAME(attention)(const struct attention_args *a, struct team t)
{
    struct own own = own_at(a, t);

    for (int64_t head = 0; head < a->B * a->H; head++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            if (is_own(head, i, t)) {
                struct block k = block_at(a, head / a->H, head % a->H, i);

                block_forward(a, &k, &own);
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

/* scores -> p, slopes -> ds; both are zero where the score is minus infinity. */
static void slopes_of(const struct block *k, const struct attention_args *a, float *p,
                      float *slopes)
{
    float lse[QUERIES] = { 0 }, drop[QUERIES] = { 0 }, scale = (float)a->scale;

    for (int64_t i = 0; i < k->queries; i++) {
        int64_t row = (k->b * a->S + k->first + i) * a->ldo + k->h * a->d;

        drop[i] = dot((const elem *)a->dout + row, (const elem *)a->o + row, a->d);
        lse[i] = ((const float *)a->lse)[(k->b * a->H + k->h) * a->S + k->first + i];
    }
    for (int v = 0; v < VECS; v++) {
        vec low = vec_load(lse + v * LANES), off = vec_load(drop + v * LANES);

        for (int64_t j = 0; j < k->keys; j++) {
            float *weight = p + j * QUERIES + v * LANES, *slope = slopes + j * QUERIES + v * LANES;
            vec e = vec_exp(scale * vec_load(weight) - low);

            vec_store(weight, e);
            vec_store(slope, e * (vec_load(slope) - off) * scale);
        }
    }
}

static void block_backward(const struct attention_args *a, const struct block *k, int wanted,
                           const struct own *own)
{
    int64_t row = k->b * a->S + k->first, key = k->b * a->S + k->key;
    int64_t query_head = k->h * a->d, key_head = k->g * a->d;
    const elem *q = (const elem *)a->q + row * a->ldq + query_head;
    const elem *dout = (const elem *)a->dout + row * a->ldo + query_head;
    const elem *keys = (const elem *)a->k + key * a->ldk + key_head;
    const elem *values = (const elem *)a->v + key * a->ldv + key_head;

    key_by_query(k, keys, a->ldk, q, a->ldq, a->d, own->scores, own->product);
    mask(k, own->scores);
    key_by_query(k, values, a->ldv, dout, a->ldo, a->d, own->slopes, own->product);
    slopes_of(k, a, own->scores, own->slopes);
    if (wanted & WANT_QUERIES) {
        sum_over_keys(k, own->slopes, keys, a->ldk, a->d,
                      (elem *)a->dq + row * a->lddq + query_head, a->lddq, own->product);
    }
    if (wanted & WANT_KEYS) {
        int64_t at = (k->key - own->from) * a->d;

        add_over_queries(k, own->scores, dout, a->ldo, a->d, own->dv + at, own->product);
        add_over_queries(k, own->slopes, q, a->ldq, a->d, own->dk + at, own->product);
    }
}

/* Keeps of the block's keys those in [from, to). */
static void block_narrow(struct block *k, int64_t from, int64_t to)
{
    int64_t end = k->key + k->keys < to ? k->key + k->keys : to;

    k->key = k->key > from ? k->key : from;
    k->keys = end > k->key ? end - k->key : 0;
}

static void store_rows(elem *to, int64_t ld, const float *from, int64_t rows, int64_t d)
{
    for (int64_t j = 0; j < rows; j++, to += ld, from += d) {
        int64_t i = 0;

        for (; i + LANES <= d; i += LANES) {
            elem_store(to + i, vec_load(from + i));
        }
        if (i < d) {
            elem_store_some(to + i, vec_load_some(from + i, d - i), d - i);
        }
    }
}

/* dk and dv of key/value head g at positions [from, to), and with WANT_QUERIES dq of its query
 * heads. */
static void keys_backward(const struct attention_args *a, int64_t b, int64_t g, int64_t from,
                          int64_t to, int wanted, struct own *own)
{
    int64_t each = a->H / a->G, row = b * a->S + from;

    own->from = from;
    memset(own->dk, 0, (size_t)((to - from) * a->d) * sizeof(float));
    memset(own->dv, 0, (size_t)((to - from) * a->d) * sizeof(float));
    for (int64_t h = g * each; h < (g + 1) * each; h++) {
        for (int64_t i = from / QUERIES; i < block_count(a); i++) {
            struct block k = block_at(a, b, h, i);

            block_narrow(&k, from, to);
            if (k.keys > 0) {
                block_backward(a, &k, wanted, own);
            }
        }
    }
    store_rows((elem *)a->dk + row * a->lddk + g * a->d, a->lddk, own->dk, to - from, a->d);
    store_rows((elem *)a->dv + row * a->lddv + g * a->d, a->lddv, own->dv, to - from, a->d);
}

void NAME(attention_d)(const struct attention_args *a, struct team t)
{
    enum { KEYS = 4 * QUERIES };
    int64_t groups = a->B * a->G, most = (groups + t.threads - 1) / t.threads, from, to;
    struct own own = own_at(a, t);

    if (5 * most * t.threads <= 7 * groups) { /* products: 5 together, 7 apart */
        team_share(t, groups, &from, &to);
        for (int64_t i = from; i < to; i++) {
            keys_backward(a, i / a->G, i % a->G, 0, a->S, WANT_KEYS | WANT_QUERIES, &own);
        }
        return;
    }
    for (int64_t head = 0; head < a->B * a->H; head++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            if (is_own(head, i, t)) {
                struct block k = block_at(a, head / a->H, head % a->H, i);

                block_backward(a, &k, WANT_QUERIES, &own);
            }
        }
    }
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t j = 0; j * KEYS < a->S; j++) {
            if (is_own(i, j, t)) {
                to = (j + 1) * KEYS < a->S ? (j + 1) * KEYS : a->S;
                keys_backward(a, i / a->G, i % a->G, j * KEYS, to, WANT_KEYS, &own);
            }
        }
    }
}
