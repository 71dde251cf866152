/* Event files: sums, bytes, what a reader sees of them, and what is left where writing fails. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/crc32c.h"
#include "store/event_file.h"
#include "support/event_log.h"
#include "support/folder.h"

static struct arena memory;

static int release_memory(void **state)
{
    (void)state;
    arena_release(&memory);
    return 0;
}

static struct event_log log_of(const char *folder)
{
    struct event_log l;

    EXPECT_OK(event_log_read(&l, &memory, folder));
    return l;
}

static double value_of(const struct event_log *l, const char *tag, int64_t step)
{
    const struct event_scalar *s = event_log_find(l, tag, step);

    assert_non_null(s);
    return s->value;
}

static void sums_are_the_published_ones(void **state)
{
    unsigned char zeros[32] = { 0 };

    (void)state;
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    assert_int_equal(crc32c("", 0), 0);
    assert_int_equal(crc32c_masked("", 0), 0xa282ead8);
}

static void a_file_has_the_documented_bytes(void **state)
{
    static const char scalar[] = "\x10\xac\x02\x2a\x0b\x0a\x09\x0a\x02"
                                 "ab"
                                 "\x15\x00\x00\xc0\x3f";
    static const char start[] = "\x10\x07\x3a\x02\x08\x01";
    const char *folder = folder_new(&memory);
    struct event_file f;
    char *bytes, host[256];
    size_t length;
    const char *name;

    (void)state;
    EXPECT_OK(event_file_open(&f, &memory, folder));
    assert_false(f.has_older);
    event_file_add_restart(&f, 7);
    event_file_add_scalar(&f, 300, "ab", 1.5);
    EXPECT_OK(event_file_flush(&f));
    EXPECT_OK(file_read(&memory, f.path, 1000, &bytes, &length));
    /* Records: 9 bytes of time and 15 of version; 9 and 6; 9 and 16; each framed by 16. */
    assert_int_equal(length, 24 + 15 + 25 + 3 * 16);
    assert_int_equal(bytes[0], 24);
    assert_memory_equal(bytes + 12 + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    assert_memory_equal(bytes + 40 + 12 + 9, start, 6);
    assert_memory_equal(bytes + 40 + 31 + 12 + 9, scalar, 16);
    assert_int_equal(gethostname(host, sizeof host), 0);
    name = path_name(f.path);
    assert_int_equal(strncmp(name, "events.out.tfevents.", 20), 0);
    assert_string_equal(strchr(name + 20, '.'),
                        arena_format(&memory, ".%s.%ld.0", host, (long)getpid()));
    assert_true(fabs((double)atoll(name + 20) - clock_wall_seconds()) < 60);
    event_file_close(&f);
    EXPECT_OK(folder_remove(folder));
}

static void what_is_written_reads_back(void **state)
{
    static const double values[] = { 0, -0.0, 0.1, 1e39, -1e39, 1e-45, INFINITY, 16777217 };
    const char *parent = folder_new(&memory), *folder = path_join(&memory, parent, "new/one");
    struct event_file f;
    struct event_log l;

    (void)state;
    EXPECT_OK(event_file_open(&f, &memory, folder));
    for (int64_t i = 0; i < 8; i++) {
        event_file_add_scalar(&f, i, "Step Time", values[i]);
    }
    event_file_add_scalar(&f, INT64_MAX, "far", NAN);
    event_file_add_scalar(&f, -1, "far", 2);
    assert_int_equal(log_of(folder).count, 0); /* not flushed yet */
    EXPECT_OK(event_file_flush(&f));
    EXPECT_OK(event_file_flush(&f)); /* nothing more */
    event_file_close(&f);
    event_file_close(&f);
    l = log_of(folder);
    assert_int_equal(l.file_count, 1);
    assert_null(l.files[0].damage);
    assert_string_equal(l.files[0].version, "brain.Event:2");
    assert_int_equal(l.files[0].records, 11);
    assert_int_equal(l.count, 10);
    for (int64_t i = 0; i < 8; i++) {
        double got = value_of(&l, "Step Time", i);

        assert_true(got == (double)(float)values[i] && signbit(got) == signbit(values[i]));
    }
    assert_true(isnan(value_of(&l, "far", INT64_MAX)));
    assert_true(value_of(&l, "far", -1) == 2);
    assert_true(fabs(l.scalars[0].wall_time - clock_wall_seconds()) < 60);
    EXPECT_OK(folder_remove(parent));
}

/* Runs that follow each other within a second: names in their order, and the older values void. */
static void later_files_come_later(void **state)
{
    const char *folder = folder_new(&memory);
    const char *before = "";
    struct event_file late;
    struct event_log l;

    (void)state;
    folder_put_text(&memory, folder, "events.out.tfevents.99999999999.far.1.0", "");
    folder_put_text(&memory, folder, "events.out.tfevents.", "");
    for (int i = 0; i < 3; i++) {
        struct event_file f;

        EXPECT_OK(event_file_open(&f, &memory, folder));
        assert_int_equal(f.has_older, i > 0);
        assert_true(strcmp(f.path, before) > 0);
        before = f.path;
        if (i > 0) {
            event_file_add_restart(&f, 4 - i);
        }
        for (int64_t step = i == 0 ? 0 : 4 - i; step < 6 - i; step++) {
            event_file_add_scalar(&f, step, "a", (double)(10 * i + step));
        }
        EXPECT_OK(event_file_flush(&f));
        event_file_close(&f);
    }
    for (int ahead = 100; ahead < 102; ahead++) { /* of a host whose clock goes before ours */
        before = arena_format(&memory, "events.out.tfevents.%lld.~.1.0",
                              (long long)clock_wall_seconds() + ahead);
        folder_put_text(&memory, folder, before, "");
    }
    EXPECT_OK(event_file_open(&late, &memory, folder));
    assert_true(strcmp(path_name(late.path), before) > 0);
    event_file_close(&late);
    l = log_of(folder);
    assert_int_equal(l.count, 4);
    assert_true(value_of(&l, "a", 1) == 1);
    assert_true(value_of(&l, "a", 2) == 22);
    assert_true(value_of(&l, "a", 3) == 23);
    EXPECT_OK(folder_remove(folder));
}

static void every_damage_is_seen(void **state)
{
    const char *folder = folder_new(&memory), *path;
    struct event_file f;
    char *bytes;
    size_t length;

    (void)state;
    EXPECT_OK(event_file_open(&f, &memory, folder));
    event_file_add_scalar(&f, 1, "a", 1);
    EXPECT_OK(event_file_flush(&f));
    path = arena_text(&memory, f.path);
    event_file_close(&f);
    EXPECT_OK(file_read(&memory, path, 1000, &bytes, &length));
    for (size_t cut = 1; cut < length; cut++) {
        struct event_log l;

        EXPECT_OK(file_replace(path, bytes, cut));
        l = log_of(folder);
        assert_int_equal(l.count, 0);
        assert_int_equal(l.files[0].damage == NULL, cut == 40); /* the version record is whole */
    }
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        EXPECT_OK(file_replace(path, bytes, length));
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        assert_non_null(log_of(folder).files[0].damage);
    }
    EXPECT_OK(folder_remove(folder));
}

static void a_failed_write_leaves_whole_records(void **state)
{
    const char *folder = folder_new(&memory);
    struct rlimit old, small;
    struct event_file f;
    struct event_log l;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_OK(event_file_open(&f, &memory, folder));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 40 + 45; /* the second record does not fit */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    event_file_add_scalar(&f, 1, "a", 1);
    event_file_add_scalar(&f, 1, "b", 1);
    EXPECT_FAIL(ERR_IO, "tfevents", event_file_flush(&f));
    l = log_of(folder);
    assert_null(l.files[0].damage);
    assert_int_equal(l.files[0].records, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    event_file_add_scalar(&f, 2, "a", 2);
    EXPECT_OK(event_file_flush(&f));
    event_file_close(&f);
    l = log_of(folder);
    assert_null(l.files[0].damage);
    assert_int_equal(l.count, 1);
    assert_true(value_of(&l, "a", 2) == 2);
    EXPECT_OK(folder_remove(folder));
}

static void a_folder_that_takes_no_file_is_named(void **state)
{
    const char *folder = folder_new(&memory);
    const char *taken = folder_put_text(&memory, folder, "taken", "");
    struct event_file f;
    struct rlimit old, none;

    (void)state;
    EXPECT_FAIL(ERR_IO, taken, event_file_open(&f, &memory, taken));
    event_file_close(&f);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    EXPECT_FAIL(ERR_IO, folder, event_file_open(&f, &memory, folder));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(folder_count(&memory, folder), 1); /* no empty file stays */
    EXPECT_OK(folder_remove(folder));
}

static struct event_log golden(const char *name)
{
    const char *source = getenv("ROUX_SOURCE");

    return log_of(path_join(&memory, source == NULL ? "." : source,
                            arena_format(&memory, "tests/golden/tensorboard/%s", name)));
}

/* The reader of these tests is no friend of the writer: it reads what others wrote. */
static void logs_of_others_are_read(void **state)
{
    struct event_log l = golden("by_tensorboard");

    (void)state;
    assert_int_equal(l.files[0].records, 11);
    assert_int_equal(l.count, 30);
    assert_true(value_of(&l, "Loss/train", 9) == 7.814069747924805);
    assert_true(event_log_find(&l, "Loss/train", 9)->wall_time == 1700000009.5);
    l = golden("new_form");
    assert_int_equal(l.count, 36);
    assert_true(value_of(&l, "Loss/train", 11) == 7.486349105834961);
    assert_true(value_of(&l, "Loss/double", 11) == 7.486348910130089);
    l = golden("resumed_three");
    assert_int_equal(l.file_count, 3);
    assert_int_equal(l.count, 121);
    assert_true(value_of(&l, "Loss/val", 9) == 9.128673553466797);
    l = golden("cut_in_record");
    assert_int_equal(l.files[0].records, 144);
    assert_int_equal(l.count, 143);
    assert_string_equal(l.files[0].damage, "record of 37 bytes at 7119 reaches beyond the end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_published_ones),
        cmocka_unit_test(a_file_has_the_documented_bytes),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(later_files_come_later),
        cmocka_unit_test(every_damage_is_seen),
        cmocka_unit_test(a_failed_write_leaves_whole_records),
        cmocka_unit_test(a_folder_that_takes_no_file_is_named),
        cmocka_unit_test(logs_of_others_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, release_memory);
}
