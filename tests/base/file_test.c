#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/text.h"
#include "support/expect.h"

static struct arena memory;
static char folder[256];

static const char *in_folder(const char *name)
{
    return path_join(&memory, folder, name);
}

static int make_folder(void **state)
{
    const char *temporary = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/roux-file-test-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    if (folder_remove(folder) != OK || file_is_there(folder)) {
        return -1;
    }
    arena_release(&memory);
    return 0;
}

static size_t names_in_folder(void)
{
    char **names;
    size_t count;

    EXPECT_OK(folder_list(&memory, folder, &names, &count));
    return count;
}

static void expect_content(const char *path, const char *content)
{
    char *bytes;
    size_t length;

    EXPECT_OK(file_read(&memory, path, 1 << 20, &bytes, &length));
    assert_int_equal(length, strlen(content));
    assert_string_equal(bytes, content);
}

static void what_was_written_is_read(void **state)
{
    const char *path = in_folder("a");
    uint64_t size;
    char *bytes;
    size_t length;

    (void)state;
    EXPECT_OK(file_replace(path, "one\0two", 7));
    EXPECT_OK(file_read(&memory, path, 7, &bytes, &length));
    assert_int_equal(length, 7);
    assert_memory_equal(bytes, "one\0two", 8);
    EXPECT_OK(file_size(path, &size));
    assert_int_equal(size, 7);
    EXPECT_OK(file_replace(path, NULL, 0));
    expect_content(path, "");
    assert_int_equal(names_in_folder(), 1);
}

static void a_limit_is_kept(void **state)
{
    const char *path = in_folder("a");
    char *bytes;
    size_t length;

    (void)state;
    EXPECT_OK(file_replace(path, "12345678", 8));
    EXPECT_FAIL(ERR_FORMAT, "/a: has 8 bytes or more; at most 7 are read",
                file_read(&memory, path, 7, &bytes, &length));
}

static void files_that_claim_to_be_empty_are_read(void **state)
{
    char *bytes;
    size_t length;

    (void)state;
    EXPECT_OK(file_read(&memory, "/proc/self/status", 1 << 20, &bytes, &length));
    assert_true(length > 100 && text_starts(bytes, "Name:"));
    EXPECT_FAIL(ERR_FORMAT, "/proc/self/status: has",
                file_read(&memory, "/proc/self/status", 10, &bytes, &length));
}

static void what_is_no_file_is_named(void **state)
{
    uint64_t size;
    char *bytes;
    size_t length;

    (void)state;
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    EXPECT_FAIL(ERR_FORMAT, "/pipe: is a pipe",
                file_read(&memory, in_folder("pipe"), 10, &bytes, &length));
    EXPECT_FAIL(ERR_FORMAT, ": is a folder", file_read(&memory, folder, 10, &bytes, &length));
    EXPECT_FAIL(ERR_FORMAT, "/dev/null: is a device",
                file_read(&memory, "/dev/null", 10, &bytes, &length));
    EXPECT_FAIL(ERR_MISSING, "/none: cannot be opened: No such file",
                file_read(&memory, in_folder("none"), 10, &bytes, &length));
    EXPECT_FAIL(ERR_FORMAT, ": is a folder", file_size(folder, &size));
    EXPECT_FAIL(ERR_MISSING, "/none: ", file_size(in_folder("none"), &size));
}

static void only_a_file_is_replaced(void **state)
{
    struct stat about;

    (void)state;
    assert_int_equal(mkfifo(in_folder("target"), 0600), 0);
    EXPECT_FAIL(ERR_IO, "/target: is a pipe", file_replace(in_folder("target"), "x", 1));
    assert_int_equal(symlink("target", in_folder("link")), 0);
    EXPECT_FAIL(ERR_IO, "/link: is a pipe", file_replace(in_folder("link"), "x", 1));
    assert_int_equal(stat(in_folder("target"), &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    EXPECT_FAIL(ERR_IO, ": is a folder", file_replace(folder, "x", 1));
    EXPECT_OK(file_check_target(in_folder("new")));
    EXPECT_OK(file_replace(in_folder("new"), "x", 1));
    EXPECT_OK(file_check_target(in_folder("new")));
}

static void a_folder_is_tried_without_a_trace(void **state)
{
    size_t before = names_in_folder();

    (void)state;
    EXPECT_OK(folder_check_writable(folder));
    assert_int_equal(names_in_folder(), before);
    EXPECT_FAIL(ERR_IO, "/gone: no file can be made in it",
                folder_check_writable(in_folder("gone")));
}

static void a_path_through_a_file_is_an_error(void **state)
{
    const char *below = in_folder("a/b");
    char **names;
    char *bytes;
    size_t length;

    (void)state;
    EXPECT_OK(file_replace(in_folder("a"), "x", 1));
    EXPECT_FAIL(ERR_IO, "/a/b: cannot be opened: Not a directory",
                file_read(&memory, below, 10, &bytes, &length));
    EXPECT_FAIL(ERR_IO, "/a/b: cannot be written", file_replace(below, "x", 1));
    EXPECT_FAIL(ERR_IO, "/a/b/c: cannot be made: ", folder_make(in_folder("a/b/c")));
    EXPECT_FAIL(ERR_IO, "/a is there and is not a folder", folder_make(in_folder("a")));
    EXPECT_FAIL(ERR_IO, "/a: cannot be listed: Not a directory",
                folder_list(&memory, in_folder("a"), &names, &length));
    EXPECT_FAIL(ERR_IO, "/a: cannot be removed: it is not a folder", folder_remove(in_folder("a")));
    EXPECT_FAIL(ERR_MISSING, "/none/b: cannot be written",
                file_replace(in_folder("none/b"), "x", 1));
    expect_content(in_folder("a"), "x");
}

static void replacing_keeps_the_mode(void **state)
{
    const char *path = in_folder("a");
    struct stat about;

    (void)state;
    EXPECT_OK(file_replace(path, "1", 1));
    assert_int_equal(chmod(path, 0640), 0);
    EXPECT_OK(file_replace(path, "2", 1));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
    expect_content(path, "2");
}

/* A limit on the size of files stops the write half-way, as a full disk does. */
static void a_failed_replacement_leaves_the_old_file(void **state)
{
    const char *path = in_folder("a");
    char *large = arena_take(&memory, 100000);
    struct rlimit old, small;

    (void)state;
    EXPECT_OK(file_replace(path, "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){ .rlim_cur = 5000, .rlim_max = old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_FAIL(ERR_IO,
                "/a: cannot be written at offset 5000, 95000 bytes are left: File too large",
                file_replace(path, large, 100000));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    expect_content(path, "old");
    assert_int_equal(names_in_folder(), 1);
}

static void a_folder_is_not_replaced_by_a_file(void **state)
{
    (void)state;
    EXPECT_OK(folder_make(in_folder("d/e")));
    EXPECT_FAIL(ERR_IO, "/d: is a folder", file_replace(in_folder("d"), "x", 1));
    assert_true(file_is_folder(in_folder("d/e")));
    assert_int_equal(names_in_folder(), 1);
}

static void pieces_are_written_and_read(void **state)
{
    const char *path = in_folder("a");
    char bytes[9] = { 0 };
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    EXPECT_OK(file_write_at(fd, path, "5678", 4, 4));
    EXPECT_OK(file_write_at(fd, path, "1234", 4, 0));
    EXPECT_OK(file_write_at(fd, path, NULL, 0, 100));
    EXPECT_OK(file_sync(fd, path));
    EXPECT_OK(folder_sync(folder));
    EXPECT_OK(file_read_at(fd, path, bytes, 8, 0));
    assert_string_equal(bytes, "12345678");
    EXPECT_OK(file_read_at(fd, path, bytes, 2, 6));
    assert_string_equal(bytes, "78345678");
    EXPECT_OK(file_read_at(fd, path, bytes, 0, 1000));
    EXPECT_FAIL(ERR_FORMAT, "/a: ends after 8 bytes, where 3 bytes from offset 6 are needed",
                file_read_at(fd, path, bytes, 3, 6));
    EXPECT_FAIL(ERR_FORMAT,
                "/a: ends after 8 bytes, where 1 bytes from offset 18446744073709551615",
                file_read_at(fd, path, bytes, 1, UINT64_MAX));
    EXPECT_FAIL(ERR_IO, "/a: no file holds 2 bytes at offset 9223372036854775806",
                file_write_at(fd, path, "12", 2, INT64_MAX - 1));
    close(fd);
    EXPECT_FAIL(ERR_IO, "/a: cannot be written at offset 0, 1 bytes are left: Bad file descriptor",
                file_write_at(fd, path, "1", 1, 0));
    EXPECT_FAIL(ERR_IO, "/a: cannot be read at offset 0: Bad file descriptor",
                file_read_at(fd, path, bytes, 1, 0));
    EXPECT_FAIL(ERR_IO, "/a: cannot be flushed to disk: Bad file descriptor", file_sync(fd, path));
}

static void a_full_device_says_so(void **state)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    if (fd < 0) {
        skip();
    }
    EXPECT_FAIL(
        ERR_IO,
        "/dev/full: cannot be written at offset 0, 3 bytes are left: No space left on device",
        file_write_at(fd, "/dev/full", "abc", 3, 0));
    EXPECT_OK(file_sync(fd, "/dev/full"));
    close(fd);
}

static void folders_are_made_with_all_above(void **state)
{
    (void)state;
    EXPECT_OK(folder_make(in_folder("a/b//c/")));
    assert_true(file_is_folder(in_folder("a/b/c")));
    EXPECT_OK(folder_make(in_folder("a/b/c")));
    assert_int_equal(symlink("a", in_folder("link")), 0);
    EXPECT_OK(folder_make(in_folder("link/d")));
    assert_true(file_is_folder(in_folder("a/d")));
    EXPECT_FAIL(ERR_MISSING, ": cannot be made: ", folder_make(""));
    EXPECT_OK(folder_make("/"));
}

static void names_are_listed_in_order(void **state)
{
    static const char *const made[] = { "b", "a", "\xc3\xa9", "B", ".hidden", "a.c", "a-c" };
    static const char *const sorted[] = { ".hidden", "B", "a", "a-c", "a.c", "b", "\xc3\xa9" };
    char **names;
    size_t count;

    (void)state;
    EXPECT_OK(folder_list(&memory, folder, &names, &count));
    assert_int_equal(count, 0);
    for (size_t i = 0; i < 7; i++) {
        EXPECT_OK(file_replace(in_folder(made[i]), "", 0));
    }
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(folder_make(in_folder(arena_format(&memory, "z%02d", i))));
    }
    EXPECT_OK(folder_list(&memory, folder, &names, &count));
    assert_int_equal(count, 107);
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(names[i < 6 ? i : 106], sorted[i]);
    }
    assert_string_equal(names[6 + 42], "z42");
    EXPECT_FAIL(ERR_MISSING, "/none: cannot be listed: ",
                folder_list(&memory, in_folder("none"), &names, &count));
}

static void removing_follows_no_link(void **state)
{
    (void)state;
    EXPECT_OK(folder_make(in_folder("keep/inner")));
    EXPECT_OK(file_replace(in_folder("keep/file"), "kept", 4));
    EXPECT_OK(folder_make(in_folder("gone/a/b/c")));
    EXPECT_OK(file_replace(in_folder("gone/a/file"), "x", 1));
    assert_int_equal(symlink("../keep", in_folder("gone/link")), 0);
    assert_int_equal(symlink("nowhere", in_folder("gone/a/dangling")), 0);
    assert_int_equal(symlink("keep", in_folder("top")), 0);
    EXPECT_OK(folder_remove(in_folder("gone")));
    assert_false(file_is_there(in_folder("gone")));
    EXPECT_OK(folder_remove(in_folder("top/")));
    assert_int_equal(names_in_folder(), 1);
    expect_content(in_folder("keep/file"), "kept");
    EXPECT_OK(folder_remove(in_folder("none")));
    EXPECT_FAIL(ERR_IO, "/: cannot be removed: name the folder itself", folder_remove("/"));
    EXPECT_FAIL(ERR_IO, "/keep/..: cannot be removed: name the folder itself",
                folder_remove(in_folder("keep/..")));
    EXPECT_FAIL(ERR_IO, "name the folder itself", folder_remove("."));
}

static void paths_are_put_together_and_taken_apart(void **state)
{
    static const struct {
        const char *path, *folder, *name;
    } rows[] = {
        { "a/b", "a", "b" },  { "b", ".", "b" },         { "/b", "/", "b" },
        { "a//b", "a", "b" }, { "/a/b/c", "/a/b", "c" }, { "a/", "a", "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(path_folder(&memory, rows[i].path), rows[i].folder);
        assert_string_equal(path_name(rows[i].path), rows[i].name);
    }
    assert_string_equal(path_join(&memory, "a", "b"), "a/b");
    assert_string_equal(path_join(&memory, "a/", "b"), "a/b");
    assert_string_equal(path_join(&memory, "/", "b"), "/b");
    assert_string_equal(path_join(&memory, "a", "/b"), "/b");
    assert_string_equal(path_join(&memory, "", "b"), "b");
}

static void free_space_is_found_above_what_is_not_there(void **state)
{
    uint64_t here = 0, there = 0;

    (void)state;
    EXPECT_OK(file_space(folder, &here));
    EXPECT_OK(file_space(in_folder("none/none/none"), &there));
    assert_true(here > 0 && there > here / 2 && there / 2 < here);
    EXPECT_OK(file_space("none-here/none", &there));
    EXPECT_OK(file_replace(in_folder("a"), "x", 1));
    EXPECT_FAIL(ERR_IO, "/a/b: its free space cannot be read: Not a directory",
                file_space(in_folder("a/b"), &there));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_limit_is_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_that_claim_to_be_empty_are_read, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_path_through_a_file_is_an_error, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(replacing_keeps_the_mode, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_failed_replacement_leaves_the_old_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_is_not_replaced_by_a_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(pieces_are_written_and_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_full_device_says_so, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(folders_are_made_with_all_above, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(only_a_file_is_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_is_tried_without_a_trace, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(names_are_listed_in_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(removing_follows_no_link, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(paths_are_put_together_and_taken_apart, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(free_space_is_found_above_what_is_not_there, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
