/*
 * The loss of a run as a picture: points are gathered in a bounded number of buckets, however long
 * the run, and drawn as SVG or on a terminal.
 *
 *   curve.c           gathering, from steps or from a metrics.jsonl; smoothing and scales
 *   curve_svg.c       the picture of a run's folder
 *   curve_terminal.c  the small one, in braille or ASCII
 *   curve_show.c      where the two go
 */
#ifndef ROUX_TRAIN_CURVE_H
#define ROUX_TRAIN_CURVE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/text.h"

enum { CURVE_BUCKETS = 512 };

/* Steps [index * span, (index + 1) * span): what was seen of them. */
struct curve_bucket {
    double least, most, sum, lr;
    int64_t count; /* losses; validations where the bucket is one of those */
    int64_t lost;  /* steps that changed nothing, or whose loss is not finite: a gap, and a mark */
};

/* A zeroed struct has seen nothing. */
struct curve {
    struct curve_bucket train[CURVE_BUCKETS], val[CURVE_BUCKETS];
    int64_t span; /* steps of a bucket; doubled when the last one is passed */
    int64_t last; /* the latest step */
};

/* `loss` is NAN for a step that was skipped. */
void curve_add(struct curve *c, int64_t step, double loss, double lr);
void curve_add_validation(struct curve *c, int64_t step, double loss);

/* What a line of metrics.jsonl tells; lines of other kinds are passed over. The step of the line;
 * -1 if it is none of ours. */
int64_t curve_read_line(struct curve *c, const char *line);

bool curve_is_empty(const struct curve *c); /* fewer than two points: nothing to draw */

/* A whole SVG file of less than 60,000 bytes, for light and dark pages. Both texts are escaped
 * here. */
void curve_svg(const struct curve *c, const char *title, const char *details, struct text *out);

/* 12 lines of at most `columns` characters (60 or more), in braille if `utf8`, else in ASCII. */
void curve_terminal(const struct curve *c, int columns, bool utf8, struct text *out);

/* Replaces `path` by the picture. ERR_IO as file_replace says. */
MUST_USE status curve_publish(const struct curve *c, const char *path, const char *title,
                              const char *details);

/* The small picture on standard error, for people: only if that is a terminal of 60 columns or
 * more. */
void curve_show(const struct curve *c);

/* ---- what both pictures need ---- */

struct curve_scale {
    double from, to, step; /* both ends are ticks; step: between ticks */
    double least, most;    /* what is to be shown: within from and to */
    double highest;        /* the largest loss, which may lie above all that */
};

/* Ticks at 1, 2 or 5 times a power of ten, about `ticks` of them. from < to. */
struct curve_scale curve_scale_of(double from, double to, int ticks);

/* For all losses, save that rare peaks above the first loss do not press the rest flat. */
struct curve_scale curve_losses(const struct curve *c, int ticks);

/* 0 at the scale's lower end, 1 at the upper one. */
double curve_share(const struct curve_scale *s, double x);

double curve_mean(const struct curve_bucket *b);

/* The step that a bucket's points are drawn at: its middle, but not behind the last step. */
double curve_step(const struct curve *c, int bucket);

/* line[CURVE_BUCKETS]: means of the training buckets, smoothed by medians and means around each;
 * the fewer there are, the less. NaN where there are none. */
void curve_smooth(const struct curve *c, double *line);

/* The last validation; NaN if there is none. */
double curve_validation(const struct curve *c);

int64_t curve_lost(const struct curve *c);

/* "20k" and "2.5M" for 20000 and 2500000. */
char *curve_step_label(char out[32], double step);

/* A tick's value with the digits that tell it from the next one. */
char *curve_value_label(char out[32], double x, double step);

#endif
