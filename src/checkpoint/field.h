/*
 * Fields of JSON that somebody else may have written: each getter checks presence, type and range,
 * and its error names the file and the field. Inner to this room.
 */
#ifndef ROUX_CHECKPOINT_FIELD_H
#define ROUX_CHECKPOINT_FIELD_H

#include <jansson.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/digest.h"
#include "base/status.h"

/* The whole text is one JSON object without duplicate keys. The caller owns *out (json_decref). */
MUST_USE status field_parse(const char *path, const char *text, size_t length, json_t **out);

MUST_USE status field_integer(const char *path, const json_t *object, const char *key,
                              int64_t least, int64_t most, int64_t *out);
MUST_USE status field_text(const char *path, const json_t *object, const char *key, struct arena *a,
                           const char **out);
MUST_USE status field_digest(const char *path, const json_t *object, const char *key,
                             struct digest *out);

/* Borrowed from `object`. */
MUST_USE status field_object(const char *path, const json_t *object, const char *key, json_t **out);
MUST_USE status field_array(const char *path, const json_t *object, const char *key, json_t **out,
                            size_t *count);

MUST_USE status field_digest_of(const char *path, const json_t *value, const char *key,
                                struct digest *out);

/* An array of at most `most` integers >= 0. */
MUST_USE status field_extents(const char *path, const json_t *object, const char *key, int most,
                              int64_t *out, int *count);

/* Adds a member and takes `value` over. check()s that it could be made: memory was there, a text
 * was UTF-8. */
void field_put(json_t *object, const char *key, json_t *value);

#endif
