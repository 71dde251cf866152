/* Gathering and scaling; the drawing stands in curve_draw.c. */
#include "train/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void bucket_add(struct curve_bucket *b, double loss, double lr)
{
    b->least = b->count == 0 || loss < b->least ? loss : b->least;
    b->most = b->count == 0 || loss > b->most ? loss : b->most;
    b->sum += loss;
    b->lr = lr;
    b->count++;
}

static void buckets_halve(struct curve_bucket *all)
{
    for (int i = 0; i < CURVE_BUCKETS / 2; i++) {
        struct curve_bucket a = all[2 * i], b = all[2 * i + 1];

        if (a.count == 0) {
            a = b;
        } else if (b.count > 0) {
            a.least = fmin(a.least, b.least);
            a.most = fmax(a.most, b.most);
            a.sum += b.sum;
            a.count += b.count;
            a.lr = b.lr;
        }
        all[i] = a;
    }
    memset(all + CURVE_BUCKETS / 2, 0, CURVE_BUCKETS / 2 * sizeof *all);
}

static struct curve_bucket *bucket_of(struct curve *c, struct curve_bucket *all, int64_t step)
{
    c->span = c->span == 0 ? 1 : c->span;
    while (step / c->span >= CURVE_BUCKETS) {
        buckets_halve(c->train);
        buckets_halve(c->val);
        c->span *= 2;
    }
    c->last = step > c->last ? step : c->last;
    return &all[step / c->span];
}

void curve_add(struct curve *c, int64_t step, double loss, double lr)
{
    if (step >= 0 && isfinite(loss)) {
        bucket_add(bucket_of(c, c->train, step), loss, lr);
    }
}

void curve_add_validation(struct curve *c, int64_t step, double loss)
{
    if (step >= 0 && isfinite(loss)) {
        bucket_add(bucket_of(c, c->val, step), loss, 0);
    }
}

/* The number behind `key` before the line ends; NaN if there is none. */
static double number_of(const char *line, const char *end, const char *key)
{
    const char *at = strstr(line, key);
    char *behind;
    double x;

    if (at == NULL || at >= end) {
        return NAN;
    }
    at += strlen(key);
    x = strtod(at, &behind);
    return behind == at ? NAN : x; /* null is no number */
}

void curve_read(struct curve *c, const char *lines)
{
    for (const char *line = lines, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        double step = number_of(line, end, "{\"step\":"), loss = number_of(line, end, ",\"loss\":"),
               val = number_of(line, end, ",\"val_loss\":");

        if (!(step >= 0 && step < 1e15)) {
            continue;
        }
        curve_add(c, (int64_t)step, loss, number_of(line, end, ",\"lr\":"));
        curve_add_validation(c, (int64_t)step, val);
    }
}

bool curve_is_empty(const struct curve *c)
{
    int points = 0;

    for (int i = 0; i < CURVE_BUCKETS && points < 2; i++) {
        points += c->train[i].count > 0;
    }
    return points < 2;
}
