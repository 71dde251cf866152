#include "comm/ranks.h"
#include "base/file.h"

static void sums_and_gathers_are_copies(void **state)
{
    struct comm c;
    float in[3] = { 1, 2, 3 }, out[3];
    enum collective_kind kinds[] = { COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_GATHER };

    (void)state;
    comm_alone(&c);
    assert_int_equal(c.rank, 0);
    assert_int_equal(c.size, 1);
    for (int i = 0; i < 3; i++) {
        struct collective what = {
            .kind = kinds[i], .dtype = DT_F32, .in = in, .out = out, .n = 3
        };

        memset(out, 0, sizeof out);
        assert_int_equal(comm_scratch(&c, &what), 0);
        EXPECT_OK(comm_run(&c, &what));
        assert_memory_equal(in, out, sizeof in);
    }
    EXPECT_OK(
        comm_run(&c, &(struct collective){
                         .kind = COMM_ALL_REDUCE, .dtype = DT_F32, .in = in, .out = in, .n = 3 }));
    assert_true(in[0] == 1 && in[2] == 3);
    EXPECT_OK(comm_run(
        &c, &(struct collective){ .kind = COMM_BROADCAST, .dtype = DT_F32, .out = out, .n = 3 }));
    assert_memory_equal(in, out, sizeof in);
    EXPECT_OK(comm_run(&c, &(struct collective){ .kind = COMM_GATHER, .dtype = DT_BF16, .n = 0 }));
    comm_close(&c);
    comm_close(&c);
}

static void splits_barriers_and_agreement_need_nobody(void **state)
{
    struct comm c, part;

    (void)state;
    comm_alone(&c);
    EXPECT_OK(comm_split(&c, 5, 3, &part));
    assert_int_equal(part.size, 1);
    EXPECT_OK(comm_barrier(&part));
    EXPECT_OK(comm_agree(&part, OK));
    EXPECT_FAIL(ERR_DIVERGED, "loss is nan", comm_agree(&part, fail(ERR_DIVERGED, "loss is nan")));
    comm_close(&part);
    comm_close(&c);
}

static const char *const launcher_variables[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK",
                                                  "SLURM_STEP_NUM_TASKS", "SLURM_PROCID" };

static int forget_launchers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof launcher_variables / sizeof *launcher_variables; i++) {
        unsetenv(launcher_variables[i]);
    }
    unsetenv("ROUX_MODULES");
    return 0;
}

static void without_a_launcher_the_world_is_alone(void **state)
{
    struct comm c;

    (void)state;
    EXPECT_OK(comm_world(&c));
    assert_string_equal(c.ops->name, "alone");
    comm_close(&c);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("ROUX_MODULES", "/nowhere", 1);
    EXPECT_OK(comm_world(&c));
    assert_string_equal(c.ops->name, "alone");
}

static void a_launcher_without_the_module_is_refused(void **state)
{
    struct comm c;

    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("ROUX_MODULES", "/nowhere", 1);
    EXPECT_FAIL(ERR_UNSUPPORTED, "looked in /nowhere, ", comm_world(&c));
    EXPECT_FAIL(ERR_UNSUPPORTED, "install Open MPI", comm_world(&c));
}

static void a_module_that_cannot_be_opened_is_refused(void **state)
{
    char folder[] = "/tmp/roux_module_XXXXXX";
    struct comm c;

    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("ROUX_MODULES", folder, 1);
    {
        struct arena a = { 0 };

        EXPECT_OK(file_replace(path_join(&a, folder, "roux-mpi.so"), "no module", 9));
        arena_release(&a);
    }
    EXPECT_FAIL(ERR_UNSUPPORTED, folder, comm_world(&c));
    EXPECT_FAIL(ERR_UNSUPPORTED, "install Open MPI", comm_world(&c));
    EXPECT_OK(folder_remove(folder));
}

static void nonsense_from_a_launcher_is_refused(void **state)
{
    static const char *const wrong[] = { "", "0", "-3", "4x", "99999999999999999999" };
    struct comm c;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("OMPI_COMM_WORLD_SIZE", wrong[i], 1);
        EXPECT_FAIL(ERR_UNSUPPORTED, "OMPI_COMM_WORLD_SIZE", comm_world(&c));
    }
}

static void srun_without_pmix_is_refused(void **state)
{
    struct comm c;

    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    setenv("SLURM_PROCID", "1", 1);
    EXPECT_FAIL(ERR_UNSUPPORTED, "srun --mpi=pmix", comm_world(&c));
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    EXPECT_OK(comm_world(&c));
    assert_string_equal(c.ops->name, "alone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_gathers_are_copies),
        cmocka_unit_test(splits_barriers_and_agreement_need_nobody),
        cmocka_unit_test_setup(without_a_launcher_the_world_is_alone, forget_launchers),
        cmocka_unit_test_setup(a_launcher_without_the_module_is_refused, forget_launchers),
        cmocka_unit_test_setup(a_module_that_cannot_be_opened_is_refused, forget_launchers),
        cmocka_unit_test_setup(nonsense_from_a_launcher_is_refused, forget_launchers),
        cmocka_unit_test_setup(srun_without_pmix_is_refused, forget_launchers),
    };

    (void)world;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
