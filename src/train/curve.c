/* Gathering, smoothing and scaling; the drawing stands in curve_svg.c and curve_terminal.c. */
#include "train/curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMOOTH_MOST = 8 /* buckets to each side */ };

/* ---- gathering ---- */

static void bucket_add(struct curve_bucket *b, double loss, double lr)
{
    b->lr = lr;
    if (!isfinite(loss)) {
        b->lost++;
        return;
    }
    b->least = b->count == 0 || loss < b->least ? loss : b->least;
    b->most = b->count == 0 || loss > b->most ? loss : b->most;
    b->sum += loss;
    b->count++;
}

static struct curve_bucket bucket_join(struct curve_bucket a, const struct curve_bucket *b)
{
    a.least = a.count == 0 || (b->count > 0 && b->least < a.least) ? b->least : a.least;
    a.most = a.count == 0 || (b->count > 0 && b->most > a.most) ? b->most : a.most;
    a.lr = b->count + b->lost > 0 ? b->lr : a.lr;
    a.sum += b->sum;
    a.count += b->count;
    a.lost += b->lost;
    return a;
}

static void buckets_halve(struct curve_bucket *all)
{
    for (int i = 0; i < CURVE_BUCKETS / 2; i++) {
        all[i] = bucket_join(all[2 * i], &all[2 * i + 1]);
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
    if (step >= 0) {
        bucket_add(bucket_of(c, c->train, step), loss, lr);
    }
}

void curve_add_validation(struct curve *c, int64_t step, double loss)
{
    if (step >= 0) {
        bucket_add(bucket_of(c, c->val, step), loss, 0);
    }
}

/* The number behind `key`; NaN if there is none. */
static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    char *behind;
    double x;

    if (at == NULL) {
        return NAN;
    }
    at += strlen(key);
    x = strtod(at, &behind);
    return behind == at ? NAN : x; /* null is no number */
}

int64_t curve_read_line(struct curve *c, const char *line)
{
    static const char head[] = "{\"step\":";
    int64_t step;

    if (!text_starts(line, head) || line[sizeof head - 1] < '0' || line[sizeof head - 1] > '9') {
        return -1;
    }
    step = strtoll(line + sizeof head - 1, NULL, 10);
    if (step > (int64_t)1 << 50) {
        return -1;
    }
    if (strstr(line, ",\"val_loss\":") != NULL) {
        curve_add_validation(c, step, number_of(line, ",\"val_loss\":"));
    } else if (strstr(line, ",\"loss\":") != NULL) {
        bool skipped = strstr(line, ",\"skipped\":true") != NULL;

        curve_add(c, step, skipped ? NAN : number_of(line, ",\"loss\":"),
                  number_of(line, ",\"lr\":"));
    }
    return step;
}

/* ---- questions ---- */

bool curve_is_empty(const struct curve *c)
{
    int points = 0;

    for (int i = 0; i < CURVE_BUCKETS && points < 2; i++) {
        points += c->train[i].count > 0;
    }
    return points < 2;
}

double curve_mean(const struct curve_bucket *b)
{
    return b->sum / (double)b->count;
}

double curve_step(const struct curve *c, int bucket)
{
    return fmin(((double)bucket + 0.5) * (double)c->span - 0.5, (double)c->last);
}

double curve_validation(const struct curve *c)
{
    for (int i = CURVE_BUCKETS - 1; i >= 0; i--) {
        if (c->val[i].count > 0) {
            return curve_mean(&c->val[i]);
        }
    }
    return NAN;
}

int64_t curve_lost(const struct curve *c)
{
    int64_t lost = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        lost += c->train[i].lost;
    }
    return lost;
}

/* ---- smoothing ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A window around i of at most `half` to each side. It narrows towards the beginning, where losses
 * fall most, but not towards the end. */
static void window_of(int i, int count, int half, int *from, int *to)
{
    half = i < half ? i : half;
    *from = i - half;
    *to = i + half < count - 1 ? i + half : count - 1;
}

/* Medians leave a fall where it is and a single peak out. */
static void medians(const double *in, int count, int half, double *out)
{
    for (int i = 0; i < count; i++) {
        double sorted[2 * SMOOTH_MOST + 1];
        int from, to, n;

        window_of(i, count, half, &from, &to);
        n = to - from + 1;
        memcpy(sorted, in + from, (size_t)n * sizeof *in);
        qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
        out[i] = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    }
}

/* Means, the weights falling from the middle. */
static void means(const double *in, int count, int half, double *out)
{
    for (int i = 0; i < count; i++) {
        double sum = 0, weights = 0;
        int from, to;

        window_of(i, count, half, &from, &to);
        for (int k = from; k <= to; k++) {
            double weight = half + 1 - abs(k - i);

            sum += weight * in[k];
            weights += weight;
        }
        out[i] = sum / weights;
    }
}

void curve_smooth(const struct curve *c, double *line)
{
    double raw[CURVE_BUCKETS], middle[CURVE_BUCKETS], smooth[CURVE_BUCKETS];
    int count = 0, half;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->train[i].count > 0) {
            raw[count++] = curve_mean(&c->train[i]);
        }
    }
    half = count / 24 < SMOOTH_MOST ? count / 24 : SMOOTH_MOST;
    medians(raw, count, half, middle);
    means(middle, count, half, smooth);
    count = 0;
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        line[i] = c->train[i].count > 0 ? smooth[count++] : NAN;
    }
}

/* ---- scales ---- */

struct curve_scale curve_scale_of(double from, double to, int ticks)
{
    double rough = (to - from) / ticks, power = pow(10, floor(log10(rough))), part = rough / power;
    double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);

    return (struct curve_scale){
        .from = floor(from / step) * step,
        .to = ceil(to / step) * step,
        .step = step,
        .least = from,
        .most = to,
    };
}

double curve_share(const struct curve_scale *s, double x)
{
    return (x - s->from) / (s->to - s->from);
}

/* Peaks are rare if they stand in fewer than one bucket in fifty. Sorts them. */
static double common_top(double *peaks, int count, double least)
{
    double first = peaks[0], top;

    qsort(peaks, (size_t)count, sizeof *peaks, compare_doubles);
    top = peaks[count - 1 - count / 50];
    return fmin(fmax(first, top + (top - least) / 4), peaks[count - 1]);
}

struct curve_scale curve_losses(const struct curve *c, int ticks)
{
    double peaks[CURVE_BUCKETS], least = INFINITY, top = -INFINITY, highest = -INFINITY;
    struct curve_scale s;
    int count = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->train[i].count > 0) {
            least = fmin(least, c->train[i].least);
            highest = fmax(highest, c->train[i].most);
            peaks[count++] = c->train[i].most;
        }
        if (c->val[i].count > 0) {
            least = fmin(least, c->val[i].least);
            top = fmax(top, c->val[i].most);
        }
    }
    top = count > 0 ? fmax(top, common_top(peaks, count, least)) : top;
    /* One loss over and over, or none: a scale still has an extent that its digits can tell. */
    if (!(top - least > 1e-9 * (fabs(top) + fabs(least)))) {
        least = isfinite(least) ? least - 0.5 - 1e-6 * fabs(least) : 0;
        top = isfinite(top) ? top + 0.5 + 1e-6 * fabs(top) : 1;
    }
    s = curve_scale_of(least, top, ticks);
    s.highest = highest;
    return s;
}

/* ---- labels ---- */

char *curve_step_label(char out[32], double step)
{
    if (step >= 1e6) {
        snprintf(out, 32, "%gM", step / 1e6);
    } else if (step >= 1e4) {
        snprintf(out, 32, "%gk", step / 1e3);
    } else {
        snprintf(out, 32, "%g", step);
    }
    return out;
}

/* "2e-05" -> "2e-5", "2e+06" -> "2e6" */
static void short_exponent(char *number)
{
    char *sign = strchr(number, 'e') + 1, *digits = sign + 1 + strspn(sign + 1, "0");

    memmove(*sign == '-' ? sign + 1 : sign, digits, strlen(digits) + 1);
}

char *curve_value_label(char out[32], double x, double step)
{
    int decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);

    if (fabs(x) < step * 1e-6) {
        snprintf(out, 32, "0");
    } else if (decimals <= (fabs(x) < 0.1 ? 4 : 6) && fabs(x) < 1e6) {
        snprintf(out, 32, "%.*f", decimals, x);
    } else {
        int digits = (int)(floor(log10(fabs(x) * (1 + 1e-9))) - floor(log10(step * (1 + 1e-9))));

        snprintf(out, 32, "%.*e", digits < 0 ? 0 : digits > 8 ? 8 : digits, x);
        short_exponent(out);
    }
    return out;
}
