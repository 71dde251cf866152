/* A folder of the test's own, and files in it. */
#ifndef ROUX_TESTS_SUPPORT_FOLDER_H
#define ROUX_TESTS_SUPPORT_FOLDER_H

#include "support/expect.h"
#include "base/file.h"

/* A new, empty folder; remove it with folder_remove. */
static inline const char *folder_new(struct arena *a)
{
    const char *parent = getenv("TMPDIR");
    char *path = arena_format(a, "%s/roux-test-XXXXXX", parent == NULL ? "/tmp" : parent);

    assert_non_null(mkdtemp(path));
    return path;
}

static inline const char *folder_put(struct arena *a, const char *folder, const char *name,
                                     const void *bytes, size_t length)
{
    const char *path = path_join(a, folder, name);

    EXPECT_OK(file_replace(path, bytes, length));
    return path;
}

static inline const char *folder_put_text(struct arena *a, const char *folder, const char *name,
                                          const char *text)
{
    return folder_put(a, folder, name, text, strlen(text));
}

static inline size_t folder_count(struct arena *a, const char *folder)
{
    char **names;
    size_t count = 0;

    EXPECT_OK(folder_list(a, folder, &names, &count));
    return count;
}

#endif
