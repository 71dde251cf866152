/*
 * golden_tensorboard DIR: reads DIR/expected.jsonl and each log folder that it names, and compares
 * files, damage and every scalar with what TensorBoard's own reader gave.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "support/event_log.h"
#include "tools/tally.h"

static bool same_number(double got, const json_t *want)
{
    if (json_is_string(want)) {
        const char *text = json_string_value(want);

        return strcmp(text, "nan") == 0 ? isnan(got) : isinf(got) && (got < 0) == (text[0] == '-');
    }
    return got == json_number_value(want) && signbit(got) == signbit(json_number_value(want));
}

static const char *compare_files(const struct event_log *l, const json_t *want, size_t *damaged)
{
    if (l->file_count != json_array_size(want)) {
        return "another number of files";
    }
    for (size_t i = 0; i < l->file_count; i++) {
        const json_t *w = json_array_get(want, i);
        const char *version = json_string_value(json_object_get(w, "version"));
        const struct event_log_file *f = &l->files[i];

        *damaged += f->damage != NULL;
        if (strcmp(f->name, json_string_value(json_object_get(w, "name"))) != 0 ||
            (int64_t)f->records != json_integer_value(json_object_get(w, "records")) ||
            (int64_t)f->bytes != json_integer_value(json_object_get(w, "bytes"))) {
            return "a file's name, records or bytes differ";
        }
        if ((f->version == NULL) != (version == NULL) ||
            (version != NULL && strcmp(version, f->version) != 0)) {
            return "a file's version differs";
        }
    }
    return NULL;
}

static bool has_error(const struct event_log *l, const json_t *errors)
{
    for (size_t i = 0; i < l->file_count; i++) {
        const char *damage = l->files[i].damage;
        bool found = damage == NULL;

        for (size_t j = 0; j < json_array_size(errors) && !found; j++) {
            found = strstr(json_string_value(json_array_get(errors, j)), damage) != NULL;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

static const char *compare_tag(const struct event_log *l, const char *tag, const json_t *want,
                               size_t *seen)
{
    size_t at = 0;

    for (size_t i = 0; i < l->count; i++) {
        const struct event_scalar *s = &l->scalars[i];
        const json_t *w = json_array_get(want, at);

        if (strcmp(s->tag, tag) != 0) {
            continue;
        }
        if (w == NULL || s->step != json_integer_value(json_array_get(w, 0)) ||
            !same_number(s->value, json_array_get(w, 1)) ||
            !same_number(s->wall_time, json_array_get(w, 2))) {
            return "a step, value or time differs";
        }
        at++;
    }
    *seen += at;
    return at == json_array_size(want) ? NULL : "values are missing";
}

static const char *compare(const struct event_log *l, json_t *expected)
{
    json_t *errors = json_object_get(expected, "errors"), *value;
    size_t damaged = 0, seen = 0;
    const char *tag, *why = compare_files(l, json_object_get(expected, "files"), &damaged);

    if (why != NULL) {
        return why;
    }
    if (damaged != json_array_size(errors) || !has_error(l, errors)) {
        return "other damage";
    }
    json_object_foreach(json_object_get(expected, "scalars"), tag, value)
    {
        why = compare_tag(l, tag, value, &seen);
        if (why != NULL) {
            return why;
        }
    }
    return seen == l->count ? NULL : "scalars of tags that are not expected";
}

int main(int argc, char **argv)
{
    struct tally t = { 0 };
    char line_path[4096], *line = NULL;
    size_t room = 0;
    FILE *list;

    if (argc != 2) {
        fprintf(stderr, "usage: golden_tensorboard DIR\n");
        return 2;
    }
    snprintf(line_path, sizeof line_path, "%s/expected.jsonl", argv[1]);
    list = fopen(line_path, "re");
    if (list == NULL) {
        perror(line_path);
        return 1;
    }
    for (int number = 1; getline(&line, &room, list) > 0; number++) {
        struct arena a = { 0 };
        struct event_log log;
        json_error_t error;
        json_t *expected = json_loads(line, JSON_ALLOW_NUL, &error);
        const char *name, *why;

        if (expected == NULL) {
            fprintf(stderr, "%s:%d: %s\n", line_path, number, error.text);
            return 1;
        }
        name = json_string_value(json_object_get(expected, "dir"));
        why = event_log_read(&log, &a, path_join(&a, argv[1], name)) != OK
                  ? fail_text()
                  : compare(&log, expected);
        if (why != NULL) {
            tally_fail(&t, name, why);
        } else {
            tally_pass(&t, name, NULL);
        }
        json_decref(expected);
        arena_release(&a);
    }
    free(line);
    fclose(list);
    return tally_close(&t);
}
