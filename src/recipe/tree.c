#include "recipe/tree.h"
#include <string.h>
#include "base/text.h"

enum { CLIP_BYTES = 80 };

struct tree *tree_make(struct arena *a, enum tree_kind kind, const struct tree *at)
{
    struct tree *t = arena_take(a, sizeof *t);

    t->kind = kind;
    t->file = at->file;
    t->line = at->line;
    t->column = at->column;
    return t;
}

struct tree *tree_make_text(struct arena *a, const char *text, const struct tree *at)
{
    struct tree *t = tree_make(a, TREE_TEXT, at);

    t->text = arena_text(a, text);
    return t;
}

/* Room for one more entry. */
static void make_room(struct arena *a, struct tree *t)
{
    size_t room = t->room == 0 ? 8 : 2 * t->room;
    struct tree **items;

    if (t->count < t->room) {
        return;
    }
    items = arena_take_array(a, room, sizeof *items);
    if (t->count > 0) {
        memcpy(items, t->items, t->count * sizeof *items);
    }
    t->items = items;
    if (t->kind == TREE_MAP) {
        struct tree **keys = arena_take_array(a, room, sizeof *keys);

        if (t->count > 0) {
            memcpy(keys, t->keys, t->count * sizeof *keys);
        }
        t->keys = keys;
    }
    t->room = room;
}

void tree_add(struct arena *a, struct tree *list, struct tree *item)
{
    check(list->kind == TREE_LIST, "tree_add to something that is no list");
    make_room(a, list);
    list->items[list->count++] = item;
}

void tree_put(struct arena *a, struct tree *map, struct tree *key, struct tree *value)
{
    check(map->kind == TREE_MAP, "tree_put to something that is no map");
    make_room(a, map);
    map->keys[map->count] = key;
    map->items[map->count++] = value;
}

size_t tree_index(const struct tree *map, const char *key)
{
    if (map->kind != TREE_MAP) {
        return map->count;
    }
    for (size_t i = 0; i < map->count; i++) {
        if (map->keys[i]->kind == TREE_TEXT && strcmp(map->keys[i]->text, key) == 0) {
            return i;
        }
    }
    return map->count;
}

struct tree *tree_find(const struct tree *map, const char *key)
{
    size_t i = tree_index(map, key);

    return map->kind == TREE_MAP && i < map->count ? map->items[i] : NULL;
}

const struct tree *tree_at(const struct tree *root, const char *path)
{
    char part[128];

    while (root != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");

        if (root->kind != TREE_MAP || length >= sizeof part) {
            return NULL;
        }
        memcpy(part, path, length);
        part[length] = '\0';
        root = tree_find(root, part);
        path += length + (path[length] == '.');
    }
    return root;
}

const char *tree_clip(struct arena *a, const char *text)
{
    size_t length = strlen(text), end = length < CLIP_BYTES ? length : CLIP_BYTES;
    struct text out = { 0 };
    const char *clipped;

    while (end < length && end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) {
        end--; /* not in the middle of a character */
    }
    for (size_t i = 0; i < end; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '\n') {
            text_add(&out, "\\n");
        } else if (c < 0x20 || c == 0x7f) {
            text_add_format(&out, "\\x%02x", c);
        } else {
            text_add_char(&out, text[i]);
        }
    }
    if (end < length) {
        text_add(&out, "...");
    }
    clipped = arena_text(a, text_of(&out));
    text_release(&out);
    return clipped;
}

const char *tree_describe(struct arena *a, const struct tree *t)
{
    switch (t->kind) {
    case TREE_NULL:
        return "null";
    case TREE_BOOL:
        return t->truth ? "true" : "false";
    case TREE_INT:
        return arena_format(a, "the integer %lld", (long long)t->whole);
    case TREE_FLOAT:
        return arena_format(a, "the float %s", tree_clip(a, t->text));
    case TREE_TEXT:
        return arena_format(a, "the text '%s'", tree_clip(a, t->text));
    case TREE_LIST:
        return "a list";
    case TREE_MAP:
        return "a map";
    }
    return "nothing";
}
