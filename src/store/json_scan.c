/* The scanner is a cursor: each function takes one piece or sets the problem and stays. */
#include "store/json_scan.h"

#include <string.h>
#include "base/text.h"

void json_scan_init(struct json_scan *s, const char *bytes, size_t length)
{
    *s = (struct json_scan){ .begin = bytes, .at = bytes, .end = bytes + length };
}

bool json_stop(struct json_scan *s, const char *problem)
{
    if (s->problem == NULL) {
        s->problem = problem;
    }
    return false;
}

static void skip_white(struct json_scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) {
        s->at++;
    }
}

static bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

enum json_kind json_next(struct json_scan *s)
{
    skip_white(s);
    if (s->at == s->end) {
        return JSON_NONE;
    }
    switch (*s->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return *s->at == '-' || is_digit(s->at, s->end) ? JSON_NUMBER : JSON_NONE;
    }
}

bool json_open(struct json_scan *s, char bracket)
{
    if (s->problem != NULL) {
        return false;
    }
    skip_white(s);
    if (s->at == s->end || *s->at != bracket) {
        return json_stop(s,
                         bracket == '{' ? "an object must stand here" : "a list must stand here");
    }
    s->at++;
    return true;
}

bool json_more(struct json_scan *s, char close, size_t seen)
{
    if (s->problem != NULL) {
        return false;
    }
    skip_white(s);
    if (s->at == s->end) {
        return json_stop(s, close == '}' ? "the text ends before }" : "the text ends before ]");
    }
    if (*s->at == close) {
        s->at++;
        return false;
    }
    if (seen == 0) {
        return true;
    }
    if (*s->at != ',') {
        return json_stop(s, close == '}' ? "a comma or } must stand here"
                                         : "a comma or ] must stand here");
    }
    s->at++;
    skip_white(s);
    if (s->at < s->end && *s->at == close) {
        return json_stop(s, "a comma may not stand before the closing bracket");
    }
    return true;
}

/* The value of four hexadecimal digits, or -1. */
static int hex4(const char *p, const char *end)
{
    int value = 0;

    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit;

        if (p[i] >= '0' && p[i] <= '9') {
            digit = p[i] - '0';
        } else if (p[i] >= 'a' && p[i] <= 'f') {
            digit = p[i] - 'a' + 10;
        } else if (p[i] >= 'A' && p[i] <= 'F') {
            digit = p[i] - 'A' + 10;
        } else {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* The length of the escape at `p` (a backslash), surrogate pairs together; 0 if it is none. */
static size_t escape_length(const char *p, const char *end)
{
    int unit;

    if (end - p < 2) {
        return 0;
    }
    if (p[1] != 'u') {
        return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL ? 2 : 0;
    }
    unit = hex4(p + 2, end);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) {
        return 0;
    }
    if (unit < 0xd800 || unit >= 0xe000) {
        return 6;
    }
    if (end - p < 12 || p[6] != '\\' || p[7] != 'u') {
        return 0;
    }
    unit = hex4(p + 8, end);
    return unit >= 0xdc00 && unit < 0xe000 ? 12 : 0;
}

bool json_text(struct json_scan *s, struct json_string *out)
{
    const char *p;
    unsigned char wide = 0;

    if (s->problem != NULL) {
        return false;
    }
    skip_white(s);
    if (s->at == s->end || *s->at != '"') {
        return json_stop(s, "a string in double quotes must stand here");
    }
    *out = (struct json_string){ .bytes = s->at + 1 };
    for (p = s->at + 1; p < s->end && *p != '"';) {
        unsigned char c = (unsigned char)*p;
        size_t step = 1;

        wide |= c;
        if (c == '\\') {
            step = escape_length(p, s->end);
            out->escaped = true;
        }
        if (c < 0x20 || step == 0) {
            s->at = p;
            return json_stop(s, c < 0x20 ? "a string holds a raw control character"
                                         : "this is no escape of JSON");
        }
        p += step;
    }
    if (p == s->end) {
        return json_stop(s, "this string is not closed");
    }
    out->length = (size_t)(p - out->bytes);
    if (wide >= 0x80) {
        size_t good = text_utf8_valid(out->bytes, out->length);

        if (good < out->length) {
            s->at = out->bytes + good;
            return json_stop(s, "these bytes are no UTF-8");
        }
    }
    s->at = p + 1;
    return true;
}

bool json_key(struct json_scan *s, struct json_string *key)
{
    if (!json_text(s, key)) {
        return false;
    }
    skip_white(s);
    if (s->at == s->end || *s->at != ':') {
        return json_stop(s, "a colon must stand here");
    }
    s->at++;
    return true;
}

/* What may not follow a number directly: 007, 0x10, 1.2.3 and 5a are none. */
static bool is_glue(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '.' || c == '+' ||
           c == '-' || c == '_';
}

/* Where the number at `p` ends; NULL if it is none. `whole` tells that it has neither point nor
 * exponent. */
static const char *number_end(const char *p, const char *end, bool *whole)
{
    *whole = true;
    p += *p == '-';
    if (!is_digit(p, end)) {
        return NULL;
    }
    if (*p == '0') {
        p++;
    } else {
        while (is_digit(p, end)) {
            p++;
        }
    }
    if (p < end && *p == '.') {
        *whole = false;
        if (!is_digit(++p, end)) {
            return NULL;
        }
        while (is_digit(p, end)) {
            p++;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *whole = false;
        p++;
        p += p < end && (*p == '+' || *p == '-');
        if (!is_digit(p, end)) {
            return NULL;
        }
        while (is_digit(p, end)) {
            p++;
        }
    }
    return p < end && is_glue(*p) ? NULL : p;
}

bool json_whole(struct json_scan *s, int64_t *out)
{
    uint64_t value = 0, limit = INT64_MAX;
    const char *end, *p;
    bool whole;

    if (s->problem != NULL) {
        return false;
    }
    if (json_next(s) != JSON_NUMBER) {
        return json_stop(s, "an integer must stand here");
    }
    end = number_end(s->at, s->end, &whole);
    if (end == NULL) {
        return json_stop(s, "this is no number of JSON");
    }
    if (!whole) {
        return json_stop(s, "this is no integer");
    }
    p = s->at;
    if (*p == '-') {
        limit++;
        p++;
    }
    for (; p < end; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (value > (limit - digit) / 10) {
            return json_stop(s, "this does not fit in 64 bits");
        }
        value = value * 10 + digit;
    }
    *out = *s->at == '-' ? (int64_t)(0 - value) : (int64_t)value;
    s->at = end;
    return true;
}

static bool skip_word(struct json_scan *s, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) {
        return json_stop(s, "no value of JSON begins here");
    }
    s->at += length;
    return true;
}

/* Takes a string, number or word. */
static bool skip_scalar(struct json_scan *s)
{
    struct json_string ignored;
    const char *end;
    bool whole;

    switch (json_next(s)) {
    case JSON_STRING:
        return json_text(s, &ignored);
    case JSON_NUMBER:
        end = number_end(s->at, s->end, &whole);
        if (end == NULL) {
            return json_stop(s, "this is no number of JSON");
        }
        s->at = end;
        return true;
    case JSON_TRUE:
        return skip_word(s, "true");
    case JSON_FALSE:
        return skip_word(s, "false");
    case JSON_NULL:
        return skip_word(s, "null");
    case JSON_NONE:
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    return json_stop(s, s->at == s->end ? "the text ends where a value must stand"
                                        : "no value of JSON begins here");
}

bool json_skip(struct json_scan *s)
{
    char close[JSON_DEPTH];
    struct json_string ignored;
    size_t depth = 0, seen = 1; /* seen: in the innermost bracket, so far; only 0 or not matters */

    if (s->problem != NULL) {
        return false;
    }
    do {
        enum json_kind kind = json_next(s);

        if (kind == JSON_OBJECT || kind == JSON_ARRAY) {
            if (depth == JSON_DEPTH) {
                return json_stop(s, "brackets are nested more than 512 deep");
            }
            close[depth++] = kind == JSON_OBJECT ? '}' : ']';
            s->at++;
            seen = 0;
        } else if (skip_scalar(s)) {
            seen = 1;
        } else {
            return false;
        }
        while (depth > 0 && !json_more(s, close[depth - 1], seen)) {
            if (s->problem != NULL) {
                return false;
            }
            depth--;
            seen = 1;
        }
        if (depth > 0 && close[depth - 1] == '}' && !json_key(s, &ignored)) {
            return false;
        }
    } while (depth > 0);
    return true;
}

bool json_end(struct json_scan *s)
{
    if (s->problem != NULL) {
        return false;
    }
    skip_white(s);
    return s->at == s->end || json_stop(s, "text stands behind the end");
}

/* Writes the code point as UTF-8, at most four bytes, and returns how many. */
static size_t put_utf8(char *out, unsigned int code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Replaces the (already checked) escape at p[0], writes its UTF-8 and returns the bytes read;
 * `written` the bytes made. */
static size_t put_escape(char *out, const char *p, const char *end, size_t *written)
{
    size_t length = escape_length(p, end);
    unsigned int code;

    check(length > 0, "an escape that was checked is none");
    if (p[1] != 'u') {
        const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t";

        out[0] = to[strchr(from, p[1]) - from];
        *written = 1;
        return length;
    }
    code = (unsigned int)hex4(p + 2, end);
    if (length == 12) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((unsigned int)hex4(p + 8, end) - 0xdc00);
    }
    *written = put_utf8(out, code);
    return length;
}

bool json_string_is(const struct json_string *string, const char *text)
{
    const char *p = string->bytes, *end = p + string->length;

    if (!string->escaped) {
        return strlen(text) == string->length && memcmp(p, text, string->length) == 0;
    }
    while (p < end) {
        char piece[4];
        size_t length = 1;

        piece[0] = *p;
        p += *p == '\\' ? put_escape(piece, p, end, &length) : 1;
        if (strncmp(text, piece, length) != 0 || piece[0] == '\0') {
            return false;
        }
        text += length;
    }
    return *text == '\0';
}

char *json_string_make(struct arena *a, const struct json_string *string)
{
    const char *p = string->bytes, *end = p + string->length;
    char *out, *to;

    if (!string->escaped) {
        return arena_text_n(a, string->bytes, string->length);
    }
    /* No escape grows when it is replaced: \uXXXX is 6 bytes for at most 3, a pair 12 for 4. */
    out = to = arena_take(a, string->length + 1);
    while (p < end) {
        size_t length = 1;

        *to = *p;
        p += *p == '\\' ? put_escape(to, p, end, &length) : 1;
        if (*to == '\0') {
            return NULL;
        }
        to += length;
    }
    *to = '\0';
    return out;
}

const char *json_found(const struct json_scan *s, char out[JSON_FOUND])
{
    size_t length = 0;

    if (s->at == s->end) {
        return "the end";
    }
    for (const char *p = s->at; p < s->end && length < JSON_FOUND - 4; p++) {
        bool ends_word = strchr(" ,]}\t\r\n:", *p) != NULL && *p != '\0';

        if (ends_word && length > 0) {
            break;
        }
        out[length++] = *p >= 0x20 && *p < 0x7f ? *p : '?';
    }
    if (length == JSON_FOUND - 4) {
        memcpy(out + length, "...", 3);
        length += 3;
    }
    out[length] = '\0';
    return out;
}
