/*
 * A model folder: one file, or several with an index.
 *
 *   model.safetensors                                    one file; wins where both stand
 *   model.safetensors.index.json                         {"metadata": {...}, "weight_map": {tensor: file, ...}}
 *   model-00001-of-00002.safetensors, ...                the files it names, directly in the folder
 *
 * The index decides: a tensor of a file that it does not list is not seen.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "store/json_scan.h"
#include "store/tensor_header.h"

enum { INDEX_LIMIT = 100000000 };

/* What the functions of one opening pass on. */
struct opening {
    struct tensor_folder *folder;
    struct arena *arena;
    const char *path, *index_path;
    struct json_scan scan;
    struct map file_numbers; /* file name -> its number + 1, kept in the pointer */
    size_t file_room;
    bool has_map;
};

static status index_wrong(const struct opening *o, const char *what)
{
    char found[JSON_FOUND];

    return fail(ERR_FORMAT, "%s: byte %zu, %s: %s (found: %s)", o->index_path,
                (size_t)(o->scan.at - o->scan.begin), what, o->scan.problem,
                json_found(&o->scan, found));
}

/* Opens the file of the weight map unless it is open. The files array moves, so entries are
 * bound at the end. */
static status open_file(struct opening *o, const char *tensor, const char *name, size_t *number)
{
    struct tensor_folder *f = o->folder;
    char shown[SHOWN_NAME], file_shown[SHOWN_NAME];
    void *known = NULL;
    status s;

    if (map_find(&o->file_numbers, name, &known)) {
        *number = (size_t)(uintptr_t)known - 1;
        return OK;
    }
    if (*name == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        return fail(
            ERR_FORMAT,
            "%s: tensor \"%s\" should be in \"%s\": only files directly in the folder are allowed",
            o->index_path, tensor_name_shown(tensor, shown), tensor_name_shown(name, file_shown));
    }
    if (f->file_count == o->file_room) {
        o->file_room = o->file_room == 0 ? 8 : 2 * o->file_room;
        f->files = reallocarray(f->files, o->file_room, sizeof *f->files);
        check(f->files != NULL, "no memory for %zu files", o->file_room);
    }
    s = tensor_file_open(&f->files[f->file_count], o->arena, path_join(o->arena, o->path, name));
    if (s != OK) {
        return fail_while(s, "opening the file in which %s puts tensor \"%s\"", o->index_path,
                          tensor_name_shown(tensor, shown));
    }
    *number = f->file_count++;
    map_put(&o->file_numbers, name, (void *)(uintptr_t)(*number + 1));
    return OK;
}

static status read_weight_map(struct opening *o)
{
    struct tensor_folder *f = o->folder;
    struct json_scan *s = &o->scan;
    char shown[SHOWN_NAME];
    size_t seen = 0;

    if (!json_open(s, '{')) {
        return index_wrong(o, "weight_map");
    }
    for (; json_more(s, '}', seen); seen++) {
        struct json_string key_text, file_text;
        const char *tensor, *name;
        void *found = NULL;
        struct tensor_entry *entry;
        size_t number = 0;

        if (!json_key(s, &key_text) || !json_text(s, &file_text)) {
            return index_wrong(o, "weight_map (tensor names to file names)");
        }
        tensor = json_string_make(o->arena, &key_text);
        name = json_string_make(o->arena, &file_text);
        if (tensor == NULL || name == NULL) {
            return fail(ERR_FORMAT, "%s: a name holds the character U+0000", o->index_path);
        }
        if (map_find(&f->by_name, tensor, NULL)) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\" stands twice", o->index_path,
                        tensor_name_shown(tensor, shown));
        }
        TRY(open_file(o, tensor, name, &number));
        if (!map_find(&f->files[number].by_name, tensor, &found)) {
            return fail(ERR_FORMAT, "%s: tensor \"%s\" should be in %s, which does not hold it",
                        o->index_path, tensor_name_shown(tensor, shown), f->files[number].path);
        }
        entry = found;
        entry->file = (int)number;
        map_put(&f->by_name, tensor, entry);
    }
    return s->problem == NULL ? OK : index_wrong(o, "weight_map");
}

static status read_index(struct opening *o)
{
    struct json_scan *s = &o->scan;
    size_t seen = 0;

    if (!json_open(s, '{')) {
        return index_wrong(o, "the index");
    }
    for (; json_more(s, '}', seen); seen++) {
        struct json_string key;

        if (!json_key(s, &key)) {
            return index_wrong(o, "the index");
        }
        if (!json_string_is(&key, "weight_map")) {
            if (!json_skip(s)) {
                return index_wrong(o, "the index");
            }
            continue;
        }
        if (o->has_map) {
            return fail(ERR_FORMAT, "%s: weight_map stands twice", o->index_path);
        }
        o->has_map = true;
        TRY(read_weight_map(o));
    }
    if (s->problem != NULL || !json_end(s)) {
        return index_wrong(o, "the index");
    }
    return o->has_map ? OK : fail(ERR_FORMAT, "%s: weight_map is missing", o->index_path);
}

static status open_single(struct tensor_folder *f, struct arena *a, const char *path)
{
    f->files = calloc(1, sizeof *f->files);
    check(f->files != NULL, "no memory for one file");
    TRY(tensor_file_open(&f->files[0], a, path));
    f->file_count = 1;
    for (size_t i = 0; i < f->files[0].count; i++) {
        map_put(&f->by_name, f->files[0].entries[i].name, &f->files[0].entries[i]);
    }
    return OK;
}

static status open_indexed(struct tensor_folder *f, struct arena *a, const char *folder,
                           const char *index_path)
{
    struct opening o = { .folder = f, .arena = a, .path = folder, .index_path = index_path };
    char *text;
    size_t length;
    status s;

    TRY(file_read(a, index_path, INDEX_LIMIT, &text, &length));
    json_scan_init(&o.scan, text, length);
    s = read_index(&o);
    map_release(&o.file_numbers);
    return s;
}

status tensor_folder_open(struct tensor_folder *f, struct arena *a, const char *folder)
{
    const char *single = path_join(a, folder, "model.safetensors");
    const char *index = path_join(a, folder, "model.safetensors.index.json");
    status s;

    *f = (struct tensor_folder){ 0 };
    if (!file_is_there(folder)) {
        return fail(ERR_MISSING, "%s: there is no such folder", folder);
    }
    if (file_is_there(single)) {
        s = open_single(f, a, single);
    } else if (file_is_there(index)) {
        s = open_indexed(f, a, folder, index);
    } else {
        s = fail(ERR_MISSING,
                 "%s: holds neither model.safetensors nor model.safetensors.index.json%s", folder,
                 file_is_there(path_join(a, folder, "pytorch_model.bin"))
                     ? "; pytorch_model.bin is not read here: save the model as safetensors"
                     : "");
    }
    if (s != OK) {
        tensor_folder_close(f);
    }
    return s;
}

void tensor_folder_close(struct tensor_folder *f)
{
    for (size_t i = 0; i < f->file_count; i++) {
        tensor_file_close(&f->files[i]);
    }
    free(f->files);
    map_release(&f->by_name);
    *f = (struct tensor_folder){ 0 };
}

const struct tensor_entry *tensor_folder_find(const struct tensor_folder *f, const char *name)
{
    void *entry = NULL;

    return map_find(&f->by_name, name, &entry) ? entry : NULL;
}

status tensor_folder_read(const struct tensor_folder *f, const struct tensor_entry *e, int64_t from,
                          int64_t count, enum dtype to, void *out)
{
    check(e->file >= 0 && (size_t)e->file < f->file_count, "entry %s is of another folder",
          e->name);
    return tensor_file_read(&f->files[e->file], e, from, count, to, out);
}
