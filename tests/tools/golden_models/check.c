#include "tools/golden_models/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "tensor/kernels.h"

const struct tolerances *tolerances_of(enum dtype real)
{
    static const struct tolerances in_32 = {
        .logits = 3e-5,
        .loss = 1e-6,
        .gradient = 1e-5,
        .step_loss = 2e-6,
        .step_norm = 4e-6,
        .final_rms = 5e-7,
        .final_max = 2e-5,
        .final_factor = 10,
        .kernel = 2e-6,
        .kernel_factor = 10,
    };
    static const struct tolerances in_64 = {
        .logits = 1e-11,
        .loss = 1e-12,
        .gradient = 2e-7,
        .step_loss = 1e-10,
        .step_norm = 1e-10,
        .final_rms = 5e-8,
        .final_max = 2e-7,
        .kernel = 1e-12,
    };

    return real == DT_F64 ? &in_64 : &in_32;
}

const char *real_name(enum dtype real)
{
    return precision_name(real);
}

/* ---- figures ---- */

static bool within(double figure, double tolerance)
{
    return figure <= tolerance; /* no number is never within */
}

void worst_see(struct worst *w, double figure, double tolerance, const char *at)
{
    double now = within(figure, tolerance) ? figure / fmax(tolerance, 1e-300) : INFINITY;
    double before =
        within(w->figure, w->tolerance) ? w->figure / fmax(w->tolerance, 1e-300) : INFINITY;

    if (now == INFINITY && before == INFINITY) { /* both beyond: which is farther? */
        now = isnan(figure) ? INFINITY : figure / fmax(tolerance, 1e-300);
        before = isnan(w->figure) ? INFINITY : w->figure / fmax(w->tolerance, 1e-300);
    }
    if (w->seen == 0 || now > before) {
        w->figure = figure;
        w->tolerance = tolerance;
        w->at = at;
    }
    w->seen++;
    w->beyond += !within(figure, tolerance);
}

double largest_magnitude(const double *x, int64_t count)
{
    double most = 0;

    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(x[i]));
    }
    return most;
}

double largest_difference(const double *x, const double *y, int64_t count)
{
    double most = 0;

    for (int64_t i = 0; i < count; i++) {
        double apart = fabs(x[i] - y[i]);

        most = isnan(apart) ? INFINITY : fmax(most, apart);
    }
    return most;
}

double relative(double found, double truth)
{
    double apart = fabs(found - truth);

    return apart == 0 ? 0 : apart / fabs(truth);
}

/* ---- lines ---- */

static void line(int *counter, const char *word, const char *format, va_list list)
{
    (*counter)++;
    printf("%s ", word);
    vprintf(format, list);
}

void check_worst(struct golden *g, const struct worst *w, const char *name, ...)
{
    bool good = w->seen > 0 && w->beyond == 0;
    va_list list;

    va_start(list, name);
    line(good ? &g->passed : &g->failed, good ? "pass" : "FAIL", name, list);
    va_end(list);
    if (w->seen == 0) {
        printf(": there was nothing to compare\n");
        return;
    }
    printf(": %.3g, at most %.3g, worst of %d at %s", w->figure, w->tolerance, w->seen, w->at);
    if (w->beyond > 1) {
        printf("; %d of them are beyond their tolerance", w->beyond);
    }
    printf("\n");
}

void check_figure(struct golden *g, double figure, double tolerance, const char *name, ...)
{
    bool good = within(figure, tolerance);
    va_list list;

    va_start(list, name);
    line(good ? &g->passed : &g->failed, good ? "pass" : "FAIL", name, list);
    va_end(list);
    printf(": %.3g, at most %.3g\n", figure, tolerance);
}

bool check_ok(struct golden *g, status s, const char *name, ...)
{
    va_list list;

    if (s == OK) {
        return true;
    }
    va_start(list, name);
    line(&g->failed, "FAIL", name, list);
    va_end(list);
    printf(": %s\n", fail_text());
    return false;
}

void check_true(struct golden *g, bool good, const char *name, ...)
{
    va_list list;

    va_start(list, name);
    line(good ? &g->passed : &g->failed, good ? "pass" : "FAIL", name, list);
    va_end(list);
    printf("\n");
}

void check_skip(struct golden *g, const char *why, const char *name, ...)
{
    va_list list;

    va_start(list, name);
    line(&g->skipped, "skip", name, list);
    va_end(list);
    printf(": %s\n", why);
}

/* ---- reading ---- */

status tensor_take(const struct tensor_file *f, struct arena *a, const char *name, int64_t count,
                   double **out)
{
    const struct tensor_entry *e = tensor_file_find(f, name);

    if (e == NULL) {
        return fail(ERR_MISSING, "%s: tensor %s is missing", f->path, name);
    }
    if (count >= 0 && e->count != count) {
        return fail(ERR_FORMAT, "%s: tensor %s has %lld elements, expected were %lld", f->path,
                    name, (long long)e->count, (long long)count);
    }
    *out = arena_take_array(a, (size_t)e->count, sizeof **out);
    return tensor_file_read(f, e, 0, e->count, DT_F64, *out);
}

status json_take(struct arena *a, const char *path, json_t **out)
{
    json_error_t e;
    char *bytes;
    size_t length;

    TRY(file_read(a, path, (size_t)1 << 28, &bytes, &length));
    *out = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &e);
    return *out != NULL ? OK : fail(ERR_FORMAT, "%s:%d: %s", path, e.line, e.text);
}

status json_number_at(const json_t *j, const char *path, const char *key, double *out)
{
    const json_t *v = json_object_get(j, key);

    if (!json_is_number(v)) {
        return fail(ERR_FORMAT, "%s: %s must be there and be a number", path, key);
    }
    *out = json_number_value(v);
    return OK;
}
