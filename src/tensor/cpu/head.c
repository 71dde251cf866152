/*
 * The head with its cross-entropy.
 *
 * Logits exist as blocks of ROWS rows by WORDS words. Of each the largest m and the sum of
 * exponentials join the row's statistics in double. The derivative keeps e = exp(logit - m) of all
 * rows for a slab of words, and per block the m; once lse is known, p = e exp(m - lse) - [target]
 * takes their place: one exponential a logit.
 *
 *   scratch  hit [T] double, blocks [T, slab / WORDS] m, p [T, slab] elems, dx [T, D] sums (several slabs),
 *            then a thread's own: logits and product, or the tiles of dw
 *
 * in steps with a barrier after each:
 *
 *   0          by rows: logits, stats and lse (learn); e of the only slab
 *   1 + 2 i    by rows: p of slab i, dx += p w
 *   2 + 2 i    by tiles: dw of slab i through the row tree; after slab 0 the loss, by sequences
 *
 * Slabs are multiples of PRODUCT_BLOCK words, where dx passes from one block sum to the next
 * anyway: their size changes no bit.
 */
#include "tensor/cpu/cpu.h"

enum { WORDS = PRODUCT_BLOCK / 2, ROWS = 256 };
enum { SLAB_BYTES = 256 << 20 };

struct stats {
    double largest, sum;
};

/* Where what a thread needs for itself lies. */
struct own {
    float *logits; /* [ROWS, WORDS] */
    void *product;
};

static int64_t logit_rows(const struct head_args *a)
{
    return a->B * a->S < ROWS ? a->B * a->S : ROWS;
}

static size_t own_bytes(const struct head_args *a)
{
    int64_t red = a->D > PRODUCT_BLOCK ? a->D : PRODUCT_BLOCK + 1;

    return (size_t)logit_rows(a) * WORDS * sizeof(float) + NAME(product_scratch)(a->B * a->S, red);
}

static struct own own_at(const struct head_args *a, void *shared, struct team t)
{
    struct own o = { .logits = (float *)(void *)((char *)shared + t.thread * own_bytes(a)) };

    o.product = o.logits + logit_rows(a) * WORDS;
    return o;
}

/* logits of rows [row, row + rows) by words [word, word + words) into c. */
static void logits_of(const struct head_args *a, int64_t row, int64_t rows, int64_t word,
                      int64_t words, const struct own *o)
{
    struct product p = {
        .a = { (const elem *)a->x + row * a->D, a->D, 1, false },
        .b = { (const elem *)a->w + word * a->D, a->D, 1, false },
        .c = o->logits,
        .ldc = WORDS,
        .rows = rows,
        .cols = words,
        .red = a->D,
        .scale = 1,
        .wide = true,
        .scratch = o->product,
    };

    NAME(product)(&p);
}

/* The largest of n <= WORDS logits; beyond n, up to a whole vector, `logits` is overwritten. */
static float largest_of(float *logits, int64_t n)
{
    vec top = vec_of(-INFINITY);

    for (int64_t i = n; i % LANES != 0; i++) {
        logits[i] = -INFINITY;
    }
    for (int64_t i = 0; i < n; i += LANES) {
        vec x = vec_load(logits + i);

        /* NaN wins, and ends in the sum. */
        top = vec_max(top, x);
    }
    return vec_largest(top);
}

/* Sum of e = exp(logit - largest), which is written to e [n] where that is wanted. */
static float exp_sum(const float *logits, int64_t n, float largest, elem *e)
{
    vec sum = vec_of(0), top = vec_of(largest);

    for (int64_t i = 0; i < n; i += LANES) {
        vec x = vec_exp(vec_load(logits + i) - top);

        sum += x;
        if (e != NULL && n - i >= LANES) {
            elem_store(e + i, x);
        } else if (e != NULL) {
            elem_store_some(e + i, x, n - i);
        }
    }
    return vec_sum(sum);
}

static void stats_join(struct stats *s, float largest, float sum)
{
    double joined = (double)largest > s->largest ? (double)largest : s->largest;

    s->sum = s->sum * exp(s->largest - joined) + (double)sum * exp((double)largest - joined);
    s->largest = joined;
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
    enum { UNIT = 8 };
    int64_t rows = a->B * a->S;

    team_share(t, (rows + UNIT - 1) / UNIT, from, to);
    *from *= UNIT;
    *to = *to * UNIT < rows ? *to * UNIT : rows;
}

/* ---- slabs ---- */

struct slab {
    elem *p;
    float *most; /* [T, slab / WORDS] */
    double *hit;
    float *dx; /* [T, D]; NULL where there is one slab */
    void *own;
    int64_t word, words, ld, blocks;
};

static int64_t slab_words(const struct head_args *a)
{
    int64_t all = (a->valid + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK, T = a->B * a->S;
    int64_t bytes = a->slab_bytes == 0 ? SLAB_BYTES : a->slab_bytes;
    int64_t most = bytes / (int64_t)sizeof(elem) / PRODUCT_BLOCK / (T > 0 ? T : 1);

    most = most > 0 ? most : 1;
    return (all < most ? all : most) * PRODUCT_BLOCK;
}

static int64_t slab_count(const struct head_args *a)
{
    int64_t words = slab_words(a);

    return words == 0 ? 0 : (a->valid + words - 1) / words;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct slab slab_at(const struct head_args *a, int64_t index)
{
    size_t T = (size_t)(a->B * a->S), words = (size_t)slab_words(a);
    struct slab s = { .hit = a->scratch, .word = index * (int64_t)words, .ld = (int64_t)words };
    char *at = (char *)a->scratch + rounded(T * sizeof(double));

    s.blocks = s.ld / WORDS;
    s.most = (float *)(void *)at;
    at += rounded(T * (size_t)s.blocks * sizeof(float));
    s.p = (elem *)(void *)at;
    at += rounded(T * words * sizeof(elem));
    if (slab_count(a) > 1) {
        s.dx = (float *)(void *)at;
        at += rounded(T * (size_t)a->D * sizeof(float));
    }
    s.own = at;
    s.words = a->valid - s.word < s.ld ? a->valid - s.word : s.ld;
    return s;
}

int64_t NAME(head_steps)(const struct head_args *a)
{
    return 1 + 2 * slab_count(a);
}

/* Enough for the planned rows and for fewer: fewer may take more words a slab, never more bytes of
 * p than the bound or the smallest slab of all rows. */
size_t NAME(head_scratch)(const struct head_args *a, int threads)
{
    size_t T = (size_t)(a->B * a->S),
           blocks = ((size_t)a->valid + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    size_t bound = (size_t)(a->slab_bytes == 0 ? SLAB_BYTES : a->slab_bytes),
           least = T * PRODUCT_BLOCK * sizeof(elem),
           all = T * blocks * PRODUCT_BLOCK * sizeof(elem), most = least > bound ? least : bound;
    size_t p = all < most ? all : most, own = (size_t)threads * own_bytes(a),
           outer = NAME(outer_scratch)(a->B, a->S, a->valid, threads);

    return rounded(T * sizeof(double)) + rounded(p) +
           rounded(p / sizeof(elem) / WORDS * sizeof(float) + 64) +
           (all > most ? rounded(T * (size_t)a->D * sizeof(float)) : 0) +
           (own > outer ? own : outer) + 256;
}

/* ---- statistics ---- */

/* Stats and target's logit of at most ROWS rows; with a slab also m and e of its words. */
static void stats_of(const struct head_args *a, int64_t row, int64_t rows, const struct own *o,
                     const struct slab *slab, struct stats *stats, double *hit)
{
    for (int64_t r = 0; r < rows; r++) {
        stats[r] = (struct stats){ -INFINITY, 0 };
        hit[r] = 0;
    }
    for (int64_t word = 0; word < a->valid; word += WORDS) {
        int64_t words = a->valid - word < WORDS ? a->valid - word : WORDS;

        logits_of(a, row, rows, word, words, o);
        for (int64_t r = 0; r < rows; r++) {
            float *logits = o->logits + r * WORDS;
            int64_t target = target_of(a, row + r) - word;
            float largest;
            elem *e = slab == NULL ? NULL : slab->p + (row + r) * slab->ld + word;

            if (target >= 0 && target < words) {
                hit[r] = (double)logits[target];
            }
            largest = largest_of(logits, words);
            stats_join(&stats[r], largest, exp_sum(logits, words, largest, e));
            if (slab != NULL) {
                slab->most[(row + r) * slab->blocks + word / WORDS] = largest;
            }
        }
    }
}

void NAME(head_stats)(const struct head_args *a, struct team t)
{
    struct stats stats[ROWS];
    struct own o = own_at(a, a->scratch, t);
    double hit[ROWS];
    int64_t from, to;

    own_rows(a, t, &from, &to);
    for (int64_t row = from; row < to; row += ROWS) {
        int64_t rows = to - row < ROWS ? to - row : ROWS;

        stats_of(a, row, rows, &o, NULL, stats, hit);
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
        .a = { a->x, a->D, 1, false },
        .b = { a->w, a->D, 1, false },
        .c = a->logits,
        .ldc = a->ldl,
        .rows = a->B * a->S,
        .cols = a->valid,
        .red = a->D,
        .scale = 1,
        .wide = true,
        .scratch = a->scratch,
    };

    NAME(product_share)(&p, t);
}

/* ---- the derivative ---- */

static void learn_stats(const struct head_args *a, struct team t)
{
    struct stats stats[ROWS];
    struct slab s = slab_at(a, 0);
    struct own o = own_at(a, s.own, t);
    int64_t from, to;

    own_rows(a, t, &from, &to);
    for (int64_t row = from; row < to; row += ROWS) {
        int64_t rows = to - row < ROWS ? to - row : ROWS;

        stats_of(a, row, rows, &o, slab_count(a) == 1 ? &s : NULL, stats, s.hit + row);
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

/* e and m of a slab's words for the rows [from, to). */
static void slab_form(const struct head_args *a, const struct slab *s, int64_t from, int64_t to,
                      const struct own *o)
{
    for (int64_t row = from; row < to; row += ROWS) {
        int64_t rows = to - row < ROWS ? to - row : ROWS;

        for (int64_t word = 0; word < s->words; word += WORDS) {
            int64_t words = s->words - word < WORDS ? s->words - word : WORDS;

            logits_of(a, row, rows, s->word + word, words, o);
            for (int64_t r = 0; r < rows; r++) {
                float *logits = o->logits + r * WORDS, largest = largest_of(logits, words);

                exp_sum(logits, words, largest, s->p + (row + r) * s->ld + word);
                s->most[(row + r) * s->blocks + word / WORDS] = largest;
            }
        }
    }
}

/* e -> p of one row. */
static void slopes_of(const struct head_args *a, const struct slab *s, int64_t row, double lse)
{
    elem *p = s->p + row * s->ld;
    int64_t target = target_of(a, row) - s->word;

    if (a->targets[row] < 0) {
        memset(p, 0, (size_t)s->words * sizeof(elem));
        return;
    }
    for (int64_t word = 0; word < s->words; word += WORDS) {
        int64_t end = word + WORDS < s->words ? word + WORDS : s->words, i = word;
        vec scale = vec_of((float)exp((double)s->most[row * s->blocks + word / WORDS] - lse));

        for (; i + LANES <= end; i += LANES) {
            elem_store(p + i, elem_load(p + i) * scale);
        }
        if (i < end) {
            elem_store_some(p + i, elem_load_some(p + i, end - i) * scale, end - i);
        }
    }
    if (target >= 0 && target < s->words) {
        p[target] = elem_of(elem_get(p[target]) - 1);
    }
}

static void slab_rows(const struct head_args *a, const struct slab *s, bool formed,
                      const double *lse, struct team t)
{
    struct own o = own_at(a, s->own, t);
    bool last = s->word + s->words == a->valid;
    int64_t from, to;

    own_rows(a, t, &from, &to);
    if (!formed) {
        slab_form(a, s, from, to, &o);
    }
    for (int64_t row = from; row < to; row++) {
        slopes_of(a, s, row, lse[row]);
    }
    if (a->dx != NULL && from < to) {
        struct product p = {
            .a = { s->p + from * s->ld, s->ld, 1, false },
            .b = { (const elem *)a->w + s->word * a->D, 1, a->D, false },
            .c = s->dx == NULL ? (void *)((elem *)a->dx + from * a->D)
                               : (void *)(s->dx + from * a->D),
            .ldc = a->D,
            .rows = to - from,
            .cols = a->D,
            .red = s->words,
            .scale = 1,
            .wide = s->dx != NULL || ELEM_WIDE,
            .resume = s->word > 0,
            .scratch = o.product,
        };

        NAME(product)(&p);
        for (int64_t i = from * a->D; s->dx != NULL && last && i < to * a->D; i++) {
            ((elem *)a->dx)[i] = elem_of(s->dx[i]);
        }
    }
}

static void slab_tiles(const struct head_args *a, const struct slab *s, struct team t)
{
    struct outer_sum o = {
        .dy = s->p,
        .lddy = s->ld,
        .x = a->x,
        .ldx = a->D,
        .dw = (float *)a->dw + s->word * a->D,
        .B = a->B,
        .S = a->S,
        .N = s->words,
        .K = a->D,
        .scale = 1,
        .scratch = s->own,
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
