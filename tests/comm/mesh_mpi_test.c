/* The communicators of a mesh, over every way to spread the world on the axes. */
#include "comm/ranks.h"
#include "comm/mesh.h"

static const axes sets[] = { 0, AXES_TP, AXES_SHARD, AXES_SPREAD, AXES_DATA };

/* Every member of a communicator sees: equal places on all other axes, and member i at index i. */
static void members_check(const struct mesh *m, axes over)
{
    struct comm *c = mesh_comm(m, over);
    int places[4][AXIS_COUNT];

    assert_int_equal(c->size, mesh_length(m, over));
    assert_int_equal(c->rank, mesh_index(m, over));
    EXPECT_OK(comm_run(
        c,
        &(struct collective){
            .kind = COMM_GATHER, .dtype = DT_I32, .in = m->at, .out = places, .n = AXIS_COUNT }));
    for (int i = 0; i < c->size; i++) {
        struct mesh other = *m;

        memcpy(other.at, places[i], sizeof other.at);
        assert_int_equal(mesh_index(&other, over), i);
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!(over >> a & 1)) {
                assert_int_equal(places[i][a], m->at[a]);
            }
        }
    }
}

static void shape_check(const int size[AXIS_COUNT])
{
    struct mesh m, imagined;

    EXPECT_OK(mesh_open(&m, &world, size));
    EXPECT_OK(mesh_imagine(&imagined, world.rank, size));
    assert_memory_equal(m.at, imagined.at, sizeof m.at);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        members_check(&m, sets[i]);
    }
    mesh_close(&m);
    mesh_close(&imagined);
}

/* Calls shape_check for every way to write the world's size as a product over the axes from
 * `axis` on. */
static void shapes_walk(int size[AXIS_COUNT], int axis, int left)
{
    if (axis == AXIS_COUNT) {
        if (left == 1 && (size[AXIS_CP] == 1 || size[AXIS_EP] == 1)) {
            shape_check(size);
        }
        return;
    }
    for (int n = 1; n <= left; n++) {
        if (left % n == 0) {
            size[axis] = n;
            shapes_walk(size, axis + 1, left / n);
        }
    }
}

static void every_shape_has_the_right_members(void **state)
{
    int size[AXIS_COUNT];

    (void)state;
    shapes_walk(size, 0, world.size);
}

static void degrees_that_do_not_fit_are_refused(void **state)
{
    struct mesh m;

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "need 3 ranks", mesh_open(&m, &world, (int[]){ 1, 1, 1, 3, 1 }));
    mesh_close(&m);
}

/* The tree over the shard group, then over the replicas, gives the bits of one tree over the
 * data index. */
static void sums_by_groups_are_the_sum_over_data(void **state)
{
    struct mesh m;
    float x, by_groups, at_once;

    (void)state;
    EXPECT_OK(mesh_open(&m, &world, (int[]){ 1, 1, 1, 2, world.size / 2 }));
    x = 1.0f + 1.1920929e-7f * (float)(1 << 7 * mesh_data_index(&m));
    x *= mesh_data_index(&m) % 2 ? -1.0f / 3 : 1;
    EXPECT_OK(comm_run(
        mesh_comm(&m, AXES_SHARD),
        &(struct collective){
            .kind = COMM_ALL_REDUCE, .dtype = DT_F32, .in = &x, .out = &by_groups, .n = 1 }));
    EXPECT_OK(comm_run(mesh_comm(&m, AXES_SPREAD), &(struct collective){ .kind = COMM_ALL_REDUCE,
                                                                         .dtype = DT_F32,
                                                                         .in = &by_groups,
                                                                         .out = &by_groups,
                                                                         .n = 1 }));
    EXPECT_OK(comm_run(
        mesh_comm(&m, AXES_DATA),
        &(struct collective){
            .kind = COMM_ALL_REDUCE, .dtype = DT_F32, .in = &x, .out = &at_once, .n = 1 }));
    assert_memory_equal(&by_groups, &at_once, sizeof x);
    mesh_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_the_right_members),
        cmocka_unit_test(degrees_that_do_not_fit_are_refused),
        cmocka_unit_test(sums_by_groups_are_the_sum_over_data),
    };

    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
