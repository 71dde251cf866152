/* The sections of roux bench: each is measured and at once printed, or kept for one JSON object. */
#ifndef ROUX_CLI_BENCH_REPORT_H
#define ROUX_CLI_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include "comm/comm.h"
#include "train/bench.h"

struct report {
    json_t *all; /* NULL: text */
    bool quick;
    int threads;
    double peak, memory; /* of the step's kernels; of this machine; 0 until measured */
};

void report_init(struct report *r, bool json, bool quick);
void report_end(struct report *r); /* prints the object */
void report_release(struct report *r);

void report_machine(struct report *r);
void report_peaks(struct report *r);
MUST_USE status report_memory(struct report *r);
MUST_USE status report_disk(struct report *r, const char *folder);
MUST_USE status report_messages(struct report *r, struct comm *world); /* collective */

void report_model(struct report *r, const struct bench *b);
MUST_USE status report_step(struct report *r, struct bench *b);
MUST_USE status report_ops(struct report *r, struct arena *a, struct bench *b);
void report_calibration(struct report *r, const char *path, const struct calibration *c);

#endif
