/* Exports: whose a folder is, and how a new one takes the place of an older one. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/text.h"
#include "model/export.h"

#define MARK_FOLDER ".roux"
#define MARK ".roux/export.json"
#define MARK_FORMAT "roux export"

enum { MARK_VERSION = 1, MARK_LIMIT = 16 << 20 };

status export_folder_name(struct arena *a, const char *folder, const char **target)
{
    char *name = arena_text(a, folder);
    size_t length = strlen(name);
    char *real;

    if (file_is_there(folder)) {
        real = realpath(folder, NULL);
        if (real == NULL) {
            return fail(ERR_IO, "%s: %s", folder, strerror(errno));
        }
        *target = arena_text(a, real);
        free(real);
        return OK;
    }
    while (length > 1 && name[length - 1] == '/') {
        name[--length] = '\0';
    }
    if (length == 0 || strcmp(path_name(name), ".") == 0 || strcmp(path_name(name), "..") == 0) {
        return fail(ERR_RECIPE, "\"%s\" is no name for an export's folder", folder);
    }
    *target = name;
    return folder_make(path_folder(a, name));
}

/* ---- the mark ---- */

/* The names that the folder's mark lists, as keys. False if there is none that we understand. */
static bool mark_read(struct arena *a, const char *folder, struct map *files)
{
    const char *path = path_join(a, folder, MARK);
    char *bytes;
    size_t length, i;
    json_t *root, *list, *name;
    bool ours;

    if (!file_is_there(path) || file_read(a, path, MARK_LIMIT, &bytes, &length) != OK) {
        return false;
    }
    root = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, NULL);
    list = json_object_get(root, "files");
    ours = json_is_string(json_object_get(root, "format")) &&
           strcmp(json_string_value(json_object_get(root, "format")), MARK_FORMAT) == 0 &&
           json_integer_value(json_object_get(root, "version")) == MARK_VERSION &&
           json_is_array(list);
    json_array_foreach(list, i, name)
    {
        if (ours && json_is_string(name)) {
            map_put(files, arena_text(a, json_string_value(name)), NULL);
        }
    }
    json_decref(root);
    return ours;
}

static status mark_write(struct arena *a, const char *folder, const char *const *files,
                         int file_count)
{
    struct text t = { 0 };
    status s;

    text_add_format(&t, "{\n  \"format\": \"" MARK_FORMAT "\",\n  \"version\": %d,\n  \"files\": [",
                    MARK_VERSION);
    for (int i = 0; i < file_count; i++) {
        text_add_format(&t, "%s\n    \"%s\"", i == 0 ? "" : ",", files[i]);
    }
    text_add(&t, "\n  ]\n}\n");
    s = file_replace(path_join(a, folder, MARK), t.data, t.length);
    text_release(&t);
    return s;
}

static bool is_weights(const char *name)
{
    return text_ends(name, ".safetensors") || text_ends(name, ".safetensors.index.json");
}

/* A folder that is ours, or that holds nothing but the beginning of our mark. */
static bool is_ours(struct arena *a, const char *folder)
{
    struct map files = { 0 };
    bool marked = mark_read(a, folder, &files);
    char **names;
    size_t count;

    map_release(&files);
    if (marked) {
        return true;
    }
    if (folder_list(a, folder, &names, &count) != OK) {
        return false;
    }
    return count == 0 || (count == 1 && strcmp(names[0], MARK_FOLDER) == 0);
}

/* ---- before ---- */

/* A folder on which a disk is mounted cannot be renamed; better to know it before anything is
 * written. */
static status mount_check(struct arena *a, const char *target)
{
    struct stat here, above;

    if (stat(target, &here) != 0 || stat(path_folder(a, target), &above) != 0) {
        return fail(ERR_IO, "%s: %s", target, strerror(errno));
    }
    if (here.st_dev != above.st_dev) {
        return fail(ERR_RECIPE,
                    "%s: a disk is mounted there, so an export cannot take its place; "
                    "name a folder inside it",
                    target);
    }
    return OK;
}

static status others_check(const char *target, char *const *names, size_t count,
                           const struct map *ours)
{
    for (size_t i = 0; i < count; i++) {
        if (is_weights(names[i]) && !map_find(ours, names[i], NULL)) {
            return fail(ERR_RECIPE,
                        "%s: is an older export, but holds %s, which is none of its files; move "
                        "that away or name another folder",
                        target, names[i]);
        }
    }
    return OK;
}

status export_folder_check(struct arena *a, const char *target)
{
    struct map ours = { 0 };
    char **names;
    size_t count;
    status s;

    if (!file_is_there(target)) {
        return OK;
    }
    if (!file_is_folder(target)) {
        return fail(ERR_RECIPE, "%s: is a file; an export is a folder", target);
    }
    TRY(mount_check(a, target));
    TRY(folder_list(a, target, &names, &count));
    if (count == 0) {
        return OK;
    }
    if (mark_read(a, target, &ours)) {
        s = others_check(target, names, count, &ours);
    } else {
        s = fail(ERR_RECIPE,
                 "%s: is there and was not exported by roux (it holds %s%s), so it is not "
                 "replaced; move it away or name another folder",
                 target, names[0], count > 1 ? " and more" : "");
    }
    map_release(&ours);
    return s;
}

/* Removes what an earlier run left under a name that is made from ours. */
static status remove_leftover(struct arena *a, const char *folder)
{
    if (!file_is_there(folder)) {
        return OK;
    }
    if (!file_is_folder(folder) || !is_ours(a, folder)) {
        return fail(ERR_RECIPE,
                    "%s: is there and was not made by roux; an export needs this name for a "
                    "while, so move it away",
                    folder);
    }
    return folder_remove(folder);
}

status export_folder_make(struct arena *a, const char *writing, const char *const *files,
                          int file_count)
{
    TRY(remove_leftover(a, writing));
    TRY(folder_make(path_join(a, writing, MARK_FOLDER)));
    return mark_write(a, writing, files, file_count);
}

/* ---- after ---- */

static status move(const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        return fail(ERR_IO, "%s: renaming %s to it: %s", to, from, strerror(errno));
    }
    return OK;
}

/* Moves what others laid into the older export, such as a tokenizer, then removes the rest. */
static status settle(struct arena *a, const char *older, const char *target)
{
    struct map ours = { 0 };
    char **names;
    size_t count;
    status s = OK;

    TRY(folder_list(a, older, &names, &count));
    (void)!mark_read(a, older, &ours);
    for (size_t i = 0; i < count; i++) {
        const char *to = path_join(a, target, names[i]);

        if (!map_find(&ours, names[i], NULL) && strcmp(names[i], MARK_FOLDER) != 0 &&
            !file_is_there(to)) {
            TRY_OR(release, s, move(path_join(a, older, names[i]), to));
        }
    }
    TRY_OR(release, s, folder_sync(target));
    s = folder_remove(older);
release:
    map_release(&ours);
    return s;
}

/* An older export whose place another one took already, before a run was stopped. */
static status settle_leftover(struct arena *a, const char *older, const char *target)
{
    if (file_is_folder(older) && is_ours(a, older)) {
        return settle(a, older, target);
    }
    return remove_leftover(a, older);
}

status export_folder_publish(struct arena *a, const char *writing, const char *target)
{
    const char *above = path_folder(a, target);
    const char *older = arena_format(a, "%s.replaced", target);
    bool replaces = file_is_there(target);

    TRY(export_folder_check(a, target));
    if (replaces) {
        TRY(settle_leftover(a, older, target));
        TRY(move(target, older));
    }
    if (rename(writing, target) != 0) {
        int error = errno;

        if (replaces && rename(older, target) != 0) {
            log_warning("%s: the older export could not be put back; it is %s", target, older);
        }
        return fail(ERR_IO, "%s: renaming %s to it: %s", target, writing, strerror(error));
    }
    TRY(folder_sync(above));
    /* The new export stands: a failure from here on is worth a word, not the loss of it. */
    if (file_is_folder(older) && is_ours(a, older) && settle(a, older, target) != OK) {
        log_warning("%s: is replaced; what is left of the older export is %s: %s", target, older,
                    fail_text());
    }
    return OK;
}
