/*
 * libyaml's events to a tree.
 *
 * A mistake that leaves the document's shape intact (a duplicate key, an unknown alias, a wrong
 * tag) is noted and reading goes on with a null in its place; one of syntax, or a limit passed,
 * ends it: read_node then gives NULL all the way up.
 */
#include <string.h>
#include <yaml.h>
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "recipe/tree.h"

#define TAG_PREFIX "tag:yaml.org,2002:"

struct reader {
    yaml_parser_t yaml;
    struct arena *a;
    const char *file;
    struct tree_faults *faults;
    struct map anchors; /* name -> node; NULL while the node is still being read */
    size_t values;
};

static void fault_at(struct reader *r, int line, int column, const char *format, ...) FORMAT(4, 5);
static struct tree *read_node(struct reader *r, const yaml_event_t *event, int depth);

static void fault_at(struct reader *r, int line, int column, const char *format, ...)
{
    struct tree_fault fault = { .line = line, .column = column };
    va_list list;
    int to;

    if (r->faults->count == TREE_FAULTS) {
        return;
    }
    va_start(list, format);
    fault.text = arena_format_list(r->a, format, list);
    va_end(list);
    for (to = r->faults->count++; to > 0; to--) {
        const struct tree_fault *before = &r->faults->item[to - 1];

        if (before->line < line || (before->line == line && before->column <= column)) {
            break;
        }
        r->faults->item[to] = *before;
    }
    r->faults->item[to] = fault;
}

static int mark_line(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static int mark_column(const yaml_event_t *event)
{
    return (int)event->start_mark.column + 1;
}

/* Counts a value; false, with a fault, if there are too many of them or it lies too deep. */
static bool take_value(struct reader *r, int line, int column, int depth)
{
    if (depth > TREE_DEPTH) {
        fault_at(r, line, column, "nested more than %d levels deep", TREE_DEPTH);
        return false;
    }
    if (++r->values > TREE_VALUES) {
        fault_at(r, line, column, "more than %d values (aliases and merge keys count as copies)",
                 TREE_VALUES);
        return false;
    }
    return true;
}

static struct tree *make_node(struct reader *r, enum tree_kind kind, const yaml_event_t *event)
{
    struct tree at = { .file = r->file, .line = mark_line(event), .column = mark_column(event) };

    return tree_make(r->a, kind, &at);
}

static void fault_of_syntax(struct reader *r)
{
    const yaml_parser_t *y = &r->yaml;
    int line = (int)y->problem_mark.line + 1, column = (int)y->problem_mark.column + 1;
    const char *problem = y->problem != NULL ? y->problem : "unreadable";
    const char *hint = "";

    check(y->error != YAML_MEMORY_ERROR, "out of memory while reading %s", r->file);
    if (strstr(problem, "cannot start any token") != NULL) {
        hint = "; a tab cannot indent, and text that begins with @ ` % or { needs quotes";
    } else if (strstr(problem, "mapping values are not allowed") != NULL) {
        hint = "; text that contains a colon and a blank needs quotes";
    }
    if (y->context != NULL && (int)y->context_mark.line + 1 != line) {
        fault_at(r, line, column, "not YAML: %s, %s that begins at line %d%s", problem, y->context,
                 (int)y->context_mark.line + 1, hint);
    } else {
        fault_at(r, line, column, "not YAML: %s%s%s%s", problem, y->context != NULL ? ", " : "",
                 y->context != NULL ? y->context : "", hint);
    }
}

static bool next_event(struct reader *r, yaml_event_t *event)
{
    if (r->faults->count == TREE_FAULTS) {
        return false; /* enough is enough */
    }
    if (yaml_parser_parse(&r->yaml, event) == 0) {
        fault_of_syntax(r);
        return false;
    }
    return true;
}

/* A copy of a subtree, counted against the limits; NULL if they are passed. */
static struct tree *copy_node(struct reader *r, const struct tree *from, const struct tree *at,
                              int depth)
{
    struct tree *t;

    if (!take_value(r, at->line, at->column, depth)) {
        return NULL;
    }
    t = tree_make(r->a, from->kind, at);
    t->text = from->text;
    t->whole = from->whole;
    if (from->kind == TREE_FLOAT) {
        t->number = from->number;
    }
    for (size_t i = 0; i < from->count; i++) {
        struct tree *item = copy_node(r, from->items[i], at, depth + 1);

        if (item == NULL) {
            return NULL;
        }
        if (from->kind == TREE_LIST) {
            tree_add(r->a, t, item);
        } else {
            tree_put(r->a, t, from->keys[i], item);
        }
    }
    return t;
}

static struct tree *read_alias(struct reader *r, const yaml_event_t *event, int depth)
{
    struct tree *at = make_node(r, TREE_NULL, event);
    const char *name = (const char *)event->data.alias.anchor;
    void *anchored;

    if (!map_find(&r->anchors, name, &anchored)) {
        fault_at(r, at->line, at->column, "the alias *%s has no anchor &%s before it",
                 tree_clip(r->a, name), tree_clip(r->a, name));
        return at;
    }
    if (anchored == NULL) {
        fault_at(r, at->line, at->column, "the alias *%s stands inside its own anchor",
                 tree_clip(r->a, name));
        return at;
    }
    return copy_node(r, anchored, at, depth);
}

/* Gives `t` the kind that an explicit tag asks for. */
static void apply_tag(struct reader *r, struct tree *t, const char *tag, const char *text)
{
    static const struct {
        const char *name;
        enum tree_kind kind;
    } tags[] = {
        { "str", TREE_TEXT },  { "int", TREE_INT },   { "float", TREE_FLOAT },
        { "bool", TREE_BOOL }, { "null", TREE_NULL },
    };
    const char *name = text_starts(tag, TAG_PREFIX) ? tag + strlen(TAG_PREFIX) : "";

    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (strcmp(name, tags[i].name) != 0) {
            continue;
        }
        if (tags[i].kind == TREE_TEXT) {
            t->text = text;
            t->kind = TREE_TEXT;
            return;
        }
        if (tree_scalar(t, text) && t->kind == TREE_INT && tags[i].kind == TREE_FLOAT) {
            t->number = (double)t->whole;
            t->kind = TREE_FLOAT;
        }
        if (t->kind != tags[i].kind) {
            fault_at(r, t->line, t->column, "the tag !!%s does not fit %s", name,
                     tree_describe(r->a, t));
        }
        return;
    }
    fault_at(r, t->line, t->column, "the tag %s is not known here", tree_clip(r->a, tag));
    t->kind = TREE_NULL;
}

static struct tree *read_scalar(struct reader *r, const yaml_event_t *event)
{
    struct tree *t = make_node(r, TREE_TEXT, event);
    const char *value = (const char *)event->data.scalar.value;
    const char *tag = (const char *)event->data.scalar.tag;
    size_t length = event->data.scalar.length;
    const char *text = arena_text_n(r->a, value, length);

    t->text = text;
    if (memchr(value, '\0', length) != NULL) {
        fault_at(r, t->line, t->column, "a text with a zero byte (\\0) in it");
    } else if (tag != NULL && strcmp(tag, "!") != 0) {
        apply_tag(r, t, tag, text);
    } else if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (strcmp(text, "=") == 0) {
            fault_at(r, t->line, t->column, "a lone = is no value; quote it: '='");
        } else if (!tree_scalar(t, text)) {
            fault_at(r, t->line, t->column,
                     "the integer %s does not fit 64 bits; quote it if it is a text",
                     tree_clip(r->a, text));
        }
    }
    return t;
}

/* "!!map" and "!!seq" say what is so anyway. */
static void check_container_tag(struct reader *r, const yaml_event_t *event, const char *tag,
                                const char *expected)
{
    if (tag != NULL && strcmp(tag, "!") != 0 && strcmp(tag, expected) != 0) {
        fault_at(r, mark_line(event), mark_column(event), "the tag %s is not known here",
                 tree_clip(r->a, tag));
    }
}

static struct tree *read_list(struct reader *r, const yaml_event_t *event, int depth)
{
    struct tree *list = make_node(r, TREE_LIST, event);

    check_container_tag(r, event, (const char *)event->data.sequence_start.tag, TAG_PREFIX "seq");
    for (;;) {
        yaml_event_t next;
        struct tree *item;

        if (!next_event(r, &next)) {
            return NULL;
        }
        if (next.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&next);
            return list;
        }
        item = read_node(r, &next, depth + 1);
        yaml_event_delete(&next);
        if (item == NULL) {
            return NULL;
        }
        tree_add(r->a, list, item);
    }
}

/* A text under which a key is unlike all keys of other kinds. */
static const char *key_identity(struct reader *r, const struct tree *key)
{
    switch (key->kind) {
    case TREE_BOOL:
        return key->truth ? "\1true" : "\1false";
    case TREE_INT:
        return arena_format(r->a, "\1int %lld", (long long)key->whole);
    case TREE_FLOAT:
        return arena_format(r->a, "\1float %a", key->number);
    default:
        return key->text;
    }
}

/* Puts a copy of each entry of `from` that `into` lacks behind the others; what it has already
 * gets the later value. */
static bool merge_map(struct reader *r, struct tree *into, struct map *seen,
                      const struct tree *from, int depth)
{
    for (size_t i = 0; i < from->count; i++) {
        const char *identity = key_identity(r, from->keys[i]);
        void *at;

        if (!take_value(r, from->line, from->column, depth)) {
            return false;
        }
        if (map_find(seen, identity, &at)) {
            into->items[(size_t)(uintptr_t)at] = from->items[i];
            continue;
        }
        map_put(seen, identity, (void *)(uintptr_t)into->count);
        tree_put(r->a, into, from->keys[i], from->items[i]);
    }
    return true;
}

/* The value of a merge key: a map, or a list of maps of which the earlier ones win. */
static bool merge_value(struct reader *r, struct tree *into, struct map *seen,
                        const struct tree *value, int depth)
{
    bool fits = value->kind == TREE_MAP || value->kind == TREE_LIST;

    for (size_t i = 0; value->kind == TREE_LIST && i < value->count; i++) {
        fits = fits && value->items[i]->kind == TREE_MAP;
    }
    if (!fits) {
        fault_at(r, value->line, value->column,
                 "the merge key << takes a map or a list of maps, found %s",
                 tree_describe(r->a, value));
        return true;
    }
    if (value->kind == TREE_MAP) {
        return merge_map(r, into, seen, value, depth);
    }
    for (size_t i = value->count; i > 0; i--) {
        if (!merge_map(r, into, seen, value->items[i - 1], depth)) {
            return false;
        }
    }
    return true;
}

/* The entries as they were written to the map that they mean: duplicates noted, merge keys
 * carried out. */
static struct tree *finish_map(struct reader *r, struct tree *written, const struct tree *is_merge,
                               int depth)
{
    struct tree *map = tree_make(r->a, TREE_MAP, written);
    struct map seen = { 0 }, own = { 0 };
    bool fine = true;

    for (size_t i = 0; fine && i < written->count; i++) {
        if (written->keys[i] == is_merge) {
            fine = merge_value(r, map, &seen, written->items[i], depth);
        }
    }
    for (size_t i = 0; fine && i < written->count; i++) {
        struct tree *key = written->keys[i];
        const char *identity;
        void *at;

        if (key == is_merge) {
            continue;
        }
        identity = key_identity(r, key);
        if (map_find(&own, identity, &at)) {
            const struct tree *first = at;

            fault_at(r, key->line, key->column,
                     "the key %s stands twice in one map, first at line %d; remove one",
                     tree_clip(r->a, key->text), first->line);
            continue;
        }
        map_put(&own, identity, key);
        if (map_find(&seen, identity, &at)) {
            map->keys[(size_t)(uintptr_t)at] = key;
            map->items[(size_t)(uintptr_t)at] = written->items[i];
        } else {
            tree_put(r->a, map, key, written->items[i]);
        }
    }
    map_release(&seen);
    map_release(&own);
    return fine ? map : NULL;
}

/* Reads a key; *merge says that it is the merge key. NULL ends the reading. */
static struct tree *read_key(struct reader *r, const yaml_event_t *event, int depth, bool *merge)
{
    struct tree *key;

    *merge = event->type == YAML_SCALAR_EVENT &&
             event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
             event->data.scalar.tag == NULL && event->data.scalar.plain_implicit != 0 &&
             strcmp((const char *)event->data.scalar.value, "<<") == 0;
    key = read_node(r, event, depth);
    if (key != NULL &&
        (key->kind == TREE_NULL || key->kind == TREE_LIST || key->kind == TREE_MAP)) {
        fault_at(r, key->line, key->column, "a key must be a text, found %s",
                 tree_describe(r->a, key));
        key->kind = TREE_TEXT;
        key->text = arena_format(r->a, "\1fault %d", r->faults->count);
    }
    return key;
}

static struct tree *read_map(struct reader *r, const yaml_event_t *event, int depth)
{
    struct tree *written = make_node(r, TREE_MAP, event);
    struct tree *is_merge = tree_make(r->a, TREE_TEXT, written);

    check_container_tag(r, event, (const char *)event->data.mapping_start.tag, TAG_PREFIX "map");
    for (;;) {
        yaml_event_t next;
        struct tree *key, *value;
        bool merge;

        if (!next_event(r, &next)) {
            return NULL;
        }
        if (next.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&next);
            return finish_map(r, written, is_merge, depth);
        }
        key = read_key(r, &next, depth + 1, &merge);
        yaml_event_delete(&next);
        if (key == NULL || !next_event(r, &next)) {
            return NULL;
        }
        value = read_node(r, &next, depth + 1);
        if (value != NULL && value->kind == TREE_TEXT && next.type == YAML_SCALAR_EVENT &&
            next.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(value->text, "<<") == 0) {
            fault_at(r, value->line, value->column, "<< is no value; quote it: '<<'");
        }
        yaml_event_delete(&next);
        if (value == NULL) {
            return NULL;
        }
        tree_put(r->a, written, merge ? is_merge : key, value);
    }
}

static const char *anchor_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return (const char *)event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return (const char *)event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return (const char *)event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

static struct tree *read_node(struct reader *r, const yaml_event_t *event, int depth)
{
    const char *anchor = anchor_of(event);
    struct tree *t = NULL;

    if (event->type == YAML_ALIAS_EVENT) {
        return read_alias(r, event, depth);
    }
    if (!take_value(r, mark_line(event), mark_column(event), depth)) {
        return NULL;
    }
    if (anchor != NULL) {
        if (map_find(&r->anchors, anchor, NULL)) {
            fault_at(r, mark_line(event), mark_column(event),
                     "the anchor &%s stands twice; rename one", tree_clip(r->a, anchor));
        }
        anchor = arena_text(r->a, anchor);
        map_put(&r->anchors, anchor, NULL);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        t = read_scalar(r, event);
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        t = read_list(r, event, depth);
    } else {
        t = read_map(r, event, depth);
    }
    if (anchor != NULL) {
        map_put(&r->anchors, anchor, t);
    }
    return t;
}

/* The one document between STREAM-START and STREAM-END; NULL with a fault, or without one if
 * there is no document. */
static struct tree *read_stream(struct reader *r)
{
    struct tree *root = NULL;
    yaml_event_t event;

    if (!next_event(r, &event)) {
        return NULL;
    }
    yaml_event_delete(&event); /* STREAM-START */
    if (!next_event(r, &event)) {
        return NULL;
    }
    if (event.type == YAML_STREAM_END_EVENT) {
        yaml_event_delete(&event);
        return NULL;
    }
    yaml_event_delete(&event); /* DOCUMENT-START */
    if (!next_event(r, &event)) {
        return NULL;
    }
    root = read_node(r, &event, 0);
    yaml_event_delete(&event);
    if (root == NULL || !next_event(r, &event)) {
        return NULL;
    }
    yaml_event_delete(&event); /* DOCUMENT-END */
    if (!next_event(r, &event)) {
        return root;
    }
    if (event.type != YAML_STREAM_END_EVENT) {
        fault_at(r, mark_line(&event), mark_column(&event),
                 "a second document begins here; a file holds one");
    }
    yaml_event_delete(&event);
    return root;
}

/* The length of the character at `s`, or 0 if it may not stand in YAML. The text is well-formed
 * UTF-8. */
static size_t character_length(const unsigned char *s)
{
    if (s[0] < 0x80) {
        return s[0] == '\t' || s[0] == '\n' || s[0] == '\r' || (s[0] >= 0x20 && s[0] != 0x7f) ? 1
                                                                                              : 0;
    }
    if (s[0] < 0xe0) {
        return s[0] == 0xc2 && s[1] < 0xa0 && s[1] != 0x85 ? 0 : 2; /* U+0080..U+009F but U+0085 */
    }
    if (s[0] < 0xf0) {
        return s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe ? 0 : 3; /* U+FFFE, U+FFFF */
    }
    return 4;
}

/* Whether the bytes are text that YAML allows; a fault with the place of the first that is not. */
static bool check_characters(struct reader *r, const char *bytes, size_t length)
{
    size_t valid = text_utf8_valid(bytes, length), at = 0, line_start = 0, column = 0;
    int line = 1;

    if (length >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0)) {
        fault_at(r, 0, 0, "this is UTF-16; save it as UTF-8");
        return false;
    }
    while (at < valid) {
        size_t step = character_length((const unsigned char *)bytes + at);

        if (step == 0) {
            break;
        }
        if (bytes[at] == '\n') {
            line++;
            line_start = at + 1;
        }
        at += step;
    }
    if (at == length) {
        return true;
    }
    for (size_t i = line_start; i < at; i++) {
        column += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    }
    if (at == valid || bytes[at] == '\0') {
        fault_at(r, line, (int)column + 1,
                 "not a text file: byte 0x%02x at offset %zu; YAML is text in UTF-8",
                 (unsigned char)bytes[at], at);
    } else {
        fault_at(r, line, (int)column + 1,
                 "a control character (byte 0x%02x), which YAML does not allow",
                 (unsigned char)bytes[at]);
    }
    return false;
}

/* Null and nothing at all are an empty map, a scalar is a mistake. */
static struct tree *settle_root(struct reader *r, struct tree *root)
{
    struct tree top = { .file = r->file, .line = 1, .column = 1 };

    if (root == NULL || root->kind == TREE_NULL) {
        return tree_make(r->a, TREE_MAP, &top);
    }
    if (root->kind != TREE_LIST && root->kind != TREE_MAP) {
        fault_at(r, root->line, root->column, "the file is just %s, a map of keys is needed",
                 tree_describe(r->a, root));
        return tree_make(r->a, TREE_MAP, &top);
    }
    return root;
}

static status faults_fail(const struct tree_faults *faults, const char *name)
{
    const struct tree_fault *first = &faults->item[0];

    if (faults->count == 0) {
        return OK;
    }
    if (first->line == 0) {
        return fail(ERR_RECIPE, "%s: %s", name, first->text);
    }
    return fail(ERR_RECIPE, "%s:%d:%d: %s", name, first->line, first->column, first->text);
}

status tree_parse(struct tree **out, struct tree_faults *faults, struct arena *a, const char *name,
                  const char *bytes, size_t length)
{
    struct reader r = { .a = a, .file = arena_text(a, name), .faults = faults };
    struct tree *root = NULL;

    *out = NULL;
    *faults = (struct tree_faults){ 0 };
    if (length > TREE_FILE_BYTES) {
        fault_at(&r, 0, 0, "%zu bytes are more than the %d MiB that a file may have", length,
                 TREE_FILE_BYTES >> 20);
        return faults_fail(faults, name);
    }
    if (!check_characters(&r, bytes, length)) {
        return faults_fail(faults, name);
    }
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3; /* a byte order mark */
        length -= 3;
    }
    check(yaml_parser_initialize(&r.yaml) != 0, "out of memory for the YAML parser");
    yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)bytes, length);
    root = read_stream(&r);
    if (root != NULL || faults->count == 0) {
        *out = settle_root(&r, root);
    }
    yaml_parser_delete(&r.yaml);
    map_release(&r.anchors);
    return faults_fail(faults, name);
}

status tree_read(struct tree **out, struct tree_faults *faults, struct arena *a, const char *path)
{
    struct arena scratch = { 0 };
    char *bytes = NULL;
    size_t length = 0;
    status s = file_read(&scratch, path, TREE_FILE_BYTES, &bytes, &length);

    if (s == OK) {
        s = tree_parse(out, faults, a, path, bytes, length);
    } else {
        const char *text = fail_text();
        size_t prefix = strlen(path);

        *out = NULL;
        *faults = (struct tree_faults){ .count = 1 };
        if (text_starts(text, path) && text_starts(text + prefix, ": ")) {
            text += prefix + 2;
        }
        faults->item[0].text = arena_text(a, text);
        s = faults_fail(faults, path);
    }
    arena_release(&scratch);
    return s;
}
