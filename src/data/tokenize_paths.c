/*
 * Nothing of the user's is touched before everything is written, and only a folder that holds
 * nothing but our own files is replaced.
 */
#include "data/tokenize_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

struct input_list {
    struct arena *arena;
    struct tokenize_input *items;
    int64_t count, room;
};

static status add_input(struct input_list *l, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return fail(errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return fail(ERR_FORMAT, "%s: is no regular file", path);
    }
    if (access(path, R_OK) != 0) {
        return fail(ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (st.st_size == 0) {
        return fail(ERR_FORMAT, "%s: is empty; leave it out", path);
    }
    if (l->count == l->room) {
        struct tokenize_input *more;

        l->room = l->room == 0 ? 64 : 2 * l->room;
        more = arena_take_array(l->arena, (size_t)l->room, sizeof *more);
        if (l->count > 0) {
            memcpy(more, l->items, (size_t)l->count * sizeof *more);
        }
        l->items = more;
    }
    l->items[l->count++] = (struct tokenize_input){ .path = path, .size = (uint64_t)st.st_size };
    return OK;
}

static status add_folder(struct input_list *l, const char *folder)
{
    int64_t before = l->count;
    char **names;
    size_t count;

    TRY(folder_list(l->arena, folder, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *path = path_join(l->arena, folder, names[i]);

        if (!file_is_folder(path)) {
            TRY(add_input(l, path));
        }
    }
    return l->count > before ? OK : fail(ERR_MISSING, "%s: holds no file", folder);
}

status tokenize_list_inputs(struct arena *a, const struct tokenize_options *o,
                            struct tokenize_input **inputs, int64_t *count)
{
    struct input_list list = { .arena = a };

    for (int i = 0; i < o->input_count; i++) {
        const char *path = arena_text(a, o->inputs[i]);

        TRY(file_is_folder(path) ? add_folder(&list, path) : add_input(&list, path));
    }
    *inputs = list.items;
    *count = list.count;
    return OK;
}

/* The path without links, "." and "..", as far as it exists; what does not exist yet is kept
 * behind it. */
static char *whole_path(struct arena *a, const char *path)
{
    char *real = realpath(path, NULL), *copy;
    const char *folder;

    if (real != NULL) {
        copy = arena_text(a, real);
        free(real);
        return copy;
    }
    folder = path_folder(a, path);
    if (strcmp(folder, path) == 0 || *path_name(path) == '\0') {
        return arena_text(a, path);
    }
    return path_join(a, whole_path(a, folder), path_name(path));
}

static bool is_within(const char *inner, const char *outer)
{
    size_t length = strlen(outer);

    return strncmp(inner, outer, length) == 0 &&
           (inner[length] == '\0' || inner[length] == '/' || strcmp(outer, "/") == 0);
}

static bool is_rows_file(const char *name)
{
    static const char digits[] = "0123456789";

    return strlen(name) == 15 && text_starts(name, "rows-") && strspn(name + 5, digits) == 5 &&
           strcmp(name + 10, ".json") == 0;
}

/* Holds `folder` nothing but entries that `is_ours`? Else `stranger` is one that is not. */
static status check_ours(struct arena *a, const char *folder, bool is_out, const char **stranger)
{
    char **names;
    size_t count;

    TRY(folder_list(a, folder, &names, &count));
    for (size_t i = 0; i < count && *stranger == NULL; i++) {
        char *path = path_join(a, folder, names[i]);
        bool is_folder = file_is_folder(path);

        if (is_out && is_folder &&
            (strcmp(names[i], "train") == 0 || strcmp(names[i], "val") == 0)) {
            TRY(check_ours(a, path, false, stranger));
        } else if (is_out || is_folder || !is_rows_file(names[i])) {
            *stranger = path;
        }
    }
    return OK;
}

static status check_replaceable(struct arena *a, const struct tokenize_options *o)
{
    const char *stranger = NULL;
    char **names;
    size_t count;

    if (!file_is_folder(o->out)) {
        return fail(ERR_RECIPE, "%s: is there and no folder; choose another name", o->out);
    }
    TRY(folder_list(a, o->out, &names, &count));
    if (count == 0) {
        return OK;
    }
    if (!o->force) {
        return fail(ERR_RECIPE,
                    "%s: is there already; choose another name, or --force to replace it", o->out);
    }
    TRY(check_ours(a, o->out, true, &stranger));
    if (stranger != NULL) {
        return fail(ERR_RECIPE,
                    "%s: was not made by tokenizing, so %s is not replaced; choose another name",
                    stranger, o->out);
    }
    return OK;
}

status tokenize_check_out(struct arena *a, const struct tokenize_options *o)
{
    const char *out;

    if (o->out == NULL || *o->out == '\0') {
        return fail(ERR_RECIPE, "no folder for the rows is given");
    }
    out = whole_path(a, o->out);
    if (strstr(out, "/../") != NULL) {
        return fail(ERR_RECIPE,
                    "%s: goes up (..) from a folder that is not there; name it directly", o->out);
    }
    for (int i = 0; i < o->input_count; i++) {
        const char *input = whole_path(a, o->inputs[i]);

        if (is_within(out, input)) {
            return fail(ERR_RECIPE, "%s: lies in the input %s; choose a folder outside of it",
                        o->out, o->inputs[i]);
        }
        if (is_within(input, out)) {
            return fail(ERR_RECIPE, "%s: the input %s lies in it; choose another folder", o->out,
                        o->inputs[i]);
        }
    }
    return file_is_there(o->out) ? check_replaceable(a, o) : OK;
}

/* `out` without slashes at its end, for names beside it. */
static char *bare_path(struct arena *a, const char *out)
{
    size_t length = strlen(out);

    while (length > 1 && out[length - 1] == '/') {
        length--;
    }
    return arena_text_n(a, out, length);
}

/* A free name beside `out`. */
static char *beside(struct arena *a, const char *out, const char *word)
{
    for (int number = 0;; number++) {
        char *path =
            arena_format(a, "%s.%s-%ld-%d", bare_path(a, out), word, (long)getpid(), number);

        if (!file_is_there(path)) {
            return path;
        }
    }
}

status tokenize_make_partial(struct arena *a, const char *out, const char **partial)
{
    *partial = NULL;
    TRY(folder_make(path_folder(a, bare_path(a, out))));
    for (;;) {
        const char *path = beside(a, out, "partial");

        if (mkdir(path, 0777) == 0) {
            *partial = path;
            return OK;
        }
        if (errno != EEXIST) {
            return fail(ERR_IO, "%s: %s", path, strerror(errno));
        }
    }
}

status tokenize_publish(struct arena *a, const char *partial, const char *out)
{
    const char *name = bare_path(a, out), *old = NULL;

    if (file_is_there(name)) {
        old = beside(a, out, "replaced");
        if (rename(name, old) != 0) {
            return fail(ERR_IO, "%s: renaming it to %s: %s", name, old, strerror(errno));
        }
    }
    if (rename(partial, name) != 0) {
        int code = errno;

        if (old != NULL && rename(old, name) != 0) {
            log_error("%s: what stood there is now %s: %s", name, old, strerror(errno));
        }
        return fail(ERR_IO, "%s: renaming %s to it: %s", name, partial, strerror(code));
    }
    TRY(folder_sync(path_folder(a, name)));
    return old == NULL ? OK : folder_remove(old);
}

void tokenize_discard(const char *partial)
{
    char *text = strdup(fail_text());

    check(text != NULL, "no memory for an error text");
    if (folder_remove(partial) != OK) {
        log_warning("%s", fail_text());
    }
    (void)!fail(ERR_IO, "%s", text);
    free(text);
}
