#include "tensor/cpu/cpu.h"

void NAME(embed)(const struct embed_args *a, struct team t)
{
    size_t bytes = (size_t)a->D * sizeof(elem);
    int64_t from, to;

    team_share(t, a->B * a->S, &from, &to);
    for (int64_t row = from; row < to; row++) {
        int64_t id = a->ids[row] - a->first;
        elem *y = (elem *)a->y + row * a->D;

        if (id >= 0 && id < a->rows) {
            memcpy(y, (const elem *)a->w + id * a->D, bytes);
        } else {
            memset(y, 0, bytes);
        }
    }
}

/*
 * Words are dealt out to the threads one by one, because the frequent ones stand together. For its
 * words a thread chains the positions, first to last:
 *
 *   scratch, int32: head [rows]            first position of the word, where it occurs
 *                   next [T]               the word's next position, -1 at the end
 *                   begins [threads][B]    of the word in work: its first position in each
 *                                          sequence, -1 where it does not occur
 *
 * Then each word that occurs walks the row tree. A sequence without it counts as zeros, and adding
 * zeros changes no sum, for a sum that begins with +0 is never -0: so they are skipped. A word that
 * occurs nowhere keeps its gradient as it is.
 */
struct words {
    const struct embed_args *a;
    int32_t *head, *next, *begins;
};

static struct words words_of(const struct embed_args *a, struct team t)
{
    struct words w = { .a = a, .head = a->scratch };

    w.next = w.head + a->rows;
    w.begins = w.next + a->B * a->S + t.thread * a->B;
    return w;
}

/* The place of the word at a row, if this thread has to add it; else -1. */
static int64_t word_at(const struct embed_args *a, int64_t row, struct team t)
{
    int64_t id = a->ids[row] - a->first;
    bool ours = id >= 0 && id < a->rows && a->ids[row] != a->pad &&
                (uint32_t)id % (uint32_t)t.threads == (uint32_t)t.thread;

    return ours ? id : -1;
}

static void chain_words(struct words *w, struct team t)
{
    int64_t T = w->a->B * w->a->S;

    for (int64_t row = 0; row < T; row++) {
        int64_t id = word_at(w->a, row, t);

        if (id >= 0) {
            w->head[id] = -1;
        }
    }
    for (int64_t row = T - 1; row >= 0; row--) {
        int64_t id = word_at(w->a, row, t);

        if (id >= 0) {
            w->next[row] = w->head[id];
            w->head[id] = (int32_t)row;
        }
    }
}

struct strip {
    const struct words *w;
    int64_t apart, col, cols; /* apart: residues of the row tree */
};

/* The positions of one sequence, in order. */
static void add_sequence(const struct strip *s, int64_t sequence, float *sum)
{
    const struct embed_args *a = s->w->a;
    int64_t row = s->w->begins[sequence], end = (sequence + 1) * a->S;

    memset(sum, 0, (size_t)s->cols * sizeof *sum);
    for (; row >= 0 && row < end; row = s->w->next[row]) {
        add_elems(sum, (const elem *)a->dy + row * a->D + s->col, s->cols);
    }
}

/* The sum of all sequences of a residue r mod `apart`, in sum [cols], with room for more behind it;
 * false if the word is in none of them. */
static bool add_residue(const struct strip *s, int64_t r, int64_t apart, float *sum)
{
    bool any = false;

    if (apart < s->apart) {
        any = add_residue(s, r, 2 * apart, sum);
        if (add_residue(s, r + apart, 2 * apart, any ? sum + s->cols : sum)) {
            if (any) {
                add_floats(sum, sum + s->cols, s->cols);
            }
            any = true;
        }
        return any;
    }
    for (int64_t sequence = r; sequence < s->w->a->B; sequence += apart) {
        if (s->w->begins[sequence] >= 0) {
            add_sequence(s, sequence, any ? sum + s->cols : sum);
            if (any) {
                add_floats(sum, sum + s->cols, s->cols);
            }
            any = true;
        }
    }
    return any;
}

static void add_word(const struct words *w, int64_t id, float *buffers)
{
    const struct embed_args *a = w->a;
    struct strip s = { .w = w, .apart = (int64_t)1 << row_tree_levels(a->B) };
    int64_t width = strip_width(a->D);

    for (int64_t row = w->head[id]; row >= 0; row = w->next[row]) {
        int64_t sequence = row / a->S;

        if (w->begins[sequence] < 0) {
            w->begins[sequence] = (int32_t)row;
        }
    }
    for (; s.col < a->D; s.col += width) {
        s.cols = a->D - s.col < width ? a->D - s.col : width;
        add_residue(&s, 0, 1, buffers);
        add_floats((float *)a->dw + id * a->D + s.col, buffers, s.cols);
    }
    for (int64_t row = w->head[id]; row >= 0; row = w->next[row]) {
        w->begins[row / a->S] = -1;
    }
}

void NAME(embed_dw)(const struct embed_args *a, struct team t)
{
    float buffers[TREE_BUFFERS_MOST * STRIP];
    struct words w = words_of(a, t);

    chain_words(&w, t);
    memset(w.begins, 0xff, (size_t)a->B * sizeof *w.begins);
    for (int64_t row = 0; row < a->B * a->S; row++) {
        int64_t id = word_at(a, row, t);

        if (id < 0 || w.head[id] != row) {
            continue;
        }
        if (w.next[row] < 0) { /* most words: once */
            add_elems((float *)a->dw + id * a->D, (const elem *)a->dy + row * a->D, a->D);
        } else {
            add_word(&w, id, buffers);
        }
    }
}

size_t NAME(embed_scratch)(const struct embed_args *a, int threads)
{
    return (size_t)(a->rows + a->B * (a->S + threads)) * sizeof(int32_t);
}
