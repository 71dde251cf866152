#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/file.h"
#include "base/system.h"
#include "base/text.h"

status fail_system(const char *path, const char *what, int error)
{
    return fail(error == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s: %s", path, what, strerror(error));
}

status folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    status s;

    if (fd < 0) {
        return fail_system(path, "cannot be opened", errno);
    }
    s = file_sync(fd, path);
    close(fd);
    return s;
}

/* Makes the folder `part`, the beginning of `path`, unless it is there. */
static status make_one(const char *part, const char *path)
{
    int error;

    if (mkdir(part, 0777) == 0) {
        return OK;
    }
    error = errno;
    if (file_is_folder(part)) {
        return OK;
    }
    if (error == EEXIST || error == ENOTDIR) {
        return fail(ERR_IO, "%s: cannot be made: %s is there and is not a folder", path, part);
    }
    return fail(error == ENOENT ? ERR_MISSING : ERR_IO, "%s: cannot be made: %s: %s", path, part,
                strerror(error));
}

status folder_make(const char *path)
{
    struct arena a = { 0 };
    char *part = arena_text(&a, path);
    status s = OK;

    for (char *at = part; *at != '\0'; at++) {
        if (*at == '/' && at > part && at[-1] != '/') {
            *at = '\0';
            TRY_OR(release, s, make_one(part, path));
            *at = '/';
        }
    }
    s = make_one(part, path);
release:
    arena_release(&a);
    return s;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in an open folder, into a growing array that the caller frees. */
static status read_names(struct arena *a, DIR *folder, const char *path, char ***names,
                         size_t *count)
{
    size_t room = 0;

    *names = NULL;
    *count = 0;
    for (;;) {
        struct dirent *entry;

        errno = 0;
        entry = readdir(folder);
        if (entry == NULL) {
            return errno == 0 ? OK : fail_system(path, "cannot be listed", errno);
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (*count == room) {
            room = room > 0 ? room * 2 : 32;
            *names = reallocarray(*names, room, sizeof **names);
            check(*names != NULL, "out of memory: listing %s", path);
        }
        (*names)[(*count)++] = arena_text(a, entry->d_name);
    }
}

status folder_list(struct arena *a, const char *path, char ***names, size_t *count)
{
    DIR *folder = opendir(path);
    char **found;
    status s;

    if (folder == NULL) {
        return fail_system(path, "cannot be listed", errno);
    }
    s = read_names(a, folder, path, &found, count);
    closedir(folder);
    if (s == OK) {
        *names = arena_take_array(a, *count, sizeof **names);
        if (*count > 0) {
            qsort(found, *count, sizeof *found, compare_names);
            memcpy(*names, found, *count * sizeof *found);
        }
    }
    free(found);
    return s;
}

static status remove_entry(int folder, const char *name, const char *path);

/* Removes what the folder `name` in the open folder holds; takes nothing from outside, since no
 * link is followed. */
static status empty_folder(int above, const char *name, const char *path)
{
    struct arena a = { 0 };
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    char **names = NULL;
    size_t count = 0;
    status s;

    if (folder == NULL) {
        int error = errno;

        if (fd >= 0) {
            close(fd);
        }
        return fail_system(path, "cannot be removed", error);
    }
    s = read_names(&a, folder, path, &names, &count);
    for (size_t i = 0; i < count && s == OK; i++) {
        s = remove_entry(fd, names[i], path_join(&a, path, names[i]));
    }
    closedir(folder);
    free(names);
    arena_release(&a);
    return s;
}

/* Fine if somebody else was faster. */
static status remove_entry(int folder, const char *name, const char *path)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) {
        return OK;
    }
    if (errno != EISDIR) {
        return fail_system(path, "cannot be removed", errno);
    }
    TRY(empty_folder(folder, name, path));
    if (unlinkat(folder, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        return fail_system(path, "cannot be removed", errno);
    }
    return OK;
}

status folder_remove(const char *path)
{
    struct arena a = { 0 };
    char *name = arena_text(&a, path);
    size_t length = strlen(name);
    struct stat about;
    status s = OK;

    /* "link/" would mean what the link points to. */
    while (length > 1 && name[length - 1] == '/') {
        name[--length] = '\0';
    }
    if (lstat(name, &about) != 0) {
        s = errno == ENOENT ? OK : fail_system(path, "cannot be removed", errno);
    } else if (!S_ISDIR(about.st_mode) && !S_ISLNK(about.st_mode)) {
        s = fail(ERR_IO, "%s: cannot be removed: it is not a folder", path);
    } else if (strcmp(path_name(name), "") == 0 || text_ends(name, "/..") ||
               strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {
        s = fail(ERR_IO, "%s: cannot be removed: name the folder itself", path);
    } else {
        s = remove_entry(AT_FDCWD, name, path);
    }
    arena_release(&a);
    return s;
}

char *path_join(struct arena *a, const char *folder, const char *name)
{
    if (name[0] == '/' || folder[0] == '\0') {
        return arena_text(a, name);
    }
    return arena_format(a, "%s%s%s", folder, text_ends(folder, "/") ? "" : "/", name);
}

char *path_folder(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return arena_text(a, ".");
    }
    while (slash > path && slash[-1] == '/') {
        slash--;
    }
    return slash == path ? arena_text(a, "/") : arena_text_n(a, path, (size_t)(slash - path));
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

status file_space(const char *path, uint64_t *free_bytes)
{
    struct arena a = { 0 };
    const char *at = path;
    struct statvfs about;
    status s = OK;
    int result;

    while ((result = statvfs(at, &about)) != 0 && errno == ENOENT && strcmp(at, ".") != 0 &&
           strcmp(at, "/") != 0) {
        at = path_folder(&a, at);
    }
    if (result != 0) {
        s = fail_system(path, "its free space cannot be read", errno);
    } else if (__builtin_mul_overflow((uint64_t)about.f_bavail, (uint64_t)about.f_frsize,
                                      free_bytes)) {
        *free_bytes = UINT64_MAX;
    }
    arena_release(&a);
    return s;
}
