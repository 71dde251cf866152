#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/folder.h"
#include "store/safetensors.h"

static void what_is_written_is_read_back(void **state)
{
    static const int64_t matrix[2] = { 2, 3 }, empty[2] = { 0, 5 };
    static const float values[6] = { 1, -2, 0.5f, 3, 1e30f, -0.0f };
    static const int aligns[2] = { 8, 4096 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = path_join(&a, folder, "w.safetensors");
    int64_t scalar = 0;
    float back[6];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tensor_writer w;
        struct tensor_file f;

        EXPECT_OK(tensor_writer_open(&w, &a, path));
        tensor_writer_metadata(&w, "format", "pt");
        tensor_writer_metadata(&w, "odd \"\\\n\x01\xc3\xa9", "\t");
        tensor_writer_declare(&w, "a.weight", DT_F32, 2, matrix);
        tensor_writer_declare(&w, "none", DT_BF16, 2, empty);
        tensor_writer_declare(&w, "odd \"\\\n\x7f/\xe2\x82\xac", DT_I64, 0, NULL);
        EXPECT_OK(tensor_writer_begin(&w, aligns[i]));
        EXPECT_OK(tensor_writer_append(&w, values, 10));
        EXPECT_OK(tensor_writer_append(&w, (const char *)values + 10, 14));
        EXPECT_OK(tensor_writer_append(&w, "\x01\0\0\0\0\0\0\x80", 8));
        /* i = 0: not there before finish; i = 1: the older file still is. */
        assert_int_equal(file_is_there(path), i);
        EXPECT_OK(tensor_writer_finish(&w));
        tensor_writer_abandon(&w);
        assert_int_equal(folder_count(&a, folder), 1);

        EXPECT_OK(tensor_file_open(&f, &a, path));
        assert_int_equal(f.data_begin % (uint64_t)aligns[i], 0);
        assert_int_equal(f.count, 3);
        assert_int_equal(f.metadata_count, 2);
        assert_string_equal(f.metadata[2], "odd \"\\\n\x01\xc3\xa9");
        assert_string_equal(f.metadata[3], "\t");
        EXPECT_OK(tensor_file_read(&f, tensor_file_find(&f, "a.weight"), 0, 6, DT_F32, back));
        assert_memory_equal(back, values, sizeof values);
        EXPECT_OK(tensor_file_read(&f, tensor_file_find(&f, "odd \"\\\n\x7f/\xe2\x82\xac"), 0, 1,
                                   DT_I64, &scalar));
        assert_true(scalar == INT64_MIN + 1);
        tensor_file_close(&f);
    }
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void an_abandoned_file_leaves_nothing(void **state)
{
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = path_join(&a, folder, "w");
    struct tensor_writer w = { 0 }, other;

    (void)state;
    tensor_writer_abandon(&w);
    EXPECT_OK(tensor_writer_open(&w, &a, path));
    EXPECT_OK(tensor_writer_open(&other, &a, path)); /* two at once do not share a temporary file */
    assert_int_equal(folder_count(&a, folder), 2);
    tensor_writer_abandon(&w);
    tensor_writer_abandon(&other);
    assert_int_equal(folder_count(&a, folder), 0);
    EXPECT_FAIL(ERR_MISSING, "none/w: no file can be made",
                tensor_writer_open(&w, &a, path_join(&a, folder, "none/w")));
    tensor_writer_abandon(&w);
    /* A pipe or device would lose its name to the file. */
    assert_int_equal(mkfifo(path, 0600), 0);
    EXPECT_FAIL(ERR_IO, "/w: is a pipe", tensor_writer_open(&w, &a, path));
    tensor_writer_abandon(&w);
    assert_int_equal(folder_count(&a, folder), 1);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void a_full_disk_is_an_error(void **state)
{
    static const int64_t shape[1] = { 1 << 20 };
    struct rlimit before, small;
    struct arena a = { 0 };
    const char *folder = folder_new(&a), *path = path_join(&a, folder, "w");
    char *bytes = calloc(1, 1 << 20);
    struct tensor_writer w;

    (void)state;
    /* The limit on a file's size stands for a full disk: the same calls fail, the reason
     * differs. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 100000;
    EXPECT_OK(tensor_writer_open(&w, &a, path));
    tensor_writer_declare(&w, "w", DT_U8, 1, shape);
    EXPECT_OK(tensor_writer_begin(&w, 8));
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_FAIL(ERR_IO, path, tensor_writer_append(&w, bytes, 1 << 20));
    setrlimit(RLIMIT_FSIZE, &before);
    tensor_writer_abandon(&w);
    assert_int_equal(folder_count(&a, folder), 0);
    free(bytes);
    EXPECT_OK(folder_remove(folder));
    arena_release(&a);
}

static void finish_too_early(void)
{
    static const int64_t shape[1] = { 8 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct tensor_writer w;

    EXPECT_OK(tensor_writer_open(&w, &a, path_join(&a, folder, "w")));
    EXPECT_OK(folder_remove(folder));
    tensor_writer_declare(&w, "w", DT_U8, 1, shape);
    EXPECT_OK(tensor_writer_begin(&w, 8));
    (void)!tensor_writer_finish(&w);
}

static void declare_twice(void)
{
    static const int64_t shape[1] = { 8 };
    struct arena a = { 0 };
    const char *folder = folder_new(&a);
    struct tensor_writer w;

    EXPECT_OK(tensor_writer_open(&w, &a, path_join(&a, folder, "w")));
    EXPECT_OK(folder_remove(folder));
    tensor_writer_declare(&w, "twin", DT_U8, 1, shape);
    tensor_writer_declare(&w, "twin", DT_U8, 1, shape);
    (void)!tensor_writer_begin(&w, 8);
}

static void wrong_use_is_our_own_fault(void **state)
{
    (void)state;
    expect_broken_check(finish_too_early, "finish after 0 of 8 bytes");
    expect_broken_check(declare_twice, "twin is declared twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(an_abandoned_file_leaves_nothing),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(wrong_use_is_our_own_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
