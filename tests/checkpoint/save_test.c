/* Saving and loading by one rank; what stands on disk; places where nothing can be written. */
#include "checkpoint/content.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/file.h"
#include "store/safetensors.h"

static struct mesh mesh;
static struct arena arena;
static char *place; /* a fresh folder for each test */

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    place = arena_format(&arena, "%s/roux_save_XXXXXX", base ? base : "/tmp");
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

static status save_step(const char *folder, int64_t step)
{
    struct model m;
    status s;

    model_make(&m, &mesh, step, true);
    s = checkpoint_save(folder, &mesh, &m.content);
    model_release(&m);
    return s;
}

static void load_check(const char *folder, int64_t step)
{
    struct checkpoint_info info;
    struct model m;

    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    assert_int_equal(info.step, step);
    model_make(&m, &mesh, step, false);
    EXPECT_OK(checkpoint_load(&info, &mesh, &m.content));
    model_check(&m, &mesh, step);
    model_release(&m);
}

static void what_was_saved_comes_back(void **state)
{
    char *folder = in_place("deep/er/step_7");
    struct checkpoint_info info;

    (void)state;
    EXPECT_OK(save_step(folder, 7));
    EXPECT_OK(checkpoint_open(&info, &arena, folder));
    assert_string_equal(info.folder, folder);
    assert_int_equal(info.step, 7);
    assert_string_equal(info.family, "cpu-avx512");
    assert_string_equal(info.recipe, "model:\n  \"width\": 40 # \xc3\xa4\n");
    assert_string_equal(info.state, "{\"rows\":[1,2,3],\"scale\":0.1}");
    for (int a = 0; a < AXIS_COUNT; a++) {
        assert_int_equal(info.size[a], 1);
    }
    load_check(folder, 7);
    load_check(arena_format(&arena, "%s/", folder), 7);
    assert_false(file_is_there(in_place("deep/er/step_7.writing")));
}

static void state_files_are_aligned_safetensors(void **state)
{
    struct tensor_file f;
    struct model m;

    (void)state;
    EXPECT_OK(save_step(in_place("c"), 3));
    EXPECT_OK(tensor_file_open(&f, &arena, in_place("c/tp0_ep0/shard0.safetensors")));
    assert_int_equal(f.data_begin % 4096, 0);
    assert_int_equal(f.count, KINDS);
    model_make(&m, &mesh, 3, true);
    for (int k = 0; k < KINDS; k++) {
        const struct checkpoint_buffer *b = &m.content.buffers[k];
        const struct tensor_entry *e = tensor_file_find(&f, b->name);
        char *bytes = arena_take_array(&arena, (size_t)b->count, dtype_bytes(b->dtype));

        assert_non_null(e);
        assert_int_equal(e->dtype, b->dtype);
        assert_int_equal(e->begin % 4096, 0);
        assert_int_equal((e->end - e->begin) % 4096, 0);
        EXPECT_OK(tensor_file_read(&f, e, 0, b->count, b->dtype, bytes));
        assert_memory_equal(bytes, b->bytes, (size_t)b->count * dtype_bytes(b->dtype));
    }
    model_release(&m);
    tensor_file_close(&f);
}

/* Buffers of more than one digest block, and one that ends just before, at and behind a block's
 * end. */
static void long_buffers_come_back(void **state)
{
    static const int64_t counts[] = { 1, DIGEST_BLOCK - 1, DIGEST_BLOCK, DIGEST_BLOCK + 1,
                                      2 * DIGEST_BLOCK + 5000 };
    struct checkpoint_info info;

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t n = counts[i];
        struct slice slices[2] = {
            { "t", "weight", 1, { n }, { 0 }, { n }, 0, n / 2, 0 },
            { "t", "weight", 1, { n }, { 0 }, { n }, n / 2, n - n / 2, n / 2 }
        };
        struct checkpoint_buffer b = { "b", DT_U8, malloc((size_t)n), n, slices, 2 };
        struct checkpoint_content c = { 1, "f", "r", "{}", &b, 1 };
        char *copy = malloc((size_t)n);

        for (int64_t k = 0; k < n; k++) {
            ((char *)b.bytes)[k] = (char)(k * 31 + k / 509);
        }
        memcpy(copy, b.bytes, (size_t)n);
        EXPECT_OK(checkpoint_save(in_place("long"), &mesh, &c));
        memset(b.bytes, 0, (size_t)n);
        slices[0].count = n; /* loaded through one slice */
        b.slice_count = 1;
        EXPECT_OK(checkpoint_open(&info, &arena, in_place("long")));
        EXPECT_OK(checkpoint_load(&info, &mesh, &c));
        assert_int_equal(memcmp(copy, b.bytes, (size_t)n), 0);
        free(copy);
        free(b.bytes);
    }
}

static void nothing_at_all_can_be_saved(void **state)
{
    struct checkpoint_content c = { 0, "", "", "{}", NULL, 0 };
    struct checkpoint_info info;

    (void)state;
    EXPECT_OK(checkpoint_save(in_place("none"), &mesh, &c));
    EXPECT_OK(checkpoint_open(&info, &arena, in_place("none")));
    EXPECT_OK(checkpoint_load(&info, &mesh, &c));
}

static void a_name_is_used_again(void **state)
{
    char *folder = in_place("last");

    (void)state;
    for (int64_t step = 1; step <= 3; step++) {
        EXPECT_OK(save_step(folder, step));
        load_check(folder, step);
        assert_false(file_is_there(in_place("last.writing")));
        assert_false(file_is_there(in_place("last.old")));
    }
    EXPECT_OK(folder_make(in_place("empty")));
    EXPECT_OK(save_step(in_place("empty"), 4));
    load_check(in_place("empty"), 4);
}

static void leftovers_are_cleared_before_a_save(void **state)
{
    (void)state;
    EXPECT_OK(save_step(in_place("x"), 1));
    assert_int_equal(rename(in_place("x"), in_place("y.writing")), 0);
    EXPECT_OK(
        file_replace(in_place("y.writing/tp0_ep0/shard0.safetensors.partial-1-0"), "half", 4));
    assert_int_equal(unlink(in_place("y.writing/.roux/manifest.json")), 0);
    EXPECT_OK(save_step(in_place("y"), 2));
    load_check(in_place("y"), 2);
    assert_false(file_is_there(in_place("y.writing")));
}

static void what_is_not_ours_is_left_alone(void **state)
{
    (void)state;
    EXPECT_OK(folder_make(in_place("theirs")));
    EXPECT_OK(file_replace(in_place("theirs/thesis.tex"), "years", 5));
    EXPECT_FAIL(ERR_IO, "is no checkpoint of ours", save_step(in_place("theirs"), 1));
    EXPECT_FAIL(ERR_MISSING, "nothing was removed", checkpoint_remove(in_place("theirs")));
    EXPECT_OK(file_replace(in_place("a_file"), "x", 1));
    EXPECT_FAIL(ERR_IO, "is no folder", save_step(in_place("a_file"), 1));
    EXPECT_OK(folder_make(in_place("b.writing")));
    EXPECT_OK(file_replace(in_place("b.writing/thesis.tex"), "years", 5));
    EXPECT_FAIL(ERR_IO, "is no checkpoint of ours", save_step(in_place("b"), 1));
    assert_true(file_is_there(in_place("theirs/thesis.tex")));
    assert_true(file_is_there(in_place("b.writing/thesis.tex")));
    assert_true(file_is_there(in_place("a_file")));
}

static void removing_takes_only_our_files(void **state)
{
    (void)state;
    EXPECT_OK(save_step(in_place("c"), 1));
    EXPECT_OK(file_replace(in_place("c/notes.txt"), "n", 1));
    EXPECT_OK(file_replace(in_place("c/tp0_ep0/shard_notes.txt"), "n", 1));
    EXPECT_OK(checkpoint_remove(in_place("c")));
    assert_false(file_is_there(in_place("c/.roux")));
    assert_false(file_is_there(in_place("c/tp0_ep0/shard0.safetensors")));
    assert_true(file_is_there(in_place("c/notes.txt")));
    assert_true(file_is_there(in_place("c/tp0_ep0/shard_notes.txt")));
    EXPECT_OK(save_step(in_place("d"), 1));
    EXPECT_OK(checkpoint_remove(in_place("d")));
    assert_false(file_is_there(in_place("d")));
    EXPECT_FAIL(ERR_MISSING, in_place("d"), checkpoint_remove(in_place("d")));
}

/* A replaced checkpoint with foreign files in it keeps them, under another name. */
static void replacing_keeps_foreign_files(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 3; step++) {
        EXPECT_OK(save_step(in_place("c"), step));
        EXPECT_OK(file_replace(in_place("c/notes.txt"), "n", 1));
        load_check(in_place("c"), step);
    }
    assert_true(file_is_there(in_place("c.old/notes.txt")));
    assert_true(file_is_there(in_place("c.old2/notes.txt")));
}

static void places_that_cannot_be_written_are_named(void **state)
{
    (void)state;
    EXPECT_FAIL(ERR_IO, "/proc/roux_test", save_step("/proc/roux_test/step_1", 1));
    EXPECT_OK(file_replace(in_place("file"), "x", 1));
    EXPECT_FAIL(ERR_IO, in_place("file"), save_step(in_place("file/step_1"), 1));
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(chmod(place, 0555), 0);
        EXPECT_FAIL(ERR_IO, "Permission denied", save_step(in_place("step_1"), 1));
        assert_int_equal(chmod(place, 0755), 0);
    }
}

/* A write that fails in the middle: the file size limit stands in for a disk that fills up. */
static void a_failing_write_leaves_the_old_one(void **state)
{
    struct rlimit before, small;

    (void)state;
    EXPECT_OK(save_step(in_place("c"), 1));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    for (rlim_t limit = 1000; limit < 60000; limit += 11000) {
        small.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        EXPECT_FAIL(ERR_IO, "the checkpoint needs ", save_step(in_place("c"), 2));
        EXPECT_FAIL(ERR_IO, "tp0_ep0/shard0.safetensors", save_step(in_place("new"), 2));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        load_check(in_place("c"), 1);
        assert_false(file_is_there(in_place("c.writing")));
        assert_false(file_is_there(in_place("new.writing")));
        assert_false(file_is_there(in_place("new")));
    }
}

/* In a child, since the mount must not outlive the test. 77: this machine does not let us mount. */
static int full_disk(void)
{
    char text[64];

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", place, "tmpfs", 0, "size=128k") != 0) {
        return 77;
    }
    if (save_step(in_place("c"), 1) != ERR_IO ||
        !strstr(fail_text(), "no space: the checkpoint needs ")) {
        fprintf(stderr, "full disk: %s\n", fail_text());
        return 1;
    }
    if (file_is_there(in_place("c")) || file_is_there(in_place("c.writing"))) {
        return 2;
    }
    snprintf(text, sizeof text, "size=%dk", 4096);
    if (mount(NULL, place, NULL, MS_REMOUNT, text) != 0) {
        return 3;
    }
    return save_step(in_place("c"), 1) == OK ? 0 : 4;
}

static void a_full_disk_is_seen_before_writing(void **state)
{
    pid_t child = fork();
    int result;

    (void)state;
    if (child == 0) {
        _exit(full_disk());
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(result), 0);
}

/* A process that saves under one name for ever is killed at any moment: the name stands for a
 * whole checkpoint. */
static void killing_leaves_the_old_or_the_new(void **state)
{
    enum { ROUNDS = 25 };
    char *folder = in_place("c");
    int64_t newest = 1;

    (void)state;
    EXPECT_OK(save_step(folder, newest));
    for (int round = 0; round < ROUNDS; round++) {
        struct checkpoint_info info;
        pid_t child = fork();
        int result;

        if (child == 0) {
            for (int64_t step = newest + 1;; step++) {
                if (save_step(folder, step) != OK) {
                    _exit(1);
                }
            }
        }
        usleep((useconds_t)(500 + round * 977 % 13000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        EXPECT_OK(checkpoint_find(&info, &arena, folder, NULL));
        assert_true(info.step >= newest);
        newest = info.step;
        load_check(folder, newest);
    }
    EXPECT_OK(save_step(folder, newest + 1));
    load_check(folder, newest + 1);
    assert_false(file_is_there(in_place("c.writing")));
}

/* While one process replaces a checkpoint again and again, another always sees a whole one under
 * its name. */
static void the_name_is_never_without_a_checkpoint(void **state)
{
    char *folder = in_place("c");
    char *manifest = in_place("c/.roux/manifest.json");
    int64_t missed = 0;
    pid_t child;
    int result;

    (void)state;
    EXPECT_OK(folder_make(in_place("a")));
    EXPECT_OK(folder_make(in_place("b")));
    if (renameat2(AT_FDCWD, in_place("a"), AT_FDCWD, in_place("b"), RENAME_EXCHANGE) != 0) {
        skip(); /* this file system cannot exchange names */
    }
    EXPECT_OK(save_step(folder, 1));
    child = fork();
    if (child == 0) {
        for (int64_t step = 2; step < 60; step++) {
            if (save_step(folder, step) != OK) {
                _exit(1);
            }
        }
        _exit(0);
    }
    while (waitpid(child, &result, WNOHANG) == 0) {
        missed += !file_is_there(manifest);
    }
    assert_int_equal(result, 0);
    assert_int_equal(missed, 0);
}

static void a_recipe_that_is_not_utf8_is_refused(void **state)
{
    struct checkpoint_content c = { 0, "f", "r\xff", "{}", NULL, 0 };

    (void)state;
    EXPECT_FAIL(ERR_RECIPE, "the recipe is not UTF-8", checkpoint_save(in_place("c"), &mesh, &c));
    assert_false(file_is_there(in_place("c")));
    assert_false(file_is_there(in_place("c.writing")));
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(what_was_saved_comes_back),
        IN_PLACE(state_files_are_aligned_safetensors),
        IN_PLACE(long_buffers_come_back),
        IN_PLACE(nothing_at_all_can_be_saved),
        IN_PLACE(a_name_is_used_again),
        IN_PLACE(leftovers_are_cleared_before_a_save),
        IN_PLACE(what_is_not_ours_is_left_alone),
        IN_PLACE(removing_takes_only_our_files),
        IN_PLACE(replacing_keeps_foreign_files),
        IN_PLACE(places_that_cannot_be_written_are_named),
        IN_PLACE(a_failing_write_leaves_the_old_one),
        IN_PLACE(a_full_disk_is_seen_before_writing),
        IN_PLACE(killing_leaves_the_old_or_the_new),
        IN_PLACE(the_name_is_never_without_a_checkpoint),
        IN_PLACE(a_recipe_that_is_not_utf8_is_refused),
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
