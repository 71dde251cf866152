/*
 * Walking JSON text strictly, without a tree and without memory of its own.
 *
 * For text that is large or untrusted: headers of tensor files, rows of token ids. The caller walks
 * the structure it expects and skips the rest; nesting costs no stack. RFC 8259 is followed to the
 * letter: no comments, no NaN, no leading zeros, no trailing commas, no raw control characters,
 * UTF-8 only, surrogates only in pairs. Whether a key may stand twice is the caller's question.
 *
 *   {  "a" : [ 1 , 2 ] }        json_open '{'  json_more  json_key  json_open '['  json_more  json_whole  ...
 *
 * The first mistake is kept in `problem`, with `at` on the spot; from then on every call returns
 * false.
 */
#ifndef ROUX_STORE_JSON_SCAN_H
#define ROUX_STORE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

enum {
    JSON_DEPTH = 512, /* brackets that json_skip follows into each other */
    JSON_FOUND = 48   /* room for json_found */
};

enum json_kind {
    JSON_NONE, /* the end, or a byte that begins no value */
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

struct json_scan {
    const char *begin, *at, *end;
    const char *problem; /* what is wrong at `at`; NULL as long as nothing is */
};

/* A string between its quotes as it stands in the text: checked, escapes not yet replaced. */
struct json_string {
    const char *bytes;
    size_t length;
    bool escaped;
};

void json_scan_init(struct json_scan *s, const char *bytes, size_t length);

/* Skips white space and looks at what begins there. */
enum json_kind json_next(struct json_scan *s);

/* Enters an object or array: `bracket` is '{' or '['. */
bool json_open(struct json_scan *s, char bracket);

/*
 * After `seen` members or elements: does another one follow? Takes the comma before it. False at
 * `close` ('}' or ']'), which it takes too, and at a mistake: ask `problem`.
 */
bool json_more(struct json_scan *s, char close, size_t seen);

/* A member's name and its colon. (The names below are none of jansson's, which the program links
 * as well.) */
bool json_key(struct json_scan *s, struct json_string *key);

bool json_text(struct json_scan *s, struct json_string *out);

/* A number without point and exponent that fits in 64 bits. On a mistake `at` stands where the
 * number begins. */
bool json_whole(struct json_scan *s, int64_t *out);

/* Takes a value of any kind. */
bool json_skip(struct json_scan *s);

/* Only white space is left. */
bool json_end(struct json_scan *s);

/* Sets the problem, for mistakes that only the caller can see. Returns false. */
bool json_stop(struct json_scan *s, const char *problem);

/* Does the string, escapes replaced, spell `text`? */
bool json_string_is(const struct json_string *string, const char *text);

/* The string with its escapes replaced, ended by a zero byte; NULL if it holds U+0000, which C
 * text cannot. */
char *json_string_make(struct arena *a, const struct json_string *string);

/* What stands at `at`, cut short and made printable, for messages: "1.5", "[[449", "the end". */
const char *json_found(const struct json_scan *s, char out[JSON_FOUND]);

#endif
