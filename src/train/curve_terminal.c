/* The small picture: a cell of the terminal is two braille dots wide and four high. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/curve.h"

enum { ROWS = 10, LABEL = 8, COLUMNS_MOST = 110 };

struct canvas {
    unsigned char dots[ROWS][COLUMNS_MOST]; /* bits as braille numbers them */
    char marks[ROWS][COLUMNS_MOST];         /* validations and skipped steps */
    int columns;
};

static void dot(struct canvas *v, int x, int y)
{
    static const unsigned char bits[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

    if (x >= 0 && x < 2 * v->columns && y >= 0 && y < 4 * ROWS) {
        v->dots[y / 4][x / 2] |= bits[y % 4][x % 2];
    }
}

static void mark(struct canvas *v, int x, int y, char with)
{
    if (x >= 0 && x < 2 * v->columns && y >= 0 && y < 4 * ROWS) {
        v->marks[y / 4][x / 2] = with;
    }
}

static int step_x(const struct curve *c, const struct canvas *v, double step)
{
    return (int)lround(step / (double)(c->last > 0 ? c->last : 1) * (2 * v->columns - 1));
}

/* Of a loss above the scale: the row that nobody sees. */
static int dot_y(const struct curve_scale *s, double x)
{
    double share = curve_share(s, x);

    return share > 1.001 ? -1 : (int)lround((1 - fmin(share, 1)) * (4 * ROWS - 1));
}

/* Dots from the last one, which is drawn, to this one. */
static void stroke(struct canvas *v, int from_x, int from_y, int x, int y)
{
    int steps = abs(y - from_y) > x - from_x ? abs(y - from_y) : x - from_x;

    for (int k = 1; k <= steps; k++) {
        dot(v, from_x + (x - from_x) * k / steps, from_y + (y - from_y) * k / steps);
    }
}

static void draw_losses(const struct curve *c, const struct curve_scale *s, struct canvas *v)
{
    double line[CURVE_BUCKETS];
    int before_x = 0, before_y = -1; /* -1: a line begins */

    curve_smooth(c, line);
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        const struct curve_bucket *b = &c->train[i];

        if (b->count > 0) {
            int x = step_x(c, v, curve_step(c, i)), y = dot_y(s, line[i]);

            dot(v, x, y);
            if (y >= 0 && before_y >= 0) {
                stroke(v, before_x, before_y, x, y);
            }
            before_x = x;
            before_y = y;
        } else if (b->lost > 0) {
            before_y = -1;
        }
    }
}

static void draw_marks(const struct curve *c, const struct curve_scale *s, struct canvas *v)
{
    for (int i = 0; i < CURVE_BUCKETS; i++) {
        int x = step_x(c, v, curve_step(c, i));

        if (c->train[i].lost > 0) {
            mark(v, x, 0, 'x');
        }
        if (c->val[i].count > 0) {
            mark(v, x, dot_y(s, curve_mean(&c->val[i])), 'o');
        }
    }
}

/* ---- putting it into characters ---- */

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

/* The label of the tick that lies in this row, if one does, and the axis. */
static void row_head(const struct curve_scale *s, int row, bool utf8, struct text *out)
{
    double first = ceil(s->from / s->step - 1e-9) * s->step;

    for (int i = 0; first + i * s->step <= s->to + s->step * 1e-9; i++) {
        double x = first + i * s->step;
        char label[32];

        if (dot_y(s, x) / 4 == row) {
            text_add_format(out, "%*s %s", LABEL, curve_value_label(label, x, s->step),
                            utf8 ? "\xe2\x94\xa4" : "+");
            return;
        }
    }
    text_add_format(out, "%*s %s", LABEL, "", utf8 ? "\xe2\x94\x82" : "|");
}

/* Step labels, each centred on its column where there is room. */
static void step_row(const struct curve *c, const struct canvas *v, struct text *out)
{
    struct curve_scale ticks = curve_scale_of(0, c->last > 1 ? (double)c->last : 1, 5);
    char line[COLUMNS_MOST + 1], label[32];
    int free_from = 0;

    memset(line, ' ', sizeof line);
    ticks.step = fmax(ticks.step, 1);
    for (int i = 0; i * ticks.step <= (double)c->last; i++) {
        int length = (int)strlen(curve_step_label(label, i * ticks.step)),
            at = step_x(c, v, i * ticks.step) / 2 - length / 2;

        at = at < 0 ? 0 : at + length > v->columns ? v->columns - length : at;
        if (at >= free_from) {
            memcpy(line + at, label, (size_t)length);
            free_from = at + length + 1;
        }
    }
    text_add_format(out, "%*s", LABEL + 2, "");
    text_add_n(out, line, (size_t)(free_from > 0 ? free_from - 1 : 0));
    text_add_char(out, '\n');
}

static void caption(const struct curve *c, struct text *out)
{
    text_add_format(out, "%*straining loss over steps", LABEL + 2, "");
    text_add(out, isnan(curve_validation(c)) ? "" : ", o validation");
    text_add(out, curve_lost(c) == 0 ? "\n" : ", x skipped\n");
}

void curve_terminal(const struct curve *c, int columns, bool utf8, struct text *out)
{
    struct curve_scale s = curve_losses(c, 4);
    struct canvas v = { .columns = columns - LABEL - 2 };

    /* Lines are few: none of them lies beyond the losses. */
    s.from = s.least;
    s.to = s.most;
    v.columns = v.columns > COLUMNS_MOST ? COLUMNS_MOST : v.columns;
    check(v.columns > 0, "a terminal of %d columns", columns);
    draw_losses(c, &s, &v);
    draw_marks(c, &s, &v);
    for (int row = 0; row < ROWS; row++) {
        row_head(&s, row, utf8, out);
        for (int column = 0; column < v.columns; column++) {
            cell(&v, row, column, utf8, out);
        }
        text_add_char(out, '\n');
    }
    step_row(c, &v, out);
    caption(c, out);
}
