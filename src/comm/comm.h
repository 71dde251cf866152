/*
 * Communicators: a table of functions (alone, mpi, later nccl) behind one struct.
 *
 * Everything here is collective over the communicator's members, called by one thread of each, in
 * the same order on all of them. Work comes in begin/wait pairs so that a pass can move the begin
 * up; between the two the buffers belong to the communicator. Ranks within a communicator are 0 ..
 * size-1.
 *
 * Sums are ours, never a library's: the members' buffers are added by the row tree of
 * tensor/row_tree.h over the member index (size = o * 2^k: the o members of equal index mod 2^k in
 * order, then r with r + 2^(k-1), and so on), so that the result is the same bits on every run, and
 * the same as one rank's own tree over all sequences (design: numbers).
 *
 * A failed call is ERR_PEER (another rank is gone) or ERR_IO; the text names communicator and rank.
 */
#ifndef ROUX_COMM_COMM_H
#define ROUX_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"

enum collective_kind {
    COMM_ALL_REDUCE, /* in [n], out [n] = sum over members; out may be in */
    /* in [size * n], out [n] = this member's piece of the sum; piece i goes to member i */
    COMM_REDUCE_SCATTER,
    COMM_GATHER,   /* in [n], out [size * n] = members' pieces in order, on every member */
    COMM_BROADCAST /* out [n] of member `root` to all; in is not used */
};

struct collective {
    enum collective_kind kind;
    enum dtype dtype; /* sums: F32, F64, I64 (I64 wraps, is exact); moves: any whole-byte type */
    const void *in;
    void *out;
    int64_t n;
    int root;
    void *scratch; /* comm_scratch() bytes, 64-byte aligned, until the wait is over */
};

struct ticket {
    void *requests; /* the communicator's own; NULL when nothing is under way */
    int count;
    struct collective what;
};

struct comm;

struct comm_ops {
    const char *name; /* "alone", "mpi" */
    /* A new communicator of the members with equal `color`, ordered by `order`. Collective over
     * parent. */
    status (*split)(struct comm *parent, int color, int order, struct comm *out);
    status (*begin)(struct comm *c, const struct collective *what, struct ticket *t);
    status (*wait)(struct comm *c, struct ticket *t);
    status (*barrier)(struct comm *c);
    size_t (*scratch)(const struct comm *c,
                      const struct collective *what); /* bytes; buffers need not be set */
    void (*close)(struct comm *c);
};

struct comm {
    const struct comm_ops *ops;
    int rank, size;
    void *own; /* the implementation's */
};

/* A communicator of one. Every operation is a copy or nothing. */
void comm_alone(struct comm *out);

/*
 * The world: "mpi" if this process was started by an MPI launcher (its environment says so) with
 * the MPI module found beside the program, else "alone". Opens the module on first use.
 * ERR_UNSUPPORTED where a launcher started more than one process but the module or its MPI is
 * missing; the text says what to install.
 */
MUST_USE status comm_world(struct comm *out);

MUST_USE status comm_split(struct comm *parent, int color, int order, struct comm *out);
MUST_USE status comm_begin(struct comm *c, const struct collective *what, struct ticket *t);
MUST_USE status comm_wait(struct comm *c, struct ticket *t);
MUST_USE status comm_run(
    struct comm *c, const struct collective *what); /* begin and wait; takes own scratch if NULL */
MUST_USE status comm_barrier(struct comm *c);
size_t comm_scratch(const struct comm *c, const struct collective *what);
void comm_close(struct comm *c); /* also of a zeroed struct */

/*
 * After work that one rank may fail alone: every member brings its status; all return OK if all
 * were OK, else the first failing member's status, with its text and rank on every member.
 * Collective over c.
 */
MUST_USE status comm_agree(struct comm *c, status mine);

#endif
