#include "checkpoint/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

char *folder_writing(struct arena *a, const char *folder)
{
    size_t length = strlen(folder);

    while (length > 1 && folder[length - 1] == '/') {
        length--;
    }
    return arena_format(a, "%.*s" LAYOUT_WRITING, (int)length, folder);
}

/* The folder without slashes behind it. */
static char *folder_plain(struct arena *a, const char *folder)
{
    char *writing = folder_writing(a, folder);

    writing[strlen(writing) - strlen(LAYOUT_WRITING)] = 0;
    return writing;
}

static status folder_is_empty(struct arena *a, const char *path, bool *empty)
{
    char **names;
    size_t count;

    TRY(folder_list(a, path, &names, &count));
    *empty = count == 0;
    return OK;
}

static bool folder_is_ours(struct arena *a, const char *path)
{
    return file_is_folder(path_join(a, path, LAYOUT_OWN));
}

/* May `path` be replaced or removed? Only what we wrote, or nothing. */
static status folder_check_ours(struct arena *a, const char *path)
{
    bool empty = false;

    if (!file_is_folder(path)) {
        return fail(
            ERR_IO,
            "%s: is there and is no folder, so no checkpoint can be written under this name", path);
    }
    if (folder_is_ours(a, path)) {
        return OK;
    }
    TRY(folder_is_empty(a, path, &empty));
    if (!empty) {
        return fail(
            ERR_IO,
            "%s: is there, but is no checkpoint of ours; move it away or save under another name",
            path);
    }
    return OK;
}

static status folder_drop(struct arena *a, const char *path)
{
    if (!folder_is_ours(a, path)) {
        return rmdir(path) == 0 ? OK : fail(ERR_IO, "%s: %s", path, strerror(errno));
    }
    return checkpoint_remove(path);
}

static status writing_clear(struct arena *a, const char *writing)
{
    if (!file_is_there(writing)) {
        return OK;
    }
    TRY(folder_check_ours(a, writing));
    log_warning("%s: is left from a save that was not finished; removing it", writing);
    TRY(folder_drop(a, writing));
    if (file_is_there(writing)) {
        return fail(ERR_IO, "%s: holds files that are not ours; move them away", writing);
    }
    return OK;
}

static status inner_folders_make(struct arena *a, const char *writing, const int size[AXIS_COUNT])
{
    TRY(folder_make(path_join(a, writing, LAYOUT_OWN)));
    for (int w = 0; w < layout_writers(size); w += layout_shards(size)) {
        TRY(folder_make(path_join(a, writing, layout_folder(a, layout_cell(size, w)))));
    }
    return OK;
}

status folder_begin(struct arena *a, const char *folder, const int size[AXIS_COUNT])
{
    char *plain = folder_plain(a, folder);
    char *writing = folder_writing(a, folder);

    check(*plain && !text_ends(plain, LAYOUT_WRITING), "a checkpoint called \"%s\"", folder);
    TRY(folder_make(path_folder(a, plain)));
    if (file_is_there(plain)) {
        TRY(folder_check_ours(a, plain));
    }
    TRY(writing_clear(a, writing));
    return inner_folders_make(a, writing, size);
}

static status flush_all(struct arena *a, const char *writing, const int size[AXIS_COUNT])
{
    TRY(folder_sync(path_join(a, writing, LAYOUT_OWN)));
    for (int w = 0; w < layout_writers(size); w += layout_shards(size)) {
        TRY(folder_sync(path_join(a, writing, layout_folder(a, layout_cell(size, w)))));
    }
    return folder_sync(writing);
}

/* A name beside `plain` that nobody has. */
static char *aside_name(struct arena *a, const char *plain)
{
    char *name = arena_format(a, "%s.old", plain);

    for (int i = 2; file_is_there(name); i++) {
        name = arena_format(a, "%s.old%d", plain, i);
    }
    return name;
}

static status rename_to(const char *from, const char *to)
{
    return rename(from, to) == 0
               ? OK
               : fail(ERR_IO, "%s: renaming to %s: %s", from, to, strerror(errno));
}

/* `writing` takes the name `plain`; what had it is called `aside` afterwards. */
static status names_exchange(const char *writing, const char *plain, const char *aside)
{
    if (renameat2(AT_FDCWD, writing, AT_FDCWD, plain, RENAME_EXCHANGE) == 0) {
        return rename_to(writing, aside);
    }
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
        return fail(ERR_IO, "%s: exchanging its name with %s: %s", writing, plain, strerror(errno));
    }
    /* A file system that cannot exchange: for a moment the old one stands under its other name
     * only. */
    TRY(rename_to(plain, aside));
    return rename_to(writing, plain);
}

status folder_publish(struct arena *a, const char *folder, const int size[AXIS_COUNT])
{
    char *plain = folder_plain(a, folder);
    char *writing = folder_writing(a, folder);
    char *aside = aside_name(a, plain);
    bool replaces = file_is_there(plain);

    TRY(flush_all(a, writing, size));
    TRY(replaces ? names_exchange(writing, plain, aside) : rename_to(writing, plain));
    TRY(folder_sync(path_folder(a, plain)));
    if (replaces && folder_drop(a, aside) != OK) {
        log_warning("the replaced checkpoint could not be removed: %s", fail_text());
    }
    return OK;
}

void folder_abandon(struct arena *a, const char *folder)
{
    char *writing = folder_writing(a, folder);

    if (file_is_there(writing) && folder_drop(a, writing) != OK) {
        log_warning("an unfinished checkpoint could not be removed: %s", fail_text());
    }
}
