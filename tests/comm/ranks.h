/*
 * What tests under mpirun share: the world, and failures that end the whole job. A rank whose test failed would leave the
 * others waiting for ever, so here a failed assertion aborts the process and mpirun ends the rest.
 */
#ifndef ROUX_TESTS_COMM_RANKS_H
#define ROUX_TESTS_COMM_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail /* the name is ours */
#include "base/log.h"
#include "comm/comm.h"

static struct comm world;

#define EXPECT_OK(call)                                                   \
    do {                                                                  \
        status expect_ = (call);                                          \
        if (expect_ != OK) {                                              \
            print_error("%s: status %d: %s\n", #call, (int)expect_, fail_text()); \
            _fail(__FILE__, __LINE__);                                    \
        }                                                                 \
    } while (0)

#define EXPECT_FAIL(code, part, call)                                                          \
    do {                                                                                       \
        status expect_ = (call);                                                               \
        if (expect_ != (code) || !strstr(fail_text(), (part))) {                               \
            print_error("%s: status %d, text \"%s\"; expected %d and \"%s\"\n", #call,        \
                        (int)expect_, fail_text(), (int)(code), (part));                       \
            _fail(__FILE__, __LINE__);                                                         \
        }                                                                                      \
    } while (0)

/* Opens the world. Only rank 0 prints cmocka's report. */
static inline void ranks_open(void)
{
    const char *build = getenv("ROUX_BUILD");

    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (build) {
        setenv("ROUX_MODULES", build, 0);
    }
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
