#include <string.h>

#include "tensor/ref/ref.h"

void NAME(embed)(const struct embed_args *a, struct team t)
{
    int64_t from, to;

    team_share(t, a->B * a->S, &from, &to);
    for (int64_t row = from; row < to; row++) {
        int64_t id = a->ids[row] - a->first;
        real *y = (real *)a->y + row * a->D;

        if (id >= 0 && id < a->rows) {
            memcpy(y, (const real *)a->w + id * a->D, (size_t)a->D * sizeof(real));
        } else {
            memset(y, 0, (size_t)a->D * sizeof(real));
        }
    }
}

/*
 * Words are dealt out to the threads one by one, because the frequent ones stand together. For its
 * words a thread chains the positions, first to last:
 *
 *   scratch  head [rows] int32   first position of the word, -1 if it does not occur
 *            next [T] int32      the word's next position, -1 at the end
 *
 * Then each word that occurs walks the row tree; a sequence without it counts as zeros. For a word
 * that occurs nowhere the sum is zero and its gradient stays as it is.
 */
enum { STRIP = 64 };

struct word {
    const struct embed_args *a;
    const int32_t *next;
    int64_t first, col, cols;
};

static void embed_leaf(const void *context, int64_t sequence, real *sum)
{
    const struct word *word = context;
    const struct embed_args *a = word->a;
    int64_t begin = sequence * a->S, end = begin + a->S, row = word->first;

    for (int64_t i = 0; i < word->cols; i++) {
        sum[i] = 0;
    }
    while (row >= 0 && row < begin) {
        row = word->next[row];
    }
    for (; row >= 0 && row < end; row = word->next[row]) {
        const real *dy = (const real *)a->dy + row * a->D + word->col;

        for (int64_t i = 0; i < word->cols; i++) {
            sum[i] += dy[i];
        }
    }
}

static void chain_words(const struct embed_args *a, int32_t *head, int32_t *next, struct team t)
{
    for (int64_t id = t.thread; id < a->rows; id += t.threads) {
        head[id] = -1;
    }
    for (int64_t row = a->B * a->S - 1; row >= 0; row--) {
        int64_t id = a->ids[row] - a->first;

        if (id >= 0 && id < a->rows && id % t.threads == t.thread && a->ids[row] != a->pad) {
            next[row] = head[id];
            head[id] = (int32_t)row;
        }
    }
}

void NAME(embed_dw)(const struct embed_args *a, struct team t)
{
    real buffers[TREE_BUFFERS_MOST * STRIP];
    int32_t *head = a->scratch, *next = head + a->rows;

    chain_words(a, head, next, t);
    for (int64_t id = t.thread; id < a->rows; id += t.threads) {
        for (int64_t col = 0; head[id] >= 0 && col < a->D; col += STRIP) {
            struct word word = { a, next, head[id], col, a->D - col < STRIP ? a->D - col : STRIP };
            real *dw = (real *)a->dw + id * a->D + col;

            NAME(tree_sum)(embed_leaf, &word, a->B, word.cols, buffers);
            for (int64_t i = 0; i < word.cols; i++) {
                dw[i] += buffers[i];
            }
        }
    }
}

size_t NAME(embed_scratch)(const struct embed_args *a, int threads)
{
    (void)threads;
    return (size_t)(a->rows + a->B * a->S) * sizeof(int32_t);
}
