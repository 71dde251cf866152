/* Removing a checkpoint, and nothing else: what we write is known by its names. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"

static status file_drop(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        return fail(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
    }
    return OK;
}

/* Stays, with a word, if something foreign is in it. */
static status folder_drop_empty(const char *path)
{
    if (rmdir(path) == 0 || errno == ENOENT) {
        return OK;
    }
    if (errno == ENOTEMPTY || errno == EEXIST) {
        log_warning("%s: stays, since it holds files that are not ours", path);
        return OK;
    }
    return fail(ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
}

static status states_drop(struct arena *a, const char *folder)
{
    char **names;
    size_t count;

    TRY(folder_list(a, folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        if (layout_is_state(names[i])) {
            TRY(file_drop(path_join(a, folder, names[i])));
        }
    }
    return folder_drop_empty(folder);
}

static status checkpoint_drop(struct arena *a, const char *folder)
{
    char *own = path_join(a, folder, LAYOUT_OWN);
    char **names;
    size_t count;

    if (!file_is_folder(own)) {
        return fail(ERR_MISSING, "%s: is no checkpoint of ours; nothing was removed", folder);
    }
    TRY(file_drop(path_join(a, folder, LAYOUT_MANIFEST)));
    TRY(folder_sync(own));
    TRY(folder_list(a, folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(a, folder, names[i]);

        if (layout_is_folder(names[i]) && file_is_folder(path)) {
            TRY(states_drop(a, path));
        }
    }
    TRY(folder_remove(own));
    return folder_drop_empty(folder);
}

status checkpoint_remove(const char *folder)
{
    struct arena a = { 0 };
    status s = checkpoint_drop(&a, folder);

    arena_release(&a);
    return s;
}
