/*
 * What a plain scalar is: the table of config-language.md, section 3.2, tried row by row. Each
 * form_... function takes the text from a place and says how far its form reaches; a row matches
 * when that is the end.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "recipe/tree.h"

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

/* The number of leading bytes of `text` that stand in `set`. */
static size_t run_of(const char *text, const char *set)
{
    return strspn(text, set);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *after_sign(const char *text)
{
    return *text == '+' || *text == '-' ? text + 1 : text;
}

/* 0..59 in one or two digits behind a colon, once or more, to the end. */
static bool is_sexagesimal_tail(const char *text)
{
    do {
        if (*text != ':') {
            return false;
        }
        text++;
        if (text[0] >= '0' && text[0] <= '5' && is_digit(text[1])) {
            text += 2;
        } else if (is_digit(text[0])) {
            text += 1;
        } else {
            return false;
        }
    } while (*text != '\0');
    return true;
}

/* The base in which `text` (behind its sign) is an integer; 60 for the form with colons; 0 if it
 * is none. */
static int integer_base(const char *text)
{
    size_t decimal = run_of(text, "0123456789_");

    if (text[0] == '0' && text[1] == 'b' && text[2] != '\0' &&
        text[2 + run_of(text + 2, "01_")] == '\0') {
        return 2;
    }
    if (text[0] == '0' && text[1] == 'x' && text[2] != '\0' &&
        text[2 + run_of(text + 2, "0123456789abcdefABCDEF_")] == '\0') {
        return 16;
    }
    if (text[0] == '0' && text[1] == '\0') {
        return 10;
    }
    if (text[0] == '0' && text[1 + run_of(text + 1, "01234567_")] == '\0') {
        return 8;
    }
    if (text[0] < '1' || text[0] > '9') {
        return 0;
    }
    if (text[decimal] == '\0') {
        return 10;
    }
    return text[decimal] == ':' && is_sexagesimal_tail(text + decimal) ? 60 : 0;
}

static int digit_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    return c >= 'a' ? c - 'a' + 10 : c - 'A' + 10;
}

/* Adds one digit below zero, so that the least integer can be read; false on overflow. */
static bool push_digit(int64_t *value, int base, int digit)
{
    return !__builtin_mul_overflow(*value, base, value) &&
           !__builtin_sub_overflow(*value, digit, value);
}

static bool integer_value(const char *text, int base, bool negative, int64_t *out)
{
    int64_t value = 0;
    int part = 0; /* of a base 60 number */

    text += base == 2 || base == 16 ? 2 : 0;
    if (base == 60) {
        for (; *text != ':'; text++) {
            if (*text != '_' && !push_digit(&value, 10, digit_value(*text))) {
                return false;
            }
        }
        while (*text == ':') {
            for (part = 0, text++; is_digit(*text); text++) {
                part = 10 * part + digit_value(*text);
            }
            if (!push_digit(&value, 60, part)) {
                return false;
            }
        }
    } else {
        for (; *text != '\0'; text++) {
            if (*text != '_' && !push_digit(&value, base, digit_value(*text))) {
                return false;
            }
        }
    }
    if (!negative && value == INT64_MIN) {
        return false;
    }
    *out = negative ? value : -value;
    return true;
}

/* "e", an optional or required sign, digits, the end. */
static bool is_exponent(const char *text, bool sign_required)
{
    if (*text != 'e' && *text != 'E') {
        return false;
    }
    text++;
    if (*text == '+' || *text == '-') {
        text++;
    } else if (sign_required) {
        return false;
    }
    return is_digit(*text) && text[run_of(text, "0123456789")] == '\0';
}

static bool is_float(const char *text)
{
    const char *unsigned_text = after_sign(text);
    const char *rest;

    if (is_digit(*unsigned_text)) {
        rest = unsigned_text + run_of(unsigned_text, "0123456789_");
        if (*rest != '.') {
            return is_exponent(rest, false);
        }
        rest++;
        rest += run_of(rest, "0123456789_");
        return *rest == '\0' || is_exponent(rest, false);
    }
    if (text[0] == '.' && is_digit(text[1])) {
        rest = text + 1 + run_of(text + 1, "0123456789_");
        return *rest == '\0' || is_exponent(rest, true);
    }
    return false;
}

static double float_value(const char *text)
{
    char shorter[64], *digits = shorter, *to;
    double value;

    if (strlen(text) >= sizeof shorter) {
        digits = malloc(strlen(text) + 1);
        check(digits != NULL, "out of memory");
    }
    for (to = digits; *text != '\0'; text++) {
        if (*text != '_') {
            *to++ = *text;
        }
    }
    *to = '\0';
    value = strtod(digits, NULL);
    if (digits != shorter) {
        free(digits);
    }
    return value;
}

bool tree_scalar(struct tree *t, const char *text)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const trues[] = { "true", "True", "TRUE", "yes", "Yes",
                                         "YES",  "on",   "On",   "ON",  NULL };
    static const char *const falses[] = { "false", "False", "FALSE", "no",  "No",
                                          "NO",    "off",   "Off",   "OFF", NULL };
    static const char *const infinities[] = { ".inf", ".Inf", ".INF", NULL };
    static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
    int base = integer_base(after_sign(text));

    t->kind = TREE_TEXT;
    t->text = text;
    if (is_one_of(text, nulls)) {
        t->kind = TREE_NULL;
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        t->kind = TREE_BOOL;
        t->truth = is_one_of(text, trues);
    } else if (base != 0) {
        if (!integer_value(after_sign(text), base, *text == '-', &t->whole)) {
            return false;
        }
        t->kind = TREE_INT;
    } else if (is_float(text)) {
        t->kind = TREE_FLOAT;
        t->number = float_value(text);
    } else if (is_one_of(after_sign(text), infinities)) {
        t->kind = TREE_FLOAT;
        t->number = *text == '-' ? -INFINITY : INFINITY;
    } else if (is_one_of(text, nans)) {
        t->kind = TREE_FLOAT;
        t->number = NAN;
    }
    return true;
}
