/*
 * The head with its cross-entropy.
 *
 * Statistics go through blocks of WORDS words: the block's largest logit and sum of exponentials in
 * reals, blocks joined in double. The derivative holds p = exp(logit - lse) - [target] of all rows
 * for a slab of words,
 *
 *   scratch  hit [T] double, p [T, slab] reals      slab: as many words as slab_bytes allow
 *
 * in steps with a barrier after each:
 *
 *   0          by rows: logits, stats and lse (learn)
 *   1 + 2 i    by rows: p of slab i, dx += p w      (learn, one slab: logits are those of step 0)
 *   2 + 2 i    by tiles: dw of slab i through the row tree; after slab 0 the loss, by sequences
 *
 * Slabs are multiples of PRODUCT_BLOCK words, where dx passes from one block sum to the next
 * anyway: their size changes no bit.
 */
#include <string.h>

#include "tensor/ref/ref.h"

enum { WORDS = 128, ROWS = 128, LANES = 16 };
enum { SLAB_BYTES = 256 << 20 };

struct stats {
    double largest, sum;
};

/* Joins the next n <= WORDS logits of a row; beyond n, up to a multiple of LANES, `logits` is
 * overwritten. */
static void stats_join(struct stats *s, real *logits, int64_t n)
{
    real largest[LANES], sum[LANES] = { 0 }, top = -(real)INFINITY, total = 0;
    int64_t padded = (n + LANES - 1) / LANES * LANES;
    double joined;

    for (int64_t i = n; i < padded; i++) {
        logits[i] = -(real)INFINITY;
    }
    for (int l = 0; l < LANES; l++) {
        largest[l] = -(real)INFINITY;
    }
    for (int64_t i = 0; i < padded; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            largest[l] = logits[i + l] > largest[l] ? logits[i + l] : largest[l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        top = largest[l] > top ? largest[l] : top;
    }
    for (int64_t i = 0; i < padded; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            sum[l] += real_exp(logits[i + l] - top);
        }
    }
    for (int l = 0; l < LANES; l++) {
        total += sum[l];
    }
    joined = (double)top > s->largest ? (double)top : s->largest;
    s->sum = s->sum * exp(s->largest - joined) + (double)total * exp((double)top - joined);
    s->largest = joined;
}

/* logits of rows [row, row + rows) by words [word, word + words) into c. */
static void logits_of(const struct head_args *a, int64_t row, int64_t rows, int64_t word,
                      int64_t words, real *c, int64_t ldc)
{
    struct product p = {
        .a = (const real *)a->x + row * a->D,
        .a_row = a->D,
        .a_red = 1,
        .b = (const real *)a->w + word * a->D,
        .b_red = 1,
        .b_col = a->D,
        .c = c,
        .ldc = ldc,
        .rows = rows,
        .cols = words,
        .red = a->D,
        .scale = 1,
    };

    NAME(product)(&p);
}

/* The place of a row's target among the slice's words, -1 if it is not one of them. */
static int64_t target_of(const struct head_args *a, int64_t row)
{
    int64_t word = a->targets[row] < 0 ? -1 : a->targets[row] - a->first;

    return word >= 0 && word < a->valid ? word : -1;
}

/* The rows of one thread, in whole tiles. */
static void own_rows(const struct head_args *a, struct team t, int64_t *from, int64_t *to)
{
    int64_t rows = a->B * a->S;

    team_share(t, (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS, from, to);
    *from *= PRODUCT_ROWS;
    *to = *to * PRODUCT_ROWS < rows ? *to * PRODUCT_ROWS : rows;
}

/* Stats and target's logit of at most ROWS rows. */
static void stats_of(const struct head_args *a, int64_t row, int64_t rows, struct stats *stats,
                     double *hit)
{
    _Alignas(64) real logits[ROWS * WORDS];

    for (int64_t r = 0; r < rows; r++) {
        stats[r] = (struct stats){ -INFINITY, 0 };
        hit[r] = 0;
    }
    for (int64_t word = 0; word < a->valid; word += WORDS) {
        int64_t words = a->valid - word < WORDS ? a->valid - word : WORDS;

        logits_of(a, row, rows, word, words, logits, WORDS);
        for (int64_t r = 0; r < rows; r++) {
            int64_t target = target_of(a, row + r) - word;

            if (target >= 0 && target < words) {
                hit[r] = (double)logits[r * WORDS + target];
            }
            stats_join(&stats[r], logits + r * WORDS, words);
        }
    }
}

void NAME(head_stats)(const struct head_args *a, struct team t)
{
    struct stats stats[ROWS];
    double hit[ROWS];
    int64_t from, to;

    own_rows(a, t, &from, &to);
    for (int64_t row = from; row < to; row += ROWS) {
        int64_t rows = to - row < ROWS ? to - row : ROWS;

        stats_of(a, row, rows, stats, hit);
        for (int64_t r = 0; r < rows; r++) {
            double *out = a->stats + (row + r) * 3;

            out[0] = stats[r].largest;
            out[1] = stats[r].sum;
            out[2] = hit[r];
        }
    }
}

void NAME(head_merge)(const struct head_args *a, struct team t)
{
    int64_t T = a->B * a->S, from, to;

    team_share(t, a->B, &from, &to);
    for (int64_t b = from; b < to; b++) {
        a->loss[b] = 0;
        for (int64_t row = b * a->S; row < (b + 1) * a->S; row++) {
            double largest = -INFINITY, sum = 0, hit = 0;

            for (int64_t s = 0; s < a->slices; s++) {
                const double *in = a->stats_in + (s * T + row) * 3;

                largest = in[0] > largest ? in[0] : largest;
            }
            for (int64_t s = 0; s < a->slices; s++) {
                const double *in = a->stats_in + (s * T + row) * 3;

                sum += in[1] * exp(in[0] - largest);
                hit += in[2];
            }
            a->lse[row] = largest + log(sum);
            if (a->targets[row] >= 0) {
                a->loss[b] += a->lse[row] - hit;
            }
        }
    }
}

void NAME(head_logits)(const struct head_args *a, struct team t)
{
    struct product p = {
        .a = a->x,
        .a_row = a->D,
        .a_red = 1,
        .b = a->w,
        .b_red = 1,
        .b_col = a->D,
        .c = a->logits,
        .ldc = a->ldl,
        .rows = a->B * a->S,
        .cols = a->valid,
        .red = a->D,
        .scale = 1,
    };

    NAME(product_share)(&p, t);
}

/* ---- the derivative ---- */

static int64_t slab_bytes(const struct head_args *a)
{
    return a->slab_bytes == 0 ? SLAB_BYTES : a->slab_bytes;
}

static int64_t slab_words(const struct head_args *a)
{
    int64_t all = (a->valid + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK, T = a->B * a->S;
    int64_t most = slab_bytes(a) / (int64_t)sizeof(real) / PRODUCT_BLOCK / T;

    most = most > 0 ? most : 1;
    return (all < most ? all : most) * PRODUCT_BLOCK;
}

static int64_t slab_count(const struct head_args *a)
{
    int64_t words = slab_words(a);

    return words == 0 ? 0 : (a->valid + words - 1) / words;
}

int64_t NAME(head_steps)(const struct head_args *a)
{
    return 1 + 2 * slab_count(a);
}

/* Enough for the planned rows and for fewer: [hit][p][tiles of dw]. */
size_t NAME(head_scratch)(const struct head_args *a, int threads)
{
    size_t T = (size_t)(a->B * a->S),
           blocks = ((size_t)a->valid + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    size_t all = T * blocks * PRODUCT_BLOCK * sizeof(real),
           least = T * PRODUCT_BLOCK * sizeof(real);
    size_t bound = (size_t)slab_bytes(a), most = least > bound ? least : bound;

    return T * sizeof(double) + (all < most ? all : most) + NAME(outer_scratch)(a->B, threads);
}

struct slab {
    real *p;
    double *hit;
    void *tiles;
    int64_t word, words, ld;
};

static struct slab slab_at(const struct head_args *a, int64_t index)
{
    int64_t T = a->B * a->S, words = slab_words(a);
    struct slab s = { .hit = a->scratch, .word = index * words, .ld = words };

    s.p = (real *)(s.hit + T);
    s.tiles = s.p + T * words;
    s.words = a->valid - s.word < words ? a->valid - s.word : words;
    return s;
}

/* Step 0 where one slab holds all words: the logits stay in it. The blocks are those of stats_of.
 * */
static void stats_in_slab(const struct head_args *a, const struct slab *s, int64_t row,
                          int64_t rows, struct stats *stats)
{
    logits_of(a, row, rows, 0, s->words, s->p + row * s->ld, s->ld);
    for (int64_t r = 0; r < rows; r++) {
        real *logits = s->p + (row + r) * s->ld;
        int64_t target = target_of(a, row + r);

        s->hit[row + r] = target >= 0 ? (double)logits[target] : 0;
        stats[r] = (struct stats){ -INFINITY, 0 };
        for (int64_t word = 0; word < s->words; word += WORDS) {
            stats_join(&stats[r], logits + word, s->words - word < WORDS ? s->words - word : WORDS);
        }
    }
}

static void learn_stats(const struct head_args *a, struct team t)
{
    struct stats stats[ROWS];
    struct slab s = slab_at(a, 0);
    int64_t from, to;

    own_rows(a, t, &from, &to);
    for (int64_t row = from; row < to; row += ROWS) {
        int64_t rows = to - row < ROWS ? to - row : ROWS;

        if (slab_count(a) == 1) {
            stats_in_slab(a, &s, row, rows, stats);
        } else {
            stats_of(a, row, rows, stats, s.hit + row);
        }
        for (int64_t r = 0; r < rows; r++) {
            a->lse[row + r] = stats[r].largest + log(stats[r].sum);
        }
    }
}

static void learn_loss(const struct head_args *a, const double *hit, struct team t)
{
    int64_t from, to;

    team_share(t, a->B, &from, &to);
    for (int64_t b = from; b < to; b++) {
        a->loss[b] = 0;
        for (int64_t row = b * a->S; row < (b + 1) * a->S; row++) {
            if (a->targets[row] >= 0) {
                a->loss[b] += a->lse[row] - hit[row];
            }
        }
    }
}

/* logits -> p of one row. lse is taken off in two parts, so that its rounding to a float does not
 * scale the row. */
static void slopes_of(const struct head_args *a, const struct slab *s, int64_t row, double lse)
{
    real *restrict p = s->p + row * s->ld;
    real high = (real)lse, low = (real)(lse - (double)high);
    int64_t target = target_of(a, row) - s->word;

    if (a->targets[row] < 0) {
        memset(p, 0, (size_t)s->words * sizeof(real));
        return;
    }
    for (int64_t i = 0; i < s->words; i++) {
        p[i] = real_exp(p[i] - high - low);
    }
    if (target >= 0 && target < s->words) {
        p[target] -= 1;
    }
}

static void slab_rows(const struct head_args *a, const struct slab *s, bool formed,
                      const double *lse, struct team t)
{
    int64_t from, to;

    own_rows(a, t, &from, &to);
    if (!formed) {
        logits_of(a, from, to - from, s->word, s->words, s->p + from * s->ld, s->ld);
    }
    for (int64_t row = from; row < to; row++) {
        slopes_of(a, s, row, lse[row]);
    }
    if (a->dx != NULL) {
        struct product p = {
            .a = s->p + from * s->ld,
            .a_row = s->ld,
            .a_red = 1,
            .b = (const real *)a->w + s->word * a->D,
            .b_red = a->D,
            .b_col = 1,
            .c = (real *)a->dx + from * a->D,
            .ldc = a->D,
            .rows = to - from,
            .cols = a->D,
            .red = s->words,
            .scale = 1,
            .resume = s->word > 0,
        };

        NAME(product)(&p);
    }
}

static void slab_tiles(const struct head_args *a, const struct slab *s, struct team t)
{
    struct outer_sum o = {
        .dy = s->p,
        .lddy = s->ld,
        .x = a->x,
        .ldx = a->D,
        .dw = (real *)a->dw + s->word * a->D,
        .B = a->B,
        .S = a->S,
        .N = s->words,
        .K = a->D,
        .scale = 1,
        .scratch = s->tiles,
    };

    if (a->dw != NULL) {
        NAME(outer_sum)(&o, t);
    }
}

void NAME(head_backward)(const struct head_args *a, bool learn, int64_t step, struct team t)
{
    if (step == 0) {
        if (learn) {
            learn_stats(a, t);
        }
    } else {
        struct slab s = slab_at(a, (step - 1) / 2);

        if (step % 2 == 1) {
            slab_rows(a, &s, learn && slab_count(a) == 1, learn ? a->lse : a->lse_in, t);
        } else {
            slab_tiles(a, &s, t);
            if (learn && step == 2) {
                learn_loss(a, s.hit, t);
            }
        }
    }
}
