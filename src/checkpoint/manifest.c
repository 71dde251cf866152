#include "checkpoint/manifest.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/field.h"

#define MANIFEST_FORMAT "roux checkpoint"
#define LINE_BEGIN "{\"digest\": \""
#define LINE_END "\",\n"

enum {
    MANIFEST_VERSION = 1,
    MANIFEST_LIMIT = 256 << 20,
    LINE_LENGTH = sizeof LINE_BEGIN - 1 + DIGEST_TEXT - 1 + sizeof LINE_END - 1
};

static status json_put_text(json_t *object, const char *key, const char *text)
{
    if (text_utf8_valid(text, strlen(text)) != strlen(text)) {
        return fail(ERR_RECIPE, "the %s is not UTF-8, so it cannot stand in a checkpoint", key);
    }
    field_put(object, key, json_string(text));
    return OK;
}

static json_t *json_degrees(const int size[AXIS_COUNT])
{
    json_t *object = json_object();

    for (int i = 0; i < AXIS_COUNT; i++) {
        field_put(object, axis_name((enum axis)i), json_integer(size[i]));
    }
    return object;
}

static json_t *json_tables(const struct manifest *m)
{
    json_t *array = json_array();
    struct arena a = { 0 };

    for (int w = 0; w < layout_writers(m->size); w++) {
        json_t *object = json_object();
        char text[DIGEST_TEXT];

        field_put(object, "name", json_string(layout_table(&a, layout_cell(m->size, w))));
        field_put(object, "bytes", json_integer((json_int_t)m->tables[w].bytes));
        field_put(object, "digest", json_string(digest_text(m->tables[w].digest, text)));
        json_array_append_new(array, object);
    }
    arena_release(&a);
    return array;
}

static status manifest_fill(json_t *object, const struct manifest *m)
{
    field_put(object, "format", json_string(MANIFEST_FORMAT));
    field_put(object, "version", json_integer(MANIFEST_VERSION));
    field_put(object, "step", json_integer(m->step));
    field_put(object, "written_ns", json_integer(m->written_ns));
    field_put(object, "degrees", json_degrees(m->size));
    TRY(json_put_text(object, "state", m->state));
    field_put(object, "tables", json_tables(m));
    TRY(json_put_text(object, "family", m->family));
    return json_put_text(object, "recipe", m->recipe);
}

static status state_check(const char *state, const char *path)
{
    json_t *object = NULL;

    TRY(fail_while(field_parse(path, state, strlen(state), &object),
                   "reading the member \"state\""));
    json_decref(object);
    return OK;
}

/* `body` begins with the brace that the first line replaces. */
static status manifest_put(const char *body, const char *path)
{
    struct text all = { 0 };
    char hex[DIGEST_TEXT];
    status s;

    text_add_format(&all, LINE_BEGIN "%s" LINE_END "%s",
                    digest_text(digest_of(body + 1, strlen(body + 1)), hex), body + 1);
    s = file_replace(path, all.data, all.length);
    text_release(&all);
    return s;
}

status manifest_write(const struct manifest *m, const char *folder)
{
    struct arena a = { 0 };
    json_t *object = json_object();
    char *body = NULL;
    status s = OK;

    check(state_check(m->state, folder) == OK, "the state of a checkpoint: %s", fail_text());
    TRY_OR(release, s, manifest_fill(object, m));
    body = json_dumps(object, JSON_COMPACT);
    check(body, "%s: no memory for the manifest", folder);
    s = manifest_put(body, path_join(&a, folder, LAYOUT_MANIFEST));
    free(body);
release:
    json_decref(object);
    arena_release(&a);
    return s;
}

static status degrees_parse(int size[AXIS_COUNT], const char *path, const json_t *object)
{
    json_t *degrees;
    int64_t ranks = 1, number;

    TRY(field_object(path, object, "degrees", &degrees));
    for (int i = 0; i < AXIS_COUNT; i++) {
        TRY(field_integer(path, degrees, axis_name((enum axis)i), 1, 1 << 20, &number));
        ranks *= number;
        if (ranks > 1 << 24) {
            return fail(ERR_FORMAT, "%s: the degrees multiply to more than %d ranks", path,
                        1 << 24);
        }
        size[i] = (int)number;
    }
    return OK;
}

/* Names follow from the degrees; they stand in the file for its readers, and must be those. */
static status stamp_parse(struct stamp *t, struct arena *a, const char *path, const json_t *object,
                          const char *name)
{
    const char *stated;
    int64_t bytes;

    if (!json_is_object(object)) {
        return fail(ERR_FORMAT, "%s: a table is no object", path);
    }
    TRY(field_text(path, object, "name", a, &stated));
    if (strcmp(stated, name) != 0) {
        return fail(ERR_FORMAT, "%s: names the table %s; expected %s", path, stated, name);
    }
    TRY(field_integer(path, object, "bytes", 1, INT64_MAX, &bytes));
    t->bytes = (uint64_t)bytes;
    return field_digest(path, object, "digest", &t->digest);
}

static status tables_parse(struct manifest *m, struct arena *a, const char *path,
                           const json_t *object)
{
    int writers = layout_writers(m->size);
    json_t *tables;
    size_t count;

    TRY(field_array(path, object, "tables", &tables, &count));
    if (count != (size_t)writers) {
        return fail(ERR_FORMAT, "%s: has %zu tables; the degrees make %d", path, count, writers);
    }
    m->tables = arena_take_array(a, count, sizeof *m->tables);
    for (int w = 0; w < writers; w++) {
        TRY(stamp_parse(&m->tables[w], a, path, json_array_get(tables, (size_t)w),
                        layout_table(a, layout_cell(m->size, w))));
    }
    return OK;
}

static status manifest_parse(struct manifest *m, struct arena *a, const char *path,
                             const json_t *object)
{
    const char *format;
    int64_t version;

    TRY(field_text(path, object, "format", a, &format));
    TRY(field_integer(path, object, "version", 1, INT64_MAX, &version));
    if (strcmp(format, MANIFEST_FORMAT) != 0 || version != MANIFEST_VERSION) {
        return fail(ERR_FORMAT,
                    "%s: is \"%s\" version %lld; this program reads \"" MANIFEST_FORMAT
                    "\" version %d",
                    path, format, (long long)version, MANIFEST_VERSION);
    }
    TRY(field_integer(path, object, "step", 0, INT64_MAX, &m->step));
    TRY(field_integer(path, object, "written_ns", 0, INT64_MAX, &m->written_ns));
    TRY(degrees_parse(m->size, path, object));
    TRY(field_text(path, object, "family", a, &m->family));
    TRY(field_text(path, object, "recipe", a, &m->recipe));
    TRY(field_text(path, object, "state", a, &m->state));
    TRY(state_check(m->state, path));
    return tables_parse(m, a, path, object);
}

/* The first line against what the rest demands. */
static bool manifest_unchanged(const char *bytes, size_t length)
{
    char line[LINE_LENGTH + 1], hex[DIGEST_TEXT];

    if (length <= LINE_LENGTH) {
        return false;
    }
    memcpy(line, LINE_BEGIN, sizeof LINE_BEGIN - 1);
    memcpy(line + sizeof LINE_BEGIN - 1,
           digest_text(digest_of(bytes + LINE_LENGTH, length - LINE_LENGTH), hex), DIGEST_TEXT - 1);
    memcpy(line + LINE_LENGTH - (sizeof LINE_END - 1), LINE_END, sizeof LINE_END - 1);
    return memcmp(line, bytes, LINE_LENGTH) == 0;
}

status manifest_read(struct manifest *out, struct arena *a, const char *folder)
{
    char *path = path_join(a, folder, LAYOUT_MANIFEST);
    char *bytes;
    size_t length;
    json_t *object = NULL;
    status s;

    *out = (struct manifest){ 0 };
    TRY(file_read(a, path, MANIFEST_LIMIT, &bytes, &length));
    if (!manifest_unchanged(bytes, length)) {
        return fail(ERR_FORMAT, "%s: was altered since it was written, or is no manifest of ours",
                    path);
    }
    TRY(field_parse(path, bytes, length, &object));
    s = manifest_parse(out, a, path, object);
    json_decref(object);
    return s;
}
