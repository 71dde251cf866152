/* What is left of a machine, of containers and of jobs, read from folders that look like theirs. */
#include "base/memory.h"
#include "support/folder.h"

enum { MIB = 1 << 20 };

struct machine {
    struct arena arena;
    const char *root;
};

static void say(struct machine *m, const char *path, const char *text)
{
    char *folder = arena_format(&m->arena, "%s%s", m->root, path);

    *strrchr(folder, '/') = '\0';
    EXPECT_OK(folder_make(folder));
    folder_put_text(&m->arena, m->root, path + 1, text);
}

/* 900 MiB are available. */
static void build(struct machine *m)
{
    *m = (struct machine){ { 0 }, NULL };
    m->root = folder_new(&m->arena);
    say(m, "/proc/meminfo", "MemTotal: 2048000 kB\nMemFree: 1 kB\nMemAvailable: 921600 kB\n");
}

static void tear_down(struct machine *m)
{
    EXPECT_OK(folder_remove(m->root));
    arena_release(&m->arena);
}

static void the_machine_alone_says_what_is_available(void **state)
{
    struct machine m;

    (void)state;
    build(&m);
    assert_int_equal(memory_left(m.root), 900ll * MIB);
    say(&m, "/proc/meminfo", "MemTotal: 2048000 kB\n");
    assert_int_equal(memory_left(m.root), -1);
    assert_int_equal(memory_left("/nowhere at all"), -1);
    assert_true(memory_left("") > 0);
    tear_down(&m);
}

static void a_container_of_version_2_limits_at_its_root(void **state)
{
    struct machine m;

    (void)state;
    build(&m);
    say(&m, "/sys/fs/cgroup/memory.max", "max\n");
    say(&m, "/sys/fs/cgroup/memory.current", "5000\n");
    assert_int_equal(memory_left(m.root), 900ll * MIB);
    say(&m, "/sys/fs/cgroup/memory.max", "104857600\n");
    say(&m, "/sys/fs/cgroup/memory.current", "20971520\n");
    assert_int_equal(memory_left(m.root), 80ll * MIB);
    say(&m, "/sys/fs/cgroup/memory.current", "204857600\n");
    assert_int_equal(memory_left(m.root), 0);
    tear_down(&m);
}

/* Of a group and those above it the tightest counts. */
static void a_job_of_version_2_is_in_groups_of_groups(void **state)
{
    struct machine m;

    (void)state;
    build(&m);
    say(&m, "/proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
    say(&m, "/sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
    say(&m, "/sys/fs/cgroup/system.slice/job_7/step_0/memory.current", "1048576\n");
    say(&m, "/sys/fs/cgroup/system.slice/job_7/memory.max", "209715200\n");
    say(&m, "/sys/fs/cgroup/system.slice/job_7/memory.current", "104857600\n");
    assert_int_equal(memory_left(m.root), 100ll * MIB);
    say(&m, "/sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "2097152\n");
    assert_int_equal(memory_left(m.root), 1ll * MIB);
    say(&m, "/proc/self/cgroup", "0::/\n");
    assert_int_equal(memory_left(m.root), 900ll * MIB);
    tear_down(&m);
}

static void version_1_has_a_hierarchy_for_memory(void **state)
{
    struct machine m;

    (void)state;
    build(&m);
    say(&m, "/proc/self/cgroup",
        "12:cpu,cpuacct:/docker/a\n5:memory:/docker/a\n1:name=systemd:/x\n");
    say(&m, "/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "314572800\n");
    say(&m, "/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "209715200\n");
    /* Without a limit the kernel says almost 2^63. */
    say(&m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    say(&m, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    assert_int_equal(memory_left(m.root), 100ll * MIB);
    /* Another hierarchy's group of that name means nothing. */
    say(&m, "/proc/self/cgroup", "12:cpu,cpuacct:/docker/a\n");
    assert_int_equal(memory_left(m.root), 900ll * MIB);
    /* Inside a container the path is the host's, and the root has the limit. */
    say(&m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n");
    say(&m, "/proc/self/cgroup", "5:memory:/docker/not/here\n");
    assert_int_equal(memory_left(m.root), 50ll * MIB - 1);
    tear_down(&m);
}

static void huge_pages_are_given_unless_never(void **state)
{
    static const char *const path = "/sys/kernel/mm/transparent_hugepage/enabled";
    struct machine m;

    (void)state;
    build(&m);
    assert_false(memory_has_huge_pages(m.root));
    say(&m, path, "always [madvise] never\n");
    assert_true(memory_has_huge_pages(m.root));
    say(&m, path, "[always] madvise never\n");
    assert_true(memory_has_huge_pages(m.root));
    say(&m, path, "always madvise [never]\n");
    assert_false(memory_has_huge_pages(m.root));
    tear_down(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_alone_says_what_is_available),
        cmocka_unit_test(a_container_of_version_2_limits_at_its_root),
        cmocka_unit_test(a_job_of_version_2_is_in_groups_of_groups),
        cmocka_unit_test(version_1_has_a_hierarchy_for_memory),
        cmocka_unit_test(huge_pages_are_given_unless_never),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
