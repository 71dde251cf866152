/*
 * The picture of a run's folder: the band between the least and the largest loss of a bucket, the
 * means as a thin line and smoothed as a thick one, validations as dots, steps that changed nothing
 * as marks above, and the learning rate below.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/curve.h"

enum {
    WIDTH = 960,
    HEIGHT = 540,
    LEFT = 72,
    RIGHT = 28,
    TOP = 78,
    BOTTOM = 48,
    RATE = 64,
    GAP = 36,
    TITLE_MOST = 80, /* bytes that surely fit */
    DOTS_MOST = 80   /* more validations than that are a line without dots */
};

static const char style[] =
    "<style>\n"
    "svg{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\n"
    "text{fill:#52525b}.page{fill:#fff}.h{font-size:18px;font-weight:600;fill:#18181b}"
    ".end{text-anchor:end}.mid{text-anchor:middle}\n"
    "path{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
    ".grid{stroke:#e4e4e7}.band{fill:#2563eb;opacity:.16}.raw{stroke:#2563eb;opacity:.4}\n"
    ".line{stroke:#2563eb;stroke-width:2}.val{stroke:#ea580c;stroke-width:1.5}"
    ".dot{stroke:#ea580c;stroke-width:6}\n"
    ".lost{stroke:#dc2626;stroke-width:1.5}.rate{stroke:#71717a;stroke-width:1.5}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#a1a1aa}.page{fill:#18181b}.h{fill:#f4f4f5}.grid{stroke:#33333a}\n"
    ".band{fill:#60a5fa}.raw,.line{stroke:#60a5fa}.val,.dot{stroke:#fb923c}.lost{stroke:#f87171}"
    ".rate{stroke:#a1a1aa}}\n"
    "</style>\n";

struct frame {
    double top, bottom; /* pixels */
    struct curve_scale value;
    double steps; /* from 0, across the width */
};

static double across(const struct frame *f, double step)
{
    return LEFT + step / f->steps * (WIDTH - LEFT - RIGHT);
}

static double up(const struct frame *f, double x)
{
    return f->bottom - curve_share(&f->value, x) * (f->bottom - f->top);
}

/* ---- texts ---- */

static void escaped(struct text *out, const char *plain, size_t length)
{
    size_t whole = text_utf8_valid(plain, length);

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)plain[i];

        switch (c) {
        case '<':
            text_add(out, "&lt;");
            break;
        case '>':
            text_add(out, "&gt;");
            break;
        case '&':
            text_add(out, "&amp;");
            break;
        default:
            text_add_char(out, c < 32 ? ' ' : i >= whole && c >= 128 ? '?' : plain[i]);
        }
    }
}

/* As much as fits on the line, cut between characters. */
static void heading(struct text *out, const char *title)
{
    size_t length = strlen(title), shown = length;

    if (shown > TITLE_MOST) {
        shown = TITLE_MOST;
        while (shown > 0 && ((unsigned char)title[shown] & 0xc0) == 0x80) {
            shown--;
        }
    }
    text_add_format(out, "<text class=\"h\" x=\"%d\" y=\"30\">", LEFT);
    escaped(out, title, shown);
    text_add(out, shown < length ? "\xe2\x80\xa6</text>\n" : "</text>\n");
}

static void head(const char *title, const char *details, struct text *out)
{
    text_add_format(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" role=\"img\">\n<title>",
                    WIDTH, HEIGHT, WIDTH, HEIGHT);
    escaped(out, title, strlen(title));
    text_add_format(out,
                    "</title>\n%s<clipPath id=\"panel\"><rect x=\"%d\" y=\"%d\" width=\"%d\" "
                    "height=\"%d\"/></clipPath>\n<rect class=\"page\" width=\"%d\" "
                    "height=\"%d\"/>\n",
                    style, LEFT - 5, TOP - 5, WIDTH - LEFT - RIGHT + 10,
                    HEIGHT - BOTTOM - RATE - GAP - TOP + 10, WIDTH, HEIGHT);
    heading(out, title);
    text_add_format(out, "<text class=\"end\" x=\"%d\" y=\"54\">", WIDTH - RIGHT);
    escaped(out, details, strlen(details));
    text_add(out, "</text>\n");
}

/* Swatch and text; the next one stands to the right of it, some 7 pixels a character. */
static int key(struct text *out, int x, int width, const char *class, const char *form,
               const char *words)
{
    text_add_format(out, "<path class=\"%s\" d=\"M%d %s\"/><text x=\"%d\" y=\"54\">%s</text>\n",
                    class, x, form, x + width, words);
    return x + width + 7 * (int)strlen(words) + 12;
}

static void legend(const struct curve *c, double loss, struct text *out)
{
    char words[64];
    int x = LEFT;

    snprintf(words, sizeof words, "training loss %.4g", loss);
    x = key(out, x, 20, "line", "50h12", words);
    if (!isnan(curve_validation(c))) {
        snprintf(words, sizeof words, "validation loss %.4g", curve_validation(c));
        x = key(out, x, 10, "dot", "50h0", words);
    }
    if (curve_lost(c) > 0) {
        snprintf(words, sizeof words, "skipped steps %lld", (long long)curve_lost(c));
        key(out, x, 8, "lost", "45v9", words);
    }
}

/* ---- axes ---- */

static void grid(const struct frame *f, struct text *out)
{
    int ticks = (int)lround((f->value.to - f->value.from) / f->value.step);

    for (int i = 0; i <= ticks; i++) {
        double x = f->value.from + i * f->value.step, y = up(f, x);
        char label[32];

        text_add_format(out,
                        "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"end\" x=\"%d\" "
                        "y=\"%.1f\">%s</text>\n",
                        LEFT, y, WIDTH - RIGHT, LEFT - 9, y + 4.5,
                        curve_value_label(label, x, f->value.step));
    }
}

static void step_axis(const struct frame *f, struct text *out)
{
    struct curve_scale ticks = curve_scale_of(0, f->steps, 8);

    ticks.step = fmax(ticks.step, 1);
    for (int i = 0; i * ticks.step <= f->steps; i++) {
        char label[32];

        text_add_format(out, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                        across(f, i * ticks.step), HEIGHT - BOTTOM + 20,
                        curve_step_label(label, i * ticks.step));
    }
    text_add_format(out, "<text class=\"end\" x=\"%d\" y=\"%d\">step</text>\n", WIDTH - RIGHT,
                    HEIGHT - 9);
}

/* ---- lines ---- */

/* Only losses that are not finite, and nothing else, were seen here: lines stop. */
static bool is_gap(const struct curve_bucket *b)
{
    return b->count == 0 && b->lost > 0;
}

/* A line through the values that are numbers. A lone one becomes a dot, by the zero-length part
 * behind its "M". `gaps`: of these buckets; NULL: none. */
static void polyline(const struct curve *c, const struct frame *f, const char *class,
                     const double *values, const struct curve_bucket *gaps, struct text *out)
{
    bool first = true;

    text_add_format(out, "<path class=\"%s\" d=\"", class);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (!isnan(values[i])) {
            text_add_format(out, first ? "M%.1f %.1fh0" : "L%.1f %.1f", across(f, curve_step(c, i)),
                            up(f, values[i]));
            first = false;
        } else if (gaps != NULL && is_gap(&gaps[i])) {
            first = true;
        }
    }
    text_add(out, "\"/>\n");
}

/* The part of the band over buckets [from, to). */
static void band_part(const struct curve *c, const struct frame *f, int from, int to,
                      struct text *out)
{
    const char *pen = "M";

    for (int i = from; i < to; i++) {
        if (c->train[i].count > 0) {
            text_add_format(out, "%s%.1f %.1f", pen, across(f, curve_step(c, i)),
                            up(f, c->train[i].most));
            pen = "L";
        }
    }
    for (int i = to - 1; i >= from; i--) {
        if (c->train[i].count > 0) {
            text_add_format(out, "L%.1f %.1f", across(f, curve_step(c, i)),
                            up(f, c->train[i].least));
        }
    }
    if (pen[0] == 'L') {
        text_add(out, "Z");
    }
}

/* Where a bucket is one step, least and largest are the same. */
static void band(const struct curve *c, const struct frame *f, struct text *out)
{
    int from = 0;

    if (c->span == 1) {
        return;
    }
    text_add(out, "<path class=\"band\" d=\"");
    for (int i = 0; i <= CURVE_BUCKETS; i++) {
        if (i == CURVE_BUCKETS || is_gap(&c->train[i])) {
            band_part(c, f, from, i, out);
            from = i + 1;
        }
    }
    text_add(out, "\"/>\n");
}

static void validations(const struct curve *c, const struct frame *f, struct text *out)
{
    double line[CURVE_BUCKETS];
    int points = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        line[i] = c->val[i].count > 0 ? curve_mean(&c->val[i]) : NAN;
        points += c->val[i].count > 0;
    }
    if (isnan(curve_validation(c))) {
        return;
    }
    polyline(c, f, "val", line, c->val, out);
    if (points > DOTS_MOST) {
        return;
    }
    text_add(out, "<path class=\"dot\" d=\"");
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (!isnan(line[i])) {
            text_add_format(out, "M%.1f %.1fh0", across(f, curve_step(c, i)), up(f, line[i]));
        }
    }
    text_add(out, "\"/>\n");
}

static void marks(const struct curve *c, const struct frame *f, struct text *out)
{
    if (curve_lost(c) == 0) {
        return;
    }
    text_add(out, "<path class=\"lost\" d=\"");
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->train[i].lost > 0) {
            text_add_format(out, "M%.1f %dv9", across(f, curve_step(c, i)), TOP);
        }
    }
    text_add(out, "\"/>\n");
}

/* Named where the picture does not reach up to it. */
static void highest(const struct curve *c, const struct frame *f, struct text *out)
{
    char label[32];
    int at = 0;

    if (f->value.highest <= f->value.to) {
        return;
    }
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        at = c->train[i].count > 0 && c->train[i].most == f->value.highest ? i : at;
    }
    text_add_format(
        out, "<text class=\"end\" x=\"%d\" y=\"%d\">highest: %.4g near step %s</text>\n",
        WIDTH - RIGHT, TOP + 26, f->value.highest, curve_step_label(label, (double)(at * c->span)));
}

static void rates(const struct curve *c, const struct frame *above, struct text *out)
{
    struct frame f = *above;
    double line[CURVE_BUCKETS], most = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        bool seen = c->train[i].count + c->train[i].lost > 0 && isfinite(c->train[i].lr);

        line[i] = seen ? c->train[i].lr : NAN;
        most = seen ? fmax(most, c->train[i].lr) : most;
    }
    f.top = HEIGHT - BOTTOM - RATE;
    f.bottom = HEIGHT - BOTTOM;
    f.value = curve_scale_of(0, most > 0 ? most : 1, 2);
    grid(&f, out);
    polyline(c, &f, "rate", line, NULL, out);
    text_add_format(out, "<text x=\"%d\" y=\"%.1f\">learning rate</text>\n", LEFT, f.top - 8);
}

void curve_svg(const struct curve *c, const char *title, const char *details, struct text *out)
{
    struct frame f = { .top = TOP,
                       .bottom = HEIGHT - BOTTOM - RATE - GAP,
                       .value = curve_losses(c, 6),
                       .steps = c->last > 1 ? (double)c->last : 1 };
    double line[CURVE_BUCKETS], raw[CURVE_BUCKETS], loss = NAN;

    curve_smooth(c, line);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        raw[i] = c->train[i].count > 0 ? curve_mean(&c->train[i]) : NAN;
        loss = isnan(line[i]) ? loss : line[i];
    }
    head(title, details, out);
    legend(c, loss, out);
    grid(&f, out);
    step_axis(&f, out);
    text_add(out, "<g clip-path=\"url(#panel)\">\n");
    band(c, &f, out);
    polyline(c, &f, "raw", raw, c->train, out);
    polyline(c, &f, "line", line, c->train, out);
    validations(c, &f, out);
    marks(c, &f, out);
    text_add(out, "</g>\n");
    highest(c, &f, out);
    rates(c, &f, out);
    text_add(out, "</svg>\n");
}
