/*
 * The loss of a run as a picture: points are gathered in a bounded number of buckets, however long
 * the run, and drawn as SVG or on a terminal.
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
    int64_t count;
};

/* A zeroed struct has seen nothing. */
struct curve {
    struct curve_bucket train[CURVE_BUCKETS], val[CURVE_BUCKETS];
    int64_t span; /* steps of a bucket; doubled when the last one is passed */
    int64_t last; /* the latest step */
};

/* Losses that are not finite leave a gap. */
void curve_add(struct curve *c, int64_t step, double loss, double lr);
void curve_add_validation(struct curve *c, int64_t step, double loss);

/* What a metrics.jsonl tells, line by line; lines of other kinds are passed over. */
void curve_read(struct curve *c, const char *lines);

bool curve_is_empty(const struct curve *c); /* fewer than two points: nothing to draw */

/* A whole SVG file, a few kilobytes, for light and dark pages. `title` is escaped here. */
void curve_svg(const struct curve *c, const char *title, struct text *out);

/* About twelve lines of at most `columns` characters (60 or more), in braille if `utf8`, else in
 * ASCII. */
void curve_terminal(const struct curve *c, int columns, bool utf8, struct text *out);

#endif
