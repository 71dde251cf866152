#include "recipe/override.h"
#include <string.h>
#include "base/text.h"

enum verb { CHANGE, ADD, FORCE, REMOVE };

struct override {
    enum verb verb;
    const char *key;   /* without "recipes." */
    const char *value; /* NULL: none was given */
    const char *token;
    struct tree at;
    struct findings *found;
    struct arena *a;
};

/* Letters, digits, - _ $ in parts that are not empty. */
static bool is_path(const char *key)
{
    size_t part = 0;

    for (; *key != '\0'; key++) {
        bool letter = (*key >= 'a' && *key <= 'z') || (*key >= 'A' && *key <= 'Z') ||
                      (*key >= '0' && *key <= '9');

        if (*key == '.') {
            if (part == 0) {
                return false;
            }
            part = 0;
        } else if (letter || *key == '_' || *key == '-' || *key == '$') {
            part++;
        } else {
            return false;
        }
    }
    return part > 0;
}

static bool parse_token(struct override *o)
{
    const char *key = o->token, *equals;

    if (text_starts(key, "++")) {
        o->verb = FORCE;
    } else if (*key == '+') {
        o->verb = ADD;
    } else if (*key == '~') {
        o->verb = REMOVE;
    }
    key += o->verb == FORCE ? 2 : o->verb == CHANGE ? 0 : 1;
    equals = strchr(key, '=');
    if (equals == NULL && o->verb != REMOVE) {
        findings_add(o->found, FINDING_ERROR, &o->at, NULL,
                     "'%s' is no override: key=value, +key=value, ++key=value or ~key",
                     tree_clip(o->a, o->token));
        return false;
    }
    o->key = equals == NULL ? key : arena_text_n(o->a, key, (size_t)(equals - key));
    o->value = equals == NULL ? NULL : equals + 1;
    if (text_starts(o->key, "recipes.")) {
        o->key += strlen("recipes.");
    }
    if (!is_path(o->key)) {
        findings_add(
            o->found, FINDING_ERROR, &o->at, NULL,
            "'%s' in '%s' is no key: names joined by points, such as model.optim.lr%s",
            tree_clip(o->a, o->key), tree_clip(o->a, o->token),
            strpbrk(o->key, "@/") != NULL ? "; composition of several files is not built yet" : "");
        return false;
    }
    return true;
}

static struct tree *key_node(struct override *o, const char *name, size_t length)
{
    struct tree *key = tree_make(o->a, TREE_TEXT, &o->at);

    key->text = arena_text_n(o->a, name, length);
    return key;
}

/*
 * The map that holds the last part of the key, made where it is missing and `make` says so. *last
 * is that part. NULL if there is none; then, for a part that is neither map nor null, with a
 * finding.
 */
static struct tree *walk(struct override *o, struct tree *root, bool make, const char **last)
{
    struct tree *map = root;
    const char *part = o->key;

    for (const char *dot = strchr(part, '.'); dot != NULL;
         part = dot + 1, dot = strchr(part, '.')) {
        struct tree *name = key_node(o, part, (size_t)(dot - part));
        size_t i = tree_index(map, name->text);
        struct tree *child = i < map->count ? map->items[i] : NULL;

        if (child == NULL || child->kind == TREE_NULL) {
            if (!make) {
                return NULL;
            }
            child = tree_make(o->a, TREE_MAP, &o->at);
            if (i < map->count) {
                map->items[i] = child;
            } else {
                tree_put(o->a, map, name, child);
            }
        } else if (child->kind != TREE_MAP) {
            findings_add(o->found, FINDING_ERROR, &o->at, o->key,
                         "%s: %.*s is %s, so nothing lies below it", tree_clip(o->a, o->key),
                         (int)(dot - o->key), o->key, tree_describe(o->a, child));
            return NULL;
        }
        map = child;
    }
    *last = part;
    return map;
}

/* A map onto a map, key by key; the nodes of `from` move. */
static void merge(struct arena *a, struct tree *into, const struct tree *from)
{
    for (size_t i = 0; i < from->count; i++) {
        size_t at =
            from->keys[i]->kind == TREE_TEXT ? tree_index(into, from->keys[i]->text) : into->count;

        if (at == into->count) {
            tree_put(a, into, from->keys[i], from->items[i]);
        } else if (into->items[at]->kind == TREE_MAP && from->items[i]->kind == TREE_MAP) {
            merge(a, into->items[at], from->items[i]);
        } else {
            into->items[at] = from->items[i];
            into->keys[at] = from->keys[i];
        }
    }
}

/* The token for a message, without the value of a secret. */
static const char *shown(const struct override *o)
{
    return tree_key_is_secret(o->key) ? o->key : tree_clip(o->a, o->token);
}

static void set(struct override *o, struct tree *root)
{
    const char *problem = NULL, *last = NULL;
    struct tree *value = override_value(o->a, o->value, &o->at, &problem);
    struct tree *map;
    size_t i;

    if (value == NULL) {
        findings_add(o->found, FINDING_ERROR, &o->at, o->key, "'%s': %s", shown(o), problem);
        return;
    }
    map = walk(o, root, true, &last);
    if (map == NULL) {
        return;
    }
    i = tree_index(map, last);
    if (i == map->count) {
        tree_put(o->a, map, key_node(o, last, strlen(last)), value);
    } else if (value->kind == TREE_MAP && map->items[i]->kind == TREE_MAP) {
        merge(o->a, map->items[i], value);
    } else if (o->verb == ADD && map->items[i]->kind != TREE_NULL && value->kind != TREE_LIST &&
               value->kind != TREE_MAP) {
        findings_add(o->found, FINDING_ERROR, &o->at, o->key,
                     "%s is there already (%s line %d); change it with %s=... or ++%s=...", o->key,
                     map->items[i]->file, map->items[i]->line, o->key, o->key);
    } else {
        map->items[i] = value;
        map->keys[i] = key_node(o, last, strlen(last));
    }
}

static bool same_value(const struct tree *a, const struct tree *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case TREE_BOOL:
        return a->truth == b->truth;
    case TREE_INT:
        return a->whole == b->whole;
    case TREE_FLOAT:
        return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case TREE_TEXT:
        return strcmp(a->text, b->text) == 0;
    default:
        break;
    }
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if ((a->kind == TREE_MAP && !same_value(a->keys[i], b->keys[i])) ||
            !same_value(a->items[i], b->items[i])) {
            return false;
        }
    }
    return true;
}

static void remove_key(struct override *o, struct tree *root)
{
    const char *problem = NULL, *last = NULL;
    int before = o->found->count;
    struct tree *map = walk(o, root, false, &last);
    size_t i = map != NULL ? tree_index(map, last) : 0;

    if (map == NULL || i == map->count || map->items[i]->kind == TREE_NULL) {
        if (o->found->count == before) {
            findings_add(o->found, FINDING_ERROR, &o->at, o->key,
                         "%s cannot be removed: it is not there", tree_clip(o->a, o->key));
        }
        return;
    }
    if (o->value != NULL) {
        struct tree *value = override_value(o->a, o->value, &o->at, &problem);

        if (value == NULL) {
            findings_add(o->found, FINDING_ERROR, &o->at, o->key, "'%s': %s", shown(o), problem);
            return;
        }
        if (!same_value(value, map->items[i])) {
            findings_add(o->found, FINDING_ERROR, &o->at, o->key,
                         "%s is not removed: it is %s, not %s", o->key,
                         tree_key_is_secret(o->key) ? "something else"
                                                    : tree_describe(o->a, map->items[i]),
                         tree_key_is_secret(o->key) ? "this" : tree_describe(o->a, value));
            return;
        }
    }
    memmove(&map->keys[i], &map->keys[i + 1], (map->count - i - 1) * sizeof map->keys[0]);
    memmove(&map->items[i], &map->items[i + 1], (map->count - i - 1) * sizeof map->items[0]);
    map->count--;
}

void override_apply(struct tree *root, const char *token, int number, struct findings *found,
                    struct arena *a)
{
    struct override o = { .token = token, .found = found, .a = a };

    o.at.file = arena_format(a, "override %d", number);
    if (!parse_token(&o)) {
        return;
    }
    if (o.verb == REMOVE) {
        remove_key(&o, root);
    } else {
        set(&o, root);
    }
}
