/*
 * golden_safetensors DIR: every file that DIR/expected.jsonl names is read or refused as it says:
 * verdict, metadata, place of the data, names, dtypes, shapes, offsets, SHA-256 of the bytes,
 * values after conversion to F64 or I64 (or U64).
 *
 * jansson has no integers above 2^63, so all numbers of expected.jsonl are read as doubles; what
 * that cannot tell apart beyond 2^53, the SHA-256 does.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/text.h"
#include "store/safetensors.h"
#include "tools/sha256.h"
#include "tools/tally.h"

enum { WHY = 512 };

static bool differ(char why[WHY], const char *format, ...) FORMAT(2, 3);

static bool differ(char why[WHY], const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(why, WHY, format, list);
    va_end(list);
    return false;
}

static bool same_metadata(const struct tensor_file *f, const json_t *want, char why[WHY])
{
    size_t count = json_is_object(want) ? json_object_size(want) : 0;

    if (f->metadata_count != count) {
        return differ(why, "metadata has %zu pairs, expected %zu", f->metadata_count, count);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(want, f->metadata[2 * i]);

        if (value == NULL || strcmp(json_string_value(value), f->metadata[2 * i + 1]) != 0) {
            return differ(why, "metadata \"%s\" is \"%s\"", f->metadata[2 * i],
                          f->metadata[2 * i + 1]);
        }
    }
    return true;
}

static bool same_bytes(const struct tensor_file *f, const struct tensor_entry *e, const char *want,
                       char why[WHY])
{
    struct sha256 hash;
    char text[65];
    size_t length = (size_t)(e->end - e->begin);
    unsigned char *bytes = malloc(length + 1);
    bool same;

    if (tensor_file_read(f, e, 0, e->count, e->dtype, bytes) != OK) {
        free(bytes);
        return differ(why, "%s", fail_text());
    }
    sha256_init(&hash);
    sha256_add(&hash, bytes, length);
    sha256_text(&hash, text);
    same = strcmp(text, want) == 0;
    free(bytes);
    return same || differ(why, "%s: sha256 %s, expected %s", e->name, text, want);
}

/* A float of expected.jsonl: a number or one of three texts. */
static bool same_value(double got, const json_t *want)
{
    if (json_is_string(want)) {
        const char *text = json_string_value(want);
        double sign = text[0] == '-' ? -1 : 1;

        return strcmp(text, "nan") == 0 ? isnan(got) : isinf(got) && got * sign > 0;
    }
    return got == json_real_value(want) && signbit(got) == signbit(json_real_value(want));
}

static bool same_integers(const struct tensor_file *f, const struct tensor_entry *e,
                          const json_t *want, char why[WHY])
{
    int64_t *values = calloc((size_t)e->count + 1, sizeof *values);
    bool same = true;

    if (tensor_file_read(f, e, 0, e->count, e->dtype == DT_U64 ? DT_U64 : DT_I64, values) != OK) {
        free(values);
        return differ(why, "%s", fail_text());
    }
    for (int64_t i = 0; i < e->count && same; i++) {
        double got = e->dtype == DT_U64 ? (double)(uint64_t)values[i] : (double)values[i];

        same = got == json_real_value(json_array_get(want, (size_t)i)) ||
               differ(why, "%s[%lld] is %lld", e->name, (long long)i, (long long)values[i]);
    }
    free(values);
    return same;
}

static bool same_floats(const struct tensor_file *f, const struct tensor_entry *e,
                        const json_t *want, char why[WHY])
{
    double *values = calloc((size_t)e->count + 1, sizeof *values);
    bool same = true;

    if (tensor_file_read(f, e, 0, e->count, DT_F64, values) != OK) {
        free(values);
        return differ(why, "%s", fail_text());
    }
    for (int64_t i = 0; i < e->count && same; i++) {
        same = same_value(values[i], json_array_get(want, (size_t)i)) ||
               differ(why, "%s[%lld] is %.17g", e->name, (long long)i, values[i]);
    }
    free(values);
    return same;
}

static bool same_values(const struct tensor_file *f, const struct tensor_entry *e,
                        const json_t *want, char why[WHY])
{
    if (!json_is_array(want) || e->dtype == DT_F8_E8M0) {
        return true; /* not given (large, F4, F6, C64), or a type that does not convert here */
    }
    if (json_array_size(want) != (size_t)e->count) {
        return differ(why, "%s: %lld values, expected %zu", e->name, (long long)e->count,
                      json_array_size(want));
    }
    return dtype_is_float(e->dtype) ? same_floats(f, e, want, why) : same_integers(f, e, want, why);
}

static bool same_tensor(const struct tensor_file *f, const char *name, const json_t *want,
                        char why[WHY])
{
    const struct tensor_entry *e = tensor_file_find(f, name);
    const json_t *shape = json_object_get(want, "shape"),
                 *offsets = json_object_get(want, "data_offsets");

    if (e == NULL) {
        return differ(why, "tensor \"%s\" is not found", name);
    }
    if (strcmp(dtype_name(e->dtype), json_string_value(json_object_get(want, "dtype"))) != 0) {
        return differ(why, "%s: dtype %s", name, dtype_name(e->dtype));
    }
    if ((size_t)e->rank != json_array_size(shape)) {
        return differ(why, "%s: rank %d", name, e->rank);
    }
    for (int d = 0; d < e->rank; d++) {
        if (e->shape[d] != (int64_t)json_real_value(json_array_get(shape, (size_t)d))) {
            return differ(why, "%s: extent %lld", name, (long long)e->shape[d]);
        }
    }
    if (e->begin - f->data_begin != (uint64_t)json_real_value(json_array_get(offsets, 0)) ||
        e->end - f->data_begin != (uint64_t)json_real_value(json_array_get(offsets, 1))) {
        return differ(why, "%s: offsets [%llu, %llu]", name,
                      (unsigned long long)(e->begin - f->data_begin),
                      (unsigned long long)(e->end - f->data_begin));
    }
    return same_bytes(f, e, json_string_value(json_object_get(want, "sha256")), why) &&
           same_values(f, e, json_object_get(want, "values"), why);
}

static bool same_file(const struct tensor_file *f, json_t *expected, char why[WHY])
{
    json_t *tensors = json_object_get(expected, "tensors"), *want;
    const char *name;

    if (f->data_begin != (uint64_t)json_real_value(json_object_get(expected, "data_begins"))) {
        return differ(why, "the data begins at %llu", (unsigned long long)f->data_begin);
    }
    if (f->count != json_object_size(tensors)) {
        return differ(why, "%zu tensors, expected %zu", f->count, json_object_size(tensors));
    }
    json_object_foreach(tensors, name, want)
    {
        if (!same_tensor(f, name, want, why)) {
            return false;
        }
    }
    return same_metadata(f, json_object_get(expected, "metadata"), why);
}

static void try_file(struct tally *t, const char *folder, json_t *expected)
{
    const char *name = json_string_value(json_object_get(expected, "file"));
    const char *verdict = json_string_value(json_object_get(expected, "verdict"));
    struct arena a = { 0 };
    struct tensor_file f;
    char why[WHY] = "";
    const char *path = path_join(&a, folder, name);
    status s = tensor_file_open(&f, &a, path);

    if (s != OK && (s != ERR_FORMAT || !text_starts(fail_text(), path))) {
        snprintf(why, sizeof why, "status %d, \"%s\": must be ERR_FORMAT and name the file", (int)s,
                 fail_text());
        tally_fail(t, name, why);
    } else if (strcmp(verdict, "ok") == 0) {
        if (s != OK) {
            tally_fail(t, name, fail_text());
        } else if (!same_file(&f, expected, why)) {
            tally_fail(t, name, why);
        } else {
            tally_pass(t, name, NULL);
        }
    } else if (strcmp(verdict, "refuse") == 0 && s == OK) {
        tally_fail(t, name, "was read, must be refused");
    } else {
        tally_pass(t, name, s == OK ? "read" : fail_text());
    }
    tensor_file_close(&f);
    arena_release(&a);
}

int main(int argc, char **argv)
{
    struct tally t = { 0 };
    char line_path[4096], *line = NULL;
    size_t room = 0;
    FILE *list;

    if (argc != 2) {
        fprintf(stderr, "usage: golden_safetensors DIR\n");
        return 2;
    }
    snprintf(line_path, sizeof line_path, "%s/expected.jsonl", argv[1]);
    list = fopen(line_path, "re");
    if (list == NULL) {
        perror(line_path);
        return 1;
    }
    for (int number = 1; getline(&line, &room, list) > 0; number++) {
        json_error_t error;
        json_t *expected = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);

        if (expected == NULL) {
            fprintf(stderr, "%s:%d: %s\n", line_path, number, error.text);
            return 1;
        }
        try_file(&t, argv[1], expected);
        json_decref(expected);
    }
    free(line);
    fclose(list);
    return tally_close(&t);
}
