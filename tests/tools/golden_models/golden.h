/*
 * What the files of this tool share: the folder that is checked, the tally, and comparing with a tolerance.
 *
 *   main.c       the cases of index.json, one after another
 *   case.c       logits, loss, gradients of a case in all forms of its folder; greedy tokens
 *   steps.c      20 optimizer steps through `$ROUX_PROGRAM train`
 *   kernels.c    single operations
 *   schedule.c   learning rates
 */
#ifndef ROUX_TESTS_GOLDEN_H
#define ROUX_TESTS_GOLDEN_H

#include <jansson.h>
#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "store/safetensors.h"
#include "tools/tally.h"

enum { PATH = 4096, GOLDEN_WHY = 512 };

struct golden {
    const char *folder, *work; /* what is checked; a folder for what is made, emptied at the end */
    struct tally tally;
};

/* Passes if figure <= tolerance; NaN fails. `at`: where the figure was found, or NULL. */
void golden_figure(struct golden *g, const char *name, double figure, double tolerance, const char *at);
void golden_verdict(struct golden *g, const char *name, bool good, const char *why);

/* NULL, with a failure tallied, if the file is not there or no JSON. */
json_t *golden_json(struct golden *g, const char *path);
double golden_number(const json_t *from, const char *key, double fallback);

/* All of a tensor as doubles, memory of the arena; NULL, with a failure tallied, if it is not there. */
double *golden_tensor(struct golden *g, struct arena *a, const struct tensor_file *f, const char *name, int64_t *count);

double worst_difference(const double *got, const double *want, int64_t count);
/* The worst difference by the largest of `want`. Where all of `want` is zero, only zeros are equal. */
double worst_by_largest(const double *got, const double *want, int64_t count);
double relative(double got, double want);

void golden_case(struct golden *g, const char *name);
void golden_steps(struct golden *g, const char *name, const char *folder, int precision);
void golden_kernels(struct golden *g);
void golden_schedule(struct golden *g);

#endif
