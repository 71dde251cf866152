/*
 * The pictures: an SVG with the band between the least and the largest loss of a bucket, a smoothed
 * line through the means, validations as dots, and the learning rate below; and a small one for
 * terminals.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/curve.h"

/* ---- scales ---- */

struct scale {
    double from, to, step; /* of values; step: between ticks */
};

/* Ticks at 1, 2 or 5 times a power of ten, about `ticks` of them, and ends that are ticks. */
static struct scale scale_of(double from, double to, int ticks)
{
    double rough = (to - from) / ticks, power = pow(10, floor(log10(rough))), part = rough / power;
    double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);

    return (struct scale){ floor(from / step) * step, ceil(to / step) * step, step };
}

static struct scale losses(const struct curve *c, int ticks)
{
    double least = INFINITY, most = -INFINITY;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->train[i].count > 0) {
            least = fmin(least, c->train[i].least);
            most = fmax(most, c->train[i].most);
        }
        if (c->val[i].count > 0) {
            least = fmin(least, c->val[i].least);
            most = fmax(most, c->val[i].most);
        }
    }
    if (!(most > least)) {
        least -= 0.5;
        most += 0.5;
    }
    return scale_of(least, most, ticks);
}

static double share(const struct scale *s, double x)
{
    return (x - s->from) / (s->to - s->from);
}

static double mean(const struct curve_bucket *b)
{
    return b->sum / (double)b->count;
}

/* Means of buckets, each a weighted sum of itself and the ones before it: weight 1 / 8 for the new
 * one once there are some. NaN where nothing was seen. */
static void smooth(const struct curve *c, double *line)
{
    double at = NAN;
    int seen = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        line[i] = NAN;
        if (c->train[i].count > 0) {
            double weight = 1.0 / (seen < 7 ? seen + 1 : 8);

            at = seen == 0 ? mean(&c->train[i]) : at + weight * (mean(&c->train[i]) - at);
            line[i] = at;
            seen++;
        }
    }
}

/* ---- SVG ---- */

enum {
    WIDTH = 960,
    HEIGHT = 540,
    LEFT = 72,
    RIGHT = 24,
    TOP = 64,
    BOTTOM = 48,
    RATE = 70,
    GAP = 26
};

static const char style[] =
    "<style>\n"
    "svg{background:#fff;font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\n"
    "text{fill:#444}.h{font-size:18px;font-weight:600;fill:#111}.g{stroke:#e4e4e7;stroke-width:1}\n"
    ".band{fill:#2563eb;opacity:.15}.raw{fill:none;stroke:#2563eb;opacity:.35}.line{stroke:#2563eb}"
    ".rate{stroke:#71717a}\n"
    ".line,.rate,.val{fill:none;stroke-width:2;stroke-linejoin:round}.val{stroke:#ea580c}\n"
    ".dot{fill:#ea580c}.key{fill:#2563eb}\n"
    "@media(prefers-color-scheme:dark){svg{background:#18181b}text{fill:#b4b4bb}.h{fill:#f4f4f5}\n"
    ".g{stroke:#33333a}.band{fill:#60a5fa}.raw{stroke:#60a5fa}.line{stroke:#60a5fa}.rate{stroke:#"
    "a1a1aa}.key{fill:#"
    "60a5fa}\n"
    ".val{stroke:#fb923c}.dot{fill:#fb923c}}\n"
    "</style>\n";

struct frame {
    double top, bottom; /* pixels */
    struct scale value; /* upwards */
    struct scale steps; /* to the right */
    double span;        /* steps of a bucket */
};

static double across(const struct frame *f, double step)
{
    return LEFT + share(&f->steps, step) * (WIDTH - LEFT - RIGHT);
}

static double up(const struct frame *f, double x)
{
    return f->bottom - share(&f->value, x) * (f->bottom - f->top);
}

/* The middle of a bucket. */
static double bucket_x(const struct frame *f, int i)
{
    return across(f, ((double)i + 0.5) * f->span - 0.5);
}

static void escaped(struct text *out, const char *plain)
{
    for (; *plain != 0; plain++) {
        switch (*plain) {
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
            text_add_char(out, (unsigned char)*plain < 32 ? ' ' : *plain);
        }
    }
}

/* 20000 -> "20k". */
static void step_label(char out[32], double step)
{
    if (step >= 1e6) {
        snprintf(out, 32, "%gM", step / 1e6);
    } else if (step >= 1e4) {
        snprintf(out, 32, "%gk", step / 1e3);
    } else {
        snprintf(out, 32, "%g", step);
    }
}

static void grid(const struct frame *f, struct text *out)
{
    for (int i = 0; f->value.from + i * f->value.step <= f->value.to * (1 + 1e-9); i++) {
        double x = f->value.from + i * f->value.step, y = up(f, x);

        text_add_format(out,
                        "<line class=\"g\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                        LEFT, y, WIDTH - RIGHT, y, LEFT - 8, y + 4, fabs(x) < 1e-12 ? 0 : x);
    }
}

static void step_axis(const struct frame *f, double last, struct text *out)
{
    struct scale ticks = scale_of(0, last, 8);

    for (int i = 0; i * ticks.step <= last; i++) {
        char label[32];

        step_label(label, i * ticks.step);
        text_add_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                        across(f, i * ticks.step), HEIGHT - BOTTOM + 20, label);
    }
    text_add_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT,
                    HEIGHT - 8);
}

static void band(const struct curve *c, const struct frame *f, struct text *out)
{
    text_add(out, "<path class=\"band\" d=\"");
    for (int i = 0, first = 1; i < CURVE_BUCKETS; i++) {
        if (c->train[i].count > 0) {
            text_add_format(out, "%s%.1f %.1f", first ? "M" : "L", bucket_x(f, i),
                            up(f, c->train[i].most));
            first = 0;
        }
    }
    for (int i = CURVE_BUCKETS - 1; i >= 0; i--) {
        if (c->train[i].count > 0) {
            text_add_format(out, "L%.1f %.1f", bucket_x(f, i), up(f, c->train[i].least));
        }
    }
    text_add(out, "Z\"/>\n");
}

static void polyline(const struct frame *f, const char *class, const double *values,
                     struct text *out)
{
    text_add_format(out, "<path class=\"%s\" d=\"", class);
    for (int i = 0, first = 1; i < CURVE_BUCKETS; i++) {
        if (!isnan(values[i])) {
            text_add_format(out, "%s%.1f %.1f", first ? "M" : "L", bucket_x(f, i),
                            up(f, values[i]));
            first = 0;
        }
    }
    text_add(out, "\"/>\n");
}

static bool validations(const struct curve *c, const struct frame *f, struct text *out)
{
    double line[CURVE_BUCKETS];
    bool any = false;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        line[i] = c->val[i].count > 0 ? mean(&c->val[i]) : NAN;
        any = any || c->val[i].count > 0;
    }
    if (!any) {
        return false;
    }
    polyline(f, "val", line, out);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->val[i].count > 0) {
            text_add_format(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                            bucket_x(f, i), up(f, line[i]));
        }
    }
    return true;
}

static void legend(bool has_validation, double loss, double val, struct text *out)
{
    text_add_format(out,
                    "<circle class=\"key\" cx=\"%d\" cy=\"48\" r=\"4\"/>"
                    "<text x=\"%d\" y=\"52\">training loss %.4g</text>\n",
                    LEFT + 4, LEFT + 14, loss);
    if (has_validation) {
        text_add_format(out,
                        "<circle class=\"dot\" cx=\"%d\" cy=\"48\" r=\"4\"/>"
                        "<text x=\"%d\" y=\"52\">validation loss %.4g</text>\n",
                        LEFT + 184, LEFT + 194, val);
    }
}

static double latest(const double *line)
{
    for (int i = CURVE_BUCKETS - 1; i >= 0; i--) {
        if (!isnan(line[i])) {
            return line[i];
        }
    }
    return NAN;
}

static double latest_validation(const struct curve *c)
{
    for (int i = CURVE_BUCKETS - 1; i >= 0; i--) {
        if (c->val[i].count > 0) {
            return mean(&c->val[i]);
        }
    }
    return NAN;
}

static void rates(const struct curve *c, const struct frame *above, struct text *out)
{
    struct frame f = *above;
    double line[CURVE_BUCKETS], most = 0;

    for (int i = 0; i < CURVE_BUCKETS; i++) {
        bool seen = c->train[i].count > 0 && isfinite(c->train[i].lr);

        line[i] = seen ? c->train[i].lr : NAN;
        most = seen ? fmax(most, c->train[i].lr) : most;
    }
    f.top = HEIGHT - BOTTOM - RATE;
    f.bottom = HEIGHT - BOTTOM;
    f.value = scale_of(0, most > 0 ? most : 1, 2);
    grid(&f, out);
    polyline(&f, "rate", line, out);
    text_add_format(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">learning rate</text>\n",
                    WIDTH - RIGHT, f.top - 6);
}

void curve_svg(const struct curve *c, const char *title, struct text *out)
{
    struct frame f = { .top = TOP,
                       .bottom = HEIGHT - BOTTOM - RATE - GAP,
                       .value = losses(c, 6),
                       .steps = { 0, c->last > 1 ? (double)c->last : 1, 1 },
                       .span = (double)c->span };
    double line[CURVE_BUCKETS], raw[CURVE_BUCKETS];
    bool validated;

    smooth(c, line);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        raw[i] = c->train[i].count > 0 ? mean(&c->train[i]) : NAN;
    }
    text_add_format(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" role=\"img\">\n<title>",
                    WIDTH, HEIGHT, WIDTH, HEIGHT);
    escaped(out, title);
    text_add_format(out, "</title>\n%s<text class=\"h\" x=\"%d\" y=\"28\">", style, LEFT);
    escaped(out, title);
    text_add(out, "</text>\n");
    grid(&f, out);
    step_axis(&f, (double)c->last, out);
    band(c, &f, out);
    polyline(&f, "raw", raw, out);
    polyline(&f, "line", line, out);
    validated = validations(c, &f, out);
    legend(validated, latest(line), latest_validation(c), out);
    rates(c, &f, out);
    text_add(out, "</svg>\n");
}

/* ---- terminals: a cell is two dots wide and four high ---- */

enum { ROWS = 10, LABEL = 9, COLUMNS_MOST = 110 };

struct canvas {
    unsigned char dots[ROWS][COLUMNS_MOST]; /* bits as braille numbers them */
    char marks[ROWS][COLUMNS_MOST];         /* validations */
    int columns;
};

static void dot(struct canvas *v, int x, int y)
{
    static const unsigned char bits[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

    if (x >= 0 && x < 2 * v->columns && y >= 0 && y < 4 * ROWS) {
        v->dots[y / 4][x / 2] |= bits[y % 4][x % 2];
    }
}

static int dot_x(const struct curve *c, const struct canvas *v, int i)
{
    double step = ((double)i + 0.5) * (double)c->span - 0.5;

    return (int)(step / (double)(c->last > 0 ? c->last : 1) * (2 * v->columns - 1));
}

static int dot_y(const struct scale *s, double x)
{
    return (int)lround((1 - share(s, x)) * (4 * ROWS - 1));
}

static void draw(const struct curve *c, const struct scale *s, struct canvas *v)
{
    double line[CURVE_BUCKETS];
    int before_x = -1, before_y = 0;

    smooth(c, line);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (!isnan(line[i])) {
            int x = dot_x(c, v, i), y = dot_y(s, line[i]);

            for (int k = before_x < 0 ? x : before_x; k <= x; k++) {
                int steps = x - before_x;

                dot(v, k,
                    before_x < 0 || steps == 0
                        ? y
                        : before_y + (y - before_y) * (k - before_x) / steps);
            }
            before_x = x;
            before_y = y;
        }
    }
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        if (c->val[i].count > 0) {
            int x = dot_x(c, v, i) / 2, y = dot_y(s, mean(&c->val[i])) / 4;

            if (x >= 0 && x < v->columns && y >= 0 && y < ROWS) {
                v->marks[y][x] = 'o';
            }
        }
    }
}

static void cell(const struct canvas *v, int row, int column, bool utf8, struct text *out)
{
    unsigned char dots = v->dots[row][column];

    if (v->marks[row][column] != 0) {
        text_add_char(out, v->marks[row][column]);
    } else if (dots == 0 || !utf8) {
        text_add_char(out, dots == 0 ? ' ' : '*');
    } else { /* U+2800 and on */
        text_add_char(out, (char)0xe2);
        text_add_char(out, (char)(0xa0 | dots >> 6));
        text_add_char(out, (char)(0x80 | (dots & 0x3f)));
    }
}

void curve_terminal(const struct curve *c, int columns, bool utf8, struct text *out)
{
    struct scale s = losses(c, 4);
    struct canvas v = { .columns = columns - LABEL - 1 };
    char last[32];
    bool validated = !isnan(latest_validation(c));

    v.columns = v.columns > COLUMNS_MOST ? COLUMNS_MOST : v.columns;
    draw(c, &s, &v);
    for (int row = 0; row < ROWS; row++) {
        double value = s.to - (s.to - s.from) * row / (ROWS - 1);

        if (row % 3 == 0) {
            text_add_format(out, "%*.4g ", LABEL - 2, value);
        } else {
            text_add_format(out, "%*s ", LABEL - 2, "");
        }
        text_add(out, utf8 ? "\xe2\x94\x82" : "|");
        for (int column = 0; column < v.columns; column++) {
            cell(&v, row, column, utf8, out);
        }
        text_add_char(out, '\n');
    }
    step_label(last, (double)c->last);
    text_add_format(out, "%*s%-*s%s\n", LABEL, "", v.columns - (int)strlen(last), "0", last);
    text_add_format(out, "%*sloss over steps%s\n", LABEL, "", validated ? "; o validation" : "");
}
