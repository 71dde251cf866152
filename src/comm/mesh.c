#include "comm/mesh.h"
#include <limits.h>

/* From the slowest axis to the fastest: in the world's ranks, and in a communicator over a set
 * of axes. */
static const enum axis world_order[AXIS_COUNT] = { AXIS_REPLICA, AXIS_DS, AXIS_CP, AXIS_EP,
                                                   AXIS_TP };
static const enum axis member_order[AXIS_COUNT] = { AXIS_DS, AXIS_CP, AXIS_EP, AXIS_REPLICA,
                                                    AXIS_TP };

/* The sets that programs sum and gather over. */
static const axes sets_in_use[] = { AXES_TP, AXES_SHARD, AXES_SPREAD, AXES_DATA };

const char *axis_name(enum axis a)
{
    static const char *const names[AXIS_COUNT] = { "tp", "ep", "cp", "ds", "rep" };

    return names[a];
}

/* The axes of a set that are longer than one: sets equal in these have the same members. */
static axes set_long(const struct mesh *m, axes over)
{
    axes kept = 0;

    for (int a = 0; a < AXIS_COUNT; a++) {
        if ((over >> a & 1) && m->size[a] > 1) {
            kept |= (axes)(1 << a);
        }
    }
    return kept;
}

int mesh_length(const struct mesh *m, axes over)
{
    int length = 1;

    for (int a = 0; a < AXIS_COUNT; a++) {
        if (over >> a & 1) {
            length *= m->size[a];
        }
    }
    return length;
}

int mesh_index(const struct mesh *m, axes over)
{
    int index = 0;

    for (int i = 0; i < AXIS_COUNT; i++) {
        enum axis a = member_order[i];

        if (over >> a & 1) {
            index = index * m->size[a] + m->at[a];
        }
    }
    return index;
}

int mesh_data_index(const struct mesh *m)
{
    return mesh_index(m, AXES_DATA);
}

int mesh_data_size(const struct mesh *m)
{
    return mesh_length(m, AXES_DATA);
}

static status sizes_check(const int size[AXIS_COUNT], int *ranks)
{
    int64_t product = 1;

    for (int a = 0; a < AXIS_COUNT; a++) {
        if (size[a] < 1) {
            return fail(ERR_RECIPE, "the degree %s is %d; every degree is at least 1", axis_name(a),
                        size[a]);
        }
        product *= size[a];
        if (product > INT_MAX) {
            return fail(ERR_RECIPE, "the degrees multiply to more than %d ranks", INT_MAX);
        }
    }
    if (size[AXIS_CP] > 1 && size[AXIS_EP] > 1) {
        return fail(
            ERR_RECIPE,
            "context and expert degree are %d and %d; only one of the two may be more than 1",
            size[AXIS_CP], size[AXIS_EP]);
    }
    *ranks = (int)product;
    return OK;
}

static void mesh_place(struct mesh *m, int rank, const int size[AXIS_COUNT])
{
    *m = (struct mesh){ 0 };
    for (int i = AXIS_COUNT - 1; i >= 0; i--) {
        enum axis a = world_order[i];

        m->size[a] = size[a];
        m->at[a] = rank % size[a];
        rank /= size[a];
    }
}

status mesh_imagine(struct mesh *m, int rank, const int size[AXIS_COUNT])
{
    int ranks;

    TRY(sizes_check(size, &ranks));
    if (rank < 0 || rank >= ranks) {
        return fail(ERR_RECIPE, "there is no rank %d: the degrees multiply to %d ranks", rank,
                    ranks);
    }
    mesh_place(m, rank, size);
    return OK;
}

/* Makes the communicator of a set whose axes are all longer than one: who agrees on all other
 * axes, in member order. */
static status set_open(struct mesh *m, axes over)
{
    int color = mesh_index(m, (axes)(AXES_ALL & ~over));

    if (m->over[over]) {
        return OK;
    }
    TRY(comm_split(m->world, color, mesh_index(m, over), &m->made[over]));
    m->over[over] = &m->made[over];
    check(m->made[over].size == mesh_length(m, over) && m->made[over].rank == mesh_index(m, over),
          "the communicator over axes %#x has rank %d of %d", (unsigned)over, m->made[over].rank,
          m->made[over].size);
    return OK;
}

static status sets_open(struct mesh *m)
{
    comm_alone(&m->made[0]);
    m->over[0] = &m->made[0];
    for (size_t i = 0; i < sizeof sets_in_use / sizeof *sets_in_use; i++) {
        TRY(set_open(m, set_long(m, sets_in_use[i])));
    }
    return OK;
}

status mesh_open(struct mesh *m, struct comm *world, const int size[AXIS_COUNT])
{
    status s;
    int ranks;

    *m = (struct mesh){ 0 };
    TRY(sizes_check(size, &ranks));
    if (ranks != world->size) {
        return fail(ERR_RECIPE,
                    "tensor degree %d, expert degree %d, context degree %d, shard degree %d (over "
                    "context) and "
                    "%d replicas need %d ranks; there are %d",
                    size[AXIS_TP], size[AXIS_EP], size[AXIS_CP], size[AXIS_DS], size[AXIS_REPLICA],
                    ranks, world->size);
    }
    mesh_place(m, world->rank, size);
    m->world = world;
    s = sets_open(m);
    if (s != OK) {
        mesh_close(m);
        return fail_while(s, "making the communicators of the mesh");
    }
    return OK;
}

void mesh_close(struct mesh *m)
{
    for (int set = 0; set <= AXES_ALL; set++) {
        comm_close(&m->made[set]);
    }
    *m = (struct mesh){ 0 };
}

struct comm *mesh_comm(const struct mesh *m, axes over)
{
    axes kept = set_long(m, over);

    check(m->over[kept], "the mesh has no communicator over axes %#x", (unsigned)over);
    return m->over[kept];
}
