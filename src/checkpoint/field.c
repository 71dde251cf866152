#include "checkpoint/field.h"
#include <string.h>

status field_parse(const char *path, const char *text, size_t length, json_t **out)
{
    json_error_t error;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

    if (!value) {
        return fail(ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return fail(ERR_FORMAT, "%s: is not a JSON object", path);
    }
    *out = value;
    return OK;
}

/* `value` may be NULL. */
static status wrong_type(const char *path, const json_t *value, const char *key,
                         const char *expected)
{
    return fail(ERR_FORMAT, "%s: \"%s\" is %s; expected %s", path, key,
                value ? "of another type" : "missing", expected);
}

status field_integer(const char *path, const json_t *object, const char *key, int64_t least,
                     int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    int64_t number;

    if (!json_is_integer(value)) {
        return wrong_type(path, value, key, "an integer");
    }
    number = json_integer_value(value);
    if (number < least || number > most) {
        return fail(ERR_FORMAT, "%s: \"%s\" is %lld; allowed are %lld to %lld", path, key,
                    (long long)number, (long long)least, (long long)most);
    }
    *out = number;
    return OK;
}

status field_text(const char *path, const json_t *object, const char *key, struct arena *a,
                  const char **out)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_string(value)) {
        return wrong_type(path, value, key, "a text");
    }
    *out = arena_text(a, json_string_value(value));
    return OK;
}

status field_digest_of(const char *path, const json_t *value, const char *key, struct digest *out)
{
    if (!json_is_string(value) || !digest_parse(json_string_value(value), out)) {
        return wrong_type(path, value, key, "a digest of 32 hexadecimal digits");
    }
    return OK;
}

status field_digest(const char *path, const json_t *object, const char *key, struct digest *out)
{
    return field_digest_of(path, json_object_get(object, key), key, out);
}

status field_object(const char *path, const json_t *object, const char *key, json_t **out)
{
    *out = json_object_get(object, key);
    return json_is_object(*out) ? OK : wrong_type(path, *out, key, "an object");
}

status field_array(const char *path, const json_t *object, const char *key, json_t **out,
                   size_t *count)
{
    *out = json_object_get(object, key);
    *count = json_array_size(*out);
    return json_is_array(*out) ? OK : wrong_type(path, *out, key, "an array");
}

status field_extents(const char *path, const json_t *object, const char *key, int most,
                     int64_t *out, int *count)
{
    json_t *array;
    size_t length;

    TRY(field_array(path, object, key, &array, &length));
    if (length > (size_t)most) {
        return fail(ERR_FORMAT, "%s: \"%s\" has %zu dimensions; at most %d are known", path, key,
                    length, most);
    }
    for (size_t i = 0; i < length; i++) {
        const json_t *value = json_array_get(array, i);

        if (!json_is_integer(value) || json_integer_value(value) < 0) {
            return wrong_type(path, value, key, "integers that are not negative");
        }
        out[i] = json_integer_value(value);
    }
    *count = (int)length;
    return OK;
}

void field_put(json_t *object, const char *key, json_t *value)
{
    check(value && json_object_set_new(object, key, value) == 0,
          "the JSON member \"%s\" cannot be made", key);
}
