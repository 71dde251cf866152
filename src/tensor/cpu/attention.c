/*
 * Attention by blocks of queries, all their scores at once: S * QUERIES floats, so the largest is
 * known before the first exp, and nothing is scaled on the way.
 */
#include "tensor/cpu/attention.h"

size_t NAME(attention_scratch)(const struct attention_args *a, int threads)
{
    return (size_t)threads * (size_t)own_floats(a) * sizeof(float);
}

/* largest [QUERIES]: of each column of scores and what it holds. */
static void raise_largest(float *largest, const float *scores, int64_t keys, int64_t ahead)
{
    for (int v = 0; v < QUERIES; v += LANES) {
        vec even = vec_load(largest + v), odd = even;

        for (int64_t j = 0; j < keys_seen(keys, ahead, v + LANES); j += 2) {
            const float *at = scores + j * QUERIES + v;

            even = vec_max(even, vec_load(at));
            odd = vec_max(odd, vec_load(at + QUERIES));
        }
        vec_store(largest + v, vec_max(even, odd));
    }
}

/* scores -> exp(scale * score - peak); adds them to total. */
static void weights_of(float *scores, int64_t keys, int64_t ahead, float scale, const float *peak,
                       float *total)
{
    for (int v = 0; v < QUERIES; v += LANES) {
        vec off = vec_load(peak + v), sum = vec_load(total + v);

        for (int64_t j = 0; j < keys_seen(keys, ahead, v + LANES); j++) {
            float *at = scores + j * QUERIES + v;
            vec e = vec_exp(scale * vec_load(at) - off);

            sum += e;
            vec_store(at, e);
        }
        vec_store(total + v, sum);
    }
}

static int64_t chunk_of(const struct block *k, int64_t j)
{
    return k->end - j < CHUNK ? k->end - j : CHUNK;
}

/* own->sums = weighted values, not yet divided by total; peak = scale * largest score. */
static void weigh(const struct attention_args *a, const struct block *k, const struct own *own,
                  float *peak, float *total)
{
    float scale = (float)a->scale;

    for (int i = 0; i < QUERIES; i++) {
        peak[i] = -INFINITY;
        total[i] = 0;
    }
    for (int64_t j = k->key; j < k->end; j += CHUNK) {
        float *scores = own->all_scores + j * QUERIES;

        scores_of(scores, own->keys + j * own->width, own->width, own->q_turned, a->d,
                  chunk_of(k, j), j - k->first);
        mask(k, j, j + chunk_of(k, j), scores);
        raise_largest(peak, scores, chunk_of(k, j), j - k->first);
    }
    for (int i = 0; i < QUERIES; i++) {
        peak[i] *= scale;
    }
    memset(own->sums, 0, (size_t)(QUERIES * own->width) * sizeof(float));
    for (int64_t j = k->key; j < k->end; j += CHUNK) {
        float *scores = own->all_scores + j * QUERIES;

        weights_of(scores, chunk_of(k, j), j - k->first, scale, peak, total);
        sum_over_keys(own->sums, own->width, scores, own->values + j * own->width, chunk_of(k, j),
                      j - k->first);
    }
}

/* Query head h of sequence b. */
static void block_forward(const struct attention_args *a, const struct block *k, int64_t b,
                          int64_t h, struct own *own)
{
    int64_t row = b * a->S + k->first;
    elem *o = (elem *)a->o + row * a->ldo + h * a->d;
    float *lse = (float *)a->lse + (b * a->H + h) * a->S + k->first;
    float peak[QUERIES], total[QUERIES];

    keys_ready(a, own, b * a->G + h / (a->H / a->G), k->key, k->end);
    rows_turn(own->q_turned, (const elem *)a->q + row * a->ldq + h * a->d, a->ldq, k->queries,
              a->d);
    weigh(a, k, own, peak, total);
    for (int64_t i = 0; i < k->queries; i++) {
        rows_store(o + i * a->ldo, 0, own->sums + i * own->width, 0, 1, a->d, 1 / total[i]);
        lse[i] = peak[i] + logf(total[i]);
    }
}

void NAME(attention)(const struct attention_args *a, struct team t)
{
    struct own own = own_at(a, t);
    struct share share;
    int64_t cost = 0;

    for (int64_t b = 0; b < a->B; b++) {
        cost += a->H * sequence_cost(a, b, 0, a->S);
    }
    share = share_of(cost, t);
    for (int64_t pair = 0; pair < a->B * a->G; pair++) {
        for (int64_t i = 0; i < block_count(a); i++) {
            struct block k = block_at(a, pair / a->G, i);

            for (int64_t h = 0; h < a->H / a->G; h++) {
                if (share_takes(&share, block_cost(&k, 0, a->S))) {
                    block_forward(a, &k, pair / a->G, pair % a->G * (a->H / a->G) + h, &own);
                }
            }
        }
    }
}
