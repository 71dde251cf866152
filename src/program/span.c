#include "program/span.h"

static int64_t largest_of(const struct span *t)
{
    return t == NULL ? 0 : t->largest;
}

static struct span *updated(struct span *t)
{
    t->largest = t->size;
    if (largest_of(t->left) > t->largest) {
        t->largest = largest_of(t->left);
    }
    if (largest_of(t->right) > t->largest) {
        t->largest = largest_of(t->right);
    }
    return t;
}

/* Spans before `at` to `low`, the others to `high`. */
static void cut(struct span *t, int64_t at, struct span **low, struct span **high)
{
    if (t == NULL) {
        *low = *high = NULL;
    } else if (t->at < at) {
        cut(t->right, at, &t->right, high);
        *low = updated(t);
    } else {
        cut(t->left, at, low, &t->left);
        *high = updated(t);
    }
}

static struct span *joined(struct span *low, struct span *high)
{
    if (low == NULL) {
        return high;
    }
    if (high == NULL) {
        return low;
    }
    if (low->rank > high->rank) {
        low->right = joined(low->right, high);
        return updated(low);
    }
    high->left = joined(low, high->left);
    return updated(high);
}

static struct span *span_make(struct spans *s, int64_t at, int64_t size)
{
    struct span *t = s->spare;

    if (t != NULL) {
        s->spare = t->right;
    } else {
        t = arena_take(s->arena, sizeof *t);
    }
    /* xorshift32: balance needs no better randomness, and plans must not differ from run to run. */
    s->state ^= s->state << 13;
    s->state ^= s->state >> 17;
    s->state ^= s->state << 5;
    *t = (struct span){ .at = at, .size = size, .largest = size, .rank = s->state };
    return t;
}

static void span_drop(struct spans *s, struct span *t)
{
    t->right = s->spare;
    s->spare = t;
}

void spans_init(struct spans *s, struct arena *arena)
{
    *s = (struct spans){ .arena = arena, .state = 2463534242u };
    s->root = span_make(s, 0, INT64_MAX / 2);
}

static struct span *first_fit(struct span *t, int64_t size)
{
    while (largest_of(t->left) >= size || t->size < size) {
        t = largest_of(t->left) >= size ? t->left : t->right;
    }
    return t;
}

int64_t spans_take(struct spans *s, int64_t size)
{
    struct span *t = first_fit(s->root, size), *low, *high, *rest;
    int64_t at = t->at, left = t->size - size;

    cut(s->root, at, &low, &rest);
    cut(rest, at + 1, &t, &high);
    span_drop(s, t);
    s->root = joined(low, high);
    if (left > 0) {
        cut(s->root, at, &low, &high);
        s->root = joined(joined(low, span_make(s, at + size, left)), high);
    }
    if (at + size > s->top) {
        s->top = at + size;
    }
    return at;
}

/* Takes the last span of `t` out of it. */
static struct span *last_out(struct span *t, struct span **last)
{
    if (t->right == NULL) {
        *last = t;
        return t->left;
    }
    t->right = last_out(t->right, last);
    return updated(t);
}

static struct span *first_out(struct span *t, struct span **first)
{
    if (t->left == NULL) {
        *first = t;
        return t->right;
    }
    t->left = first_out(t->left, first);
    return updated(t);
}

void spans_give(struct spans *s, int64_t at, int64_t size)
{
    struct span *low, *high, *next;

    cut(s->root, at, &low, &high);
    if (low != NULL) {
        low = last_out(low, &next);
        if (next->at + next->size == at) {
            at = next->at;
            size += next->size;
            span_drop(s, next);
        } else {
            next->left = next->right = NULL;
            low = joined(low, updated(next));
        }
    }
    if (high != NULL) {
        high = first_out(high, &next);
        if (at + size == next->at) {
            size += next->size;
            span_drop(s, next);
        } else {
            next->left = next->right = NULL;
            high = joined(updated(next), high);
        }
    }
    s->root = joined(joined(low, span_make(s, at, size)), high);
}
