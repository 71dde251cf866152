/*
 * Saved under one set of degrees, loaded under another, bit for bit. Each test's folder is made by
 * rank 0; a mesh smaller than the world runs on its first ranks, while the others wait.
 */
#include "checkpoint/content.h"
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/file.h"

static struct arena arena;
static char place[256];

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(place, sizeof place, "%.200s/roux_degrees_XXXXXX", base ? base : "/tmp");
    if (world.rank == 0 && !mkdtemp(place)) {
        return -1;
    }
    return comm_run(&world, &(struct collective){ .kind = COMM_BROADCAST,
                                                  .dtype = DT_U8,
                                                  .out = place,
                                                  .n = sizeof place }) == OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (comm_barrier(&world) != OK || (world.rank == 0 && folder_remove(place) != OK)) {
        return -1;
    }
    return comm_barrier(&world) == OK ? 0 : -1;
}

static char *in_place(const char *name)
{
    return path_join(&arena, place, name);
}

static int ranks_of(const int size[AXIS_COUNT])
{
    return size[0] * size[1] * size[2] * size[3] * size[4];
}

typedef void work(const struct mesh *m, const char *folder, int64_t step);

/* Does work on a mesh of the world's first ranks. */
static void on_mesh(const int size[AXIS_COUNT], work *w, const char *folder, int64_t step)
{
    struct comm part;
    struct mesh m;
    bool takes_part = world.rank < ranks_of(size);

    EXPECT_OK(comm_split(&world, takes_part ? 0 : 1, world.rank, &part));
    if (takes_part) {
        EXPECT_OK(mesh_open(&m, &part, size));
        w(&m, folder, step);
        mesh_close(&m);
    }
    comm_close(&part);
    EXPECT_OK(comm_barrier(&world));
}

static void save(const struct mesh *m, const char *folder, int64_t step)
{
    struct model model;

    model_make(&model, m, step, true);
    EXPECT_OK(checkpoint_save(folder, m, &model.content));
    model_release(&model);
}

static void load(const struct mesh *m, const char *folder, int64_t step)
{
    struct checkpoint_info info;
    struct model model;

    EXPECT_OK(checkpoint_find(&info, &arena, folder, NULL));
    assert_int_equal(info.step, step);
    model_make(&model, m, step, false);
    EXPECT_OK(checkpoint_load(&info, m, &model.content));
    model_check(&model, m, step);
    model_release(&model);
}

/* tp, ep, cp, ds, rep; those that need more ranks than there are do not count. */
static const int shapes[][AXIS_COUNT] = {
    { 1, 1, 1, 1, 1 }, { 1, 1, 1, 2, 1 }, { 1, 1, 1, 1, 2 }, { 1, 1, 2, 1, 1 },
    { 1, 1, 1, 4, 1 }, { 1, 1, 2, 2, 1 }, { 1, 1, 1, 2, 2 }, { 1, 1, 1, 3, 1 },
    { 2, 1, 1, 1, 1 }, { 2, 1, 1, 2, 1 }, { 2, 1, 1, 1, 2 }, { 4, 1, 1, 1, 1 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* X saved, loaded under Y; then Y saved, loaded under X: for every pair with equal tensor
 * degree. */
static void any_shard_degree_loads_under_any_other(void **state)
{
    int64_t step = 1;

    (void)state;
    for (int x = 0; x < SHAPES; x++) {
        if (ranks_of(shapes[x]) > world.size) {
            continue;
        }
        on_mesh(shapes[x], save, in_place("c"), step);
        for (int y = 0; y < SHAPES; y++) {
            if (ranks_of(shapes[y]) <= world.size && shapes[y][AXIS_TP] == shapes[x][AXIS_TP]) {
                on_mesh(shapes[y], load, in_place("c"), step);
            }
        }
        step++;
    }
}

static void load_refused(const struct mesh *m, const char *folder, int64_t step)
{
    struct checkpoint_info info;
    struct model model;

    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    model_make(&model, m, step, false);
    EXPECT_FAIL(ERR_UNSUPPORTED, "was written with tensor degree 1; here it is 2",
                checkpoint_load(&info, m, &model.content));
    model_release(&model);
}

static void another_tensor_degree_is_refused(void **state)
{
    (void)state;
    on_mesh(shapes[0], save, in_place("c"), 3);
    on_mesh((int[]){ 2, 1, 1, 1, 1 }, load_refused, in_place("c"), 3);
}

static void only_replica_0_writes(void **state)
{
    char **names;
    size_t count;

    (void)state;
    on_mesh((int[]){ 1, 1, 1, 1, world.size }, save, in_place("c"), 1);
    EXPECT_OK(folder_list(&arena, in_place("c/tp0_ep0"), &names, &count));
    assert_int_equal(count, 1);
    EXPECT_OK(comm_barrier(&world));
    on_mesh((int[]){ 1, 1, 1, world.size, 1 }, save, in_place("c"), 1);
    EXPECT_OK(folder_list(&arena, in_place("c/tp0_ep0"), &names, &count));
    assert_int_equal(count, world.size);
}

/* One rank cannot read what it needs: all hear of it, by its number and the file. */
static void damage_of_one_is_heard_by_all(void **state)
{
    const char *last = arena_format(&arena, "tp0_ep0/shard%d.safetensors", world.size - 1);
    const int size[] = { 1, 1, 1, world.size, 1 };
    struct checkpoint_info info;
    struct mesh m;
    struct model model;

    (void)state;
    EXPECT_OK(mesh_open(&m, &world, size));
    save(&m, in_place("c"), 1);
    EXPECT_OK(checkpoint_open(&info, &arena, in_place("c")));
    EXPECT_OK(comm_barrier(&world));
    if (world.rank == 0) {
        char *bytes;
        size_t length;
        char *path = path_join(&arena, in_place("c"), last);

        EXPECT_OK(file_read(&arena, path, 1 << 24, &bytes, &length));
        bytes[length - 1] ^= 1;
        EXPECT_OK(file_replace(path, bytes, length));
    }
    EXPECT_OK(comm_barrier(&world));
    model_make(&model, &m, 1, false);
    EXPECT_FAIL(ERR_FORMAT, last, checkpoint_load(&info, &m, &model.content));
    EXPECT_FAIL(ERR_FORMAT, arena_format(&arena, "rank %d: ", world.size - 1),
                checkpoint_load(&info, &m, &model.content));
    model_release(&model);
    mesh_close(&m);
}

/* Writing beyond so many bytes fails from now on, as on a full disk. */
static void files_limit(rlim_t bytes)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The last rank alone cannot write its file: nobody publishes, and the old checkpoint stands. */
static void failure_of_one_writer_stops_all(void **state)
{
    const int size[] = { 1, 1, 1, world.size, 1 };
    struct mesh m;
    struct model model;

    (void)state;
    EXPECT_OK(mesh_open(&m, &world, size));
    save(&m, in_place("c"), 1);
    model_make(&model, &m, 2, true);
    files_limit(world.rank == world.size - 1 ? 100 : RLIM_INFINITY);
    EXPECT_FAIL(ERR_IO, arena_format(&arena, "rank %d: ", world.size - 1),
                checkpoint_save(in_place("c"), &m, &model.content));
    files_limit(RLIM_INFINITY);
    EXPECT_OK(comm_barrier(&world));
    assert_false(file_is_there(in_place("c.writing")));
    load(&m, in_place("c"), 1);
    model_release(&model);
    mesh_close(&m);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(any_shard_degree_loads_under_any_other),
        IN_PLACE(another_tensor_degree_is_refused),
        IN_PLACE(only_replica_0_writes),
        IN_PLACE(damage_of_one_is_heard_by_all),
        IN_PLACE(failure_of_one_writer_stops_all),
    };
    int failed;

    ranks_open();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return ranks_close(failed);
}
