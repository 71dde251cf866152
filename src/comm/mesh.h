/*
 * The mesh: the world's ranks on five orthogonal axes, and communicators over sets of axes.
 *
 *   rank = (((rep * DS + ds) * C + cp) * E + ep) * T + tp        (C or E is 1)
 *   data index = (ds * E + ep) * R + rep                         which part of a global micro-batch this rank takes
 *
 * In a communicator over a set of axes members are ordered by ds, cp, ep, rep, tp, the first
 * slowest: so that the tree over the shard group, then over the replicas, is the upper, then the
 * lower levels of the tree over the data index.
 */
#ifndef ROUX_COMM_MESH_H
#define ROUX_COMM_MESH_H

#include "comm/comm.h"

enum axis { AXIS_TP, AXIS_EP, AXIS_CP, AXIS_DS, AXIS_REPLICA, AXIS_COUNT };
typedef uint8_t axes; /* a set: bit a = axis a */

#define AXES_TP ((axes)(1 << AXIS_TP))
#define AXES_EP ((axes)(1 << AXIS_EP))
#define AXES_CP ((axes)(1 << AXIS_CP))
#define AXES_DS ((axes)(1 << AXIS_DS))
#define AXES_REPLICA ((axes)(1 << AXIS_REPLICA))
#define AXES_SHARD ((axes)(AXES_CP | AXES_DS))
#define AXES_SPREAD \
    ((axes)(AXES_EP | AXES_REPLICA)) /* dense weights are whole over these, rows are split */
#define AXES_DATA ((axes)(AXES_DS | AXES_EP | AXES_REPLICA))
#define AXES_ALL ((axes)((1 << AXIS_COUNT) - 1))

struct mesh {
    int size[AXIS_COUNT], at[AXIS_COUNT];
    struct comm *world;                 /* borrowed */
    struct comm *over[1 << AXIS_COUNT]; /* by set; NULL until mesh_comm made it */
    struct comm made[1 << AXIS_COUNT];
};

/*
 * Places this rank of `world` on the axes. ERR_RECIPE if the sizes do not multiply to the world's
 * size. Makes the communicators of the sets in use (TP; SHARD; SPREAD; DATA; each where longer than
 * one). Collective over world.
 */
MUST_USE status mesh_open(struct mesh *m, struct comm *world, const int size[AXIS_COUNT]);

/* A mesh without communicators, as rank `rank` of any job: for plans. */
MUST_USE status mesh_imagine(struct mesh *m, int rank, const int size[AXIS_COUNT]);

void mesh_close(struct mesh *m);

/* The communicator over a set; members that differ only in these axes. Sets whose axes all have
 * size 1 give a communicator of one. check()s that mesh_open made it. */
struct comm *mesh_comm(const struct mesh *m, axes over);

int mesh_length(const struct mesh *m, axes over); /* product of the sizes */
int mesh_index(const struct mesh *m, axes over);  /* this rank's index in that communicator */
int mesh_data_index(const struct mesh *m);
int mesh_data_size(const struct mesh *m); /* DS * E * R */
const char *axis_name(enum axis a);       /* "tp", "ep", "cp", "ds", "rep" */

#endif
