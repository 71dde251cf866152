/* Inside the room: what a probe shows of a program that has run, or runs node by node. */
#ifndef ROUX_INFER_INSPECT_H
#define ROUX_INFER_INSPECT_H

#include <stdio.h>
#include "program/watch.h"

/* "VALUE" or "VALUE=FILE", taken apart; texts live in `a`. ERR_RECIPE where one of them is empty. */
struct dump {
    const char *name, *file; /* file NULL: none */
    val value;
};
MUST_USE status dump_read(struct dump *d, struct arena *a, const char *text);
/* Before the plan: the value's bytes shall stay. ERR_RECIPE with the nearest name. */
MUST_USE status dump_keep(struct dump *d, struct program *p);
/* ERR_RECIPE if the value is made by none of the first `until` nodes (0: all). */
MUST_USE status dump_check(const struct dump *d, const struct program *p, int until);
/* Type, shape, least, largest, mean, root mean square and the first elements; where a file is named
 * the bytes too, as the only tensor of a safetensors file. ERR_IO, ERR_UNSUPPORTED. */
MUST_USE status dump_print(const struct dump *d, const struct program *p,
                           const struct device *device, struct arena *a, FILE *to);

/* The same program, planned for two kernel families, perhaps written for two precisions. */
struct pair {
    const struct program *program[2];
    struct device *device[2];
    double tolerance;
    const char
        *first; /* out: the first value that differs by more, lives in the program; or NULL */
    int first_node;
    double first_relative;
};
/*
 * Runs both node by node. Before each the inputs of the first device are copied to the second, so
 * that a line of the table shows what this node alone adds: largest difference, and that over the
 * largest entry. Lines are written where `to` is not NULL. Collective over the mesh.
 */
MUST_USE status pair_run(struct pair *c, FILE *to);

#endif
