/*
 * What tests under mpirun share: the world, and failures that end the whole job. A rank whose test
 * failed would leave the others waiting for ever, so here a failed assertion aborts the process and
 * mpirun ends the rest.
 */
#ifndef ROUX_TESTS_COMM_RANKS_H
#define ROUX_TESTS_COMM_RANKS_H

#include "base/log.h"
#include "comm/comm.h"
#include "support/expect.h"

static struct comm world;

/* Opens the world. Only rank 0 prints cmocka's report. */
static inline void ranks_open(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (comm_world(&world) != OK) {
        fprintf(stderr, "%s\n", fail_text());
        exit(1);
    }
    log_set_rank(world.rank, world.size);
}

static inline int ranks_close(int failed)
{
    comm_close(&world);
    return failed;
}

#endif
