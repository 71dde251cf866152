/* Which checkpoint a resume takes. */
#include "checkpoint/content.h"
#include <unistd.h>
#include "base/file.h"

static struct mesh mesh;
static struct arena arena;
static char *place;

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    place = arena_format(&arena, "%s/roux_find_XXXXXX", base ? base : "/tmp");
    return mkdtemp(place) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return folder_remove(place) == OK ? 0 : -1;
}

static char *in_place(const char *name)
{
    return path_join(&arena, place, name);
}

static void save(const char *name, int64_t step)
{
    struct checkpoint_content c = { step, "f", "r", "{}", NULL, 0 };

    EXPECT_OK(checkpoint_save(in_place(name), &mesh, &c));
}

static void found(const char *below, const char *name)
{
    struct checkpoint_info info;

    EXPECT_OK(checkpoint_find(&info, &arena, in_place(below), NULL));
    assert_string_equal(info.folder, in_place(name));
}

static void spoil(const char *name)
{
    EXPECT_OK(file_replace(path_join(&arena, in_place(name), ".roux/manifest.json"), "{}", 2));
}

static void nothing_is_missing(void **state)
{
    struct checkpoint_info info;

    (void)state;
    EXPECT_FAIL(ERR_MISSING, "there is no checkpoint here",
                checkpoint_find(&info, &arena, place, NULL));
    EXPECT_FAIL(ERR_MISSING, "there is no such folder",
                checkpoint_find(&info, &arena, in_place("nowhere"), NULL));
    EXPECT_OK(file_replace(in_place("file"), "x", 1));
    EXPECT_FAIL(ERR_MISSING, "is a file", checkpoint_find(&info, &arena, in_place("file"), NULL));
}

static void the_newest_step_is_found_at_any_depth(void **state)
{
    struct checkpoint_info info;

    (void)state;
    save("checkpoints/sharded/step_10", 10);
    save("checkpoints/sharded/step_9", 9);
    save("checkpoints/sharded/step_20", 20);
    EXPECT_OK(folder_make(in_place("checkpoints/full/steps_30")));
    found("", "checkpoints/sharded/step_20");
    found("checkpoints", "checkpoints/sharded/step_20");
    found("checkpoints/sharded", "checkpoints/sharded/step_20");
    found("checkpoints/sharded/step_9", "checkpoints/sharded/step_9");
    save("a/b/c/step_99", 99); /* four levels down */
    found("", "checkpoints/sharded/step_20");
    found("a", "a/b/c/step_99");
    assert_string_equal(path_name("a/b"), "b");
    EXPECT_FAIL(ERR_MISSING, "no checkpoint",
                checkpoint_find(&info, &arena, in_place("checkpoints/full"), NULL));
}

static void of_equal_steps_the_later_written_counts(void **state)
{
    (void)state;
    save("z", 5);
    save("a", 5);
    found("", "a");
    save("m", 5);
    found("", "m");
}

static void unfinished_saves_are_no_candidates(void **state)
{
    struct checkpoint_info info;

    (void)state;
    save("step_1", 1);
    save("step_2", 2);
    assert_int_equal(rename(in_place("step_2"), in_place("step_2.writing")), 0);
    found("", "step_1");
    EXPECT_FAIL(ERR_MISSING, "not finished",
                checkpoint_find(&info, &arena, in_place("step_2.writing"), NULL));
    EXPECT_FAIL(ERR_MISSING, "not finished",
                checkpoint_find(&info, &arena, in_place("step_2.writing/"), NULL));
    EXPECT_OK(checkpoint_remove(in_place("step_1")));
    EXPECT_FAIL(ERR_MISSING, "no checkpoint", checkpoint_find(&info, &arena, place, NULL));
}

static void damaged_ones_are_passed_over(void **state)
{
    struct checkpoint_info info;

    (void)state;
    save("step_1", 1);
    save("step_2", 2);
    save("step_3", 3);
    save("step_4", 4);
    spoil("step_4");
    assert_int_equal(unlink(in_place("step_3/tp0_ep0/shard0.safetensors")), 0);
    found("", "step_2");
    assert_int_equal(unlink(in_place("step_2/.roux/manifest.json")), 0);
    found("", "step_1");
    spoil("step_1");
    EXPECT_FAIL(ERR_FORMAT, "4 checkpoints, none of them usable",
                checkpoint_find(&info, &arena, place, NULL));
    EXPECT_FAIL(ERR_FORMAT, "1 checkpoint, none of them usable",
                checkpoint_find(&info, &arena, in_place("step_4"), NULL));
    EXPECT_FAIL(ERR_FORMAT, "manifest.json",
                checkpoint_find(&info, &arena, in_place("step_4"), NULL));
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* An exported model has a folder of ours, too, but is no checkpoint, not even a damaged one. */
static void an_export_is_no_candidate(void **state)
{
    struct checkpoint_info info;

    (void)state;
    EXPECT_OK(folder_make(in_place("full/steps_30/.roux")));
    EXPECT_OK(file_replace(in_place("full/steps_30/.roux/export.json"), "{}", 2));
    EXPECT_FAIL(ERR_MISSING, "no checkpoint", checkpoint_find(&info, &arena, place, NULL));
    save("sharded/step_2", 2);
    found("", "sharded/step_2");
}

static void the_next_older_one_is_found(void **state)
{
    struct checkpoint_info info, older;

    (void)state;
    save("step_2", 2);
    save("step_3", 3);
    save("step_4", 4);
    EXPECT_OK(checkpoint_find(&info, &arena, place, NULL));
    EXPECT_OK(checkpoint_find(&older, &arena, place, &info));
    assert_string_equal(older.folder, in_place("step_3"));
    spoil("step_2");
    EXPECT_FAIL(ERR_FORMAT, "step_2", checkpoint_find(&info, &arena, place, &older));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(nothing_is_missing),
        IN_PLACE(the_newest_step_is_found_at_any_depth),
        IN_PLACE(of_equal_steps_the_later_written_counts),
        IN_PLACE(unfinished_saves_are_no_candidates),
        IN_PLACE(damaged_ones_are_passed_over),
        cmocka_unit_test_setup_teardown(an_export_is_no_candidate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_older_one_is_found, set_up, tear_down),
    };
    int failed;

    comm_alone(&world);
    if (mesh_open(&mesh, &world, (int[]){ 1, 1, 1, 1, 1 }) != OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    mesh_close(&mesh);
    comm_close(&world);
    arena_release(&arena);
    return failed;
}
