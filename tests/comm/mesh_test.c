#include "comm/ranks.h"
#include "comm/mesh.h"

/* Sizes by axis, in the order of enum axis: tp, ep, cp, ds, rep. */
static const int shapes[][AXIS_COUNT] = {
    { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 }, { 1, 1, 1, 4, 3 },
    { 2, 1, 3, 4, 5 }, { 3, 2, 1, 2, 2 }, { 8, 1, 2, 16, 4 }
};

static void imagined_ranks_stand_where_the_formula_says(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int *n = shapes[s];
        int T = n[AXIS_TP], E = n[AXIS_EP], C = n[AXIS_CP], DS = n[AXIS_DS], R = n[AXIS_REPLICA];

        for (int rank = 0; rank < T * E * C * DS * R; rank++) {
            struct mesh m;
            const int *at = m.at;

            EXPECT_OK(mesh_imagine(&m, rank, n));
            assert_int_equal(
                rank,
                (((at[AXIS_REPLICA] * DS + at[AXIS_DS]) * C + at[AXIS_CP]) * E + at[AXIS_EP]) * T +
                    at[AXIS_TP]);
            for (int a = 0; a < AXIS_COUNT; a++) {
                assert_int_equal(m.size[a], n[a]);
                assert_in_range(at[a], 0, n[a] - 1);
                assert_int_equal(mesh_length(&m, (axes)(1 << a)), n[a]);
                assert_int_equal(mesh_index(&m, (axes)(1 << a)), at[a]);
            }
            assert_int_equal(mesh_data_index(&m),
                             (at[AXIS_DS] * E + at[AXIS_EP]) * R + at[AXIS_REPLICA]);
            assert_int_equal(mesh_data_size(&m), DS * E * R);
            assert_int_equal(mesh_index(&m, AXES_SHARD), at[AXIS_DS] * C + at[AXIS_CP]);
            assert_int_equal(mesh_length(&m, AXES_ALL), T * E * C * DS * R);
            assert_int_equal(
                mesh_index(&m, AXES_ALL),
                (((at[AXIS_DS] * C + at[AXIS_CP]) * E + at[AXIS_EP]) * R + at[AXIS_REPLICA]) * T +
                    at[AXIS_TP]);
            assert_int_equal(mesh_length(&m, 0), 1);
            assert_int_equal(mesh_index(&m, 0), 0);
            mesh_close(&m);
        }
    }
}

static void impossible_meshes_are_refused(void **state)
{
    struct mesh m;

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "degree ds is 0", mesh_imagine(&m, 0, (int[]){ 1, 1, 1, 0, 1 }));
    EXPECT_FAIL(ERR_RECIPE, "degree tp is -2", mesh_imagine(&m, 0, (int[]){ -2, 1, 1, 1, 1 }));
    EXPECT_FAIL(ERR_RECIPE, "only one of the two", mesh_imagine(&m, 0, (int[]){ 1, 2, 2, 1, 1 }));
    EXPECT_FAIL(ERR_RECIPE, "multiply to more than",
                mesh_imagine(&m, 0, (int[]){ 1 << 20, 1, 1, 1 << 20, 1 << 30 }));
    EXPECT_FAIL(ERR_RECIPE, "no rank 4: the degrees multiply to 4 ranks",
                mesh_imagine(&m, 4, (int[]){ 2, 1, 1, 2, 1 }));
    EXPECT_FAIL(ERR_RECIPE, "no rank -1", mesh_imagine(&m, -1, (int[]){ 2, 1, 1, 2, 1 }));
}

static void a_mesh_of_one_has_communicators_of_one(void **state)
{
    struct comm c;
    struct mesh m;

    (void)state;
    comm_alone(&c);
    EXPECT_OK(mesh_open(&m, &c, (int[]){ 1, 1, 1, 1, 1 }));
    for (int set = 0; set <= AXES_ALL; set++) {
        assert_int_equal(mesh_comm(&m, (axes)set)->size, 1);
    }
    assert_ptr_equal(m.world, &c);
    mesh_close(&m);
    EXPECT_FAIL(ERR_RECIPE, "tensor degree 2, expert degree 1, context degree 1, shard degree 1",
                mesh_open(&m, &c, (int[]){ 2, 1, 1, 1, 1 }));
    EXPECT_FAIL(ERR_RECIPE, "need 2 ranks; there are 1",
                mesh_open(&m, &c, (int[]){ 2, 1, 1, 1, 1 }));
    mesh_close(&m);
    comm_close(&c);
}

static void axes_have_names(void **state)
{
    (void)state;
    assert_string_equal(axis_name(AXIS_TP), "tp");
    assert_string_equal(axis_name(AXIS_EP), "ep");
    assert_string_equal(axis_name(AXIS_CP), "cp");
    assert_string_equal(axis_name(AXIS_DS), "ds");
    assert_string_equal(axis_name(AXIS_REPLICA), "rep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imagined_ranks_stand_where_the_formula_says),
        cmocka_unit_test(impossible_meshes_are_refused),
        cmocka_unit_test(a_mesh_of_one_has_communicators_of_one),
        cmocka_unit_test(axes_have_names),
    };

    (void)world;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
