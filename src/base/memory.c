#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static FILE *open_below(const char *root, const char *path)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof whole, "%s%s", root, path);
    return fopen(whole, "re");
}

static int64_t least_known(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int64_t machine_left(const char *root)
{
    FILE *f = open_below(root, "/proc/meminfo");
    char line[128];
    long long kib = -1;

    if (f == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) {
            break;
        }
    }
    fclose(f);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

/* ---- control groups ---- */

/* Where a version keeps its groups, and what the numbers of one are called. */
struct hierarchy {
    const char *folder, *limit, *used;
};

static const struct hierarchy version_1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                            "memory.usage_in_bytes" };
static const struct hierarchy version_2 = { "/sys/fs/cgroup", "memory.max", "memory.current" };

/* The first number of a file; -1 if it has none ("max") or is not there. */
static int64_t number_in(const char *root, const char *folder, const char *group, const char *name)
{
    char path[PATH_MAX];
    FILE *f;
    long long n;

    if (snprintf(path, sizeof path, "%s%s/%s", folder, group, name) >= (int)sizeof path) {
        return -1;
    }
    f = open_below(root, path);
    if (f == NULL) {
        return -1;
    }
    if (fscanf(f, "%lld", &n) != 1) {
        n = -1;
    }
    fclose(f);
    return n;
}

/* Limits beyond 2^60 are none. */
static int64_t group_left(const char *root, const struct hierarchy *h, const char *group)
{
    int64_t limit = number_in(root, h->folder, group, h->limit);
    int64_t used = number_in(root, h->folder, group, h->used);

    if (limit < 0 || limit >= (int64_t)1 << 60 || used < 0) {
        return -1;
    }
    return limit > used ? limit - used : 0;
}

/* Of the group at `path`, which is cut, and of all above it. In a container the path may not exist
 * below its own root: then the root alone counts. */
static int64_t path_left(const char *root, const struct hierarchy *h, char *path)
{
    int64_t left = group_left(root, h, "");

    for (char *end = path + strlen(path); end != NULL && end > path; end = strrchr(path, '/')) {
        *end = '\0';
        left = least_known(left, group_left(root, h, path));
    }
    return left;
}

/* Lines "0::/path" (version 2) and "n:memory:/path", "n:cpu,memory:/path" (version 1). */
static int64_t groups_left(const char *root)
{
    FILE *f = open_below(root, "/proc/self/cgroup");
    char line[PATH_MAX];
    int64_t left = least_known(group_left(root, &version_1, ""), group_left(root, &version_2, ""));

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *names = strchr(line, ':'), *path = names == NULL ? NULL : strchr(names + 1, ':');
        const struct hierarchy *h;

        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        h = names[1] == '\0' ? &version_2 : strstr(names, "memory") != NULL ? &version_1 : NULL;
        left = h == NULL ? left : least_known(left, path_left(root, h, path));
    }
    if (f != NULL) {
        fclose(f);
    }
    return left;
}

int64_t memory_left(const char *root)
{
    return least_known(machine_left(root), groups_left(root));
}

bool memory_has_huge_pages(const char *root)
{
    FILE *f = open_below(root, "/sys/kernel/mm/transparent_hugepage/enabled");
    char line[128] = "";
    bool has;

    if (f == NULL) {
        return false;
    }
    has = fgets(line, sizeof line, f) != NULL && strstr(line, "[never]") == NULL;
    fclose(f);
    return has;
}
