#include "recipe/rules.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rule_say(const struct checking *c, enum finding_kind kind, const char *key, const char *format,
              ...)
{
    const struct tree *at = tree_at(c->r->tree, key);
    const struct tree file = { .file = c->r->tree->file };
    const char *text;
    va_list list;

    for (int i = 0; i < c->broken_count; i++) {
        if (strcmp(c->broken[i], key) == 0) {
            return;
        }
    }
    va_start(list, format);
    text = arena_format_list(c->found->arena, format, list);
    va_end(list);
    findings_add(c->found, kind, at != NULL ? at : &file, key, "%s", text);
}

void recipe_check(const struct recipe *r, struct findings *found, int ranks)
{
    struct checking c = { .r = r, .found = found, .ranks = ranks };

    if (r->tree == NULL) {
        return;
    }
    c.broken = arena_take_array(found->arena, (size_t)found->count, sizeof *c.broken);
    for (int i = 0; i < found->count; i++) {
        if (found->items[i].kind == FINDING_ERROR && found->items[i].key != NULL) {
            c.broken[c.broken_count++] = found->items[i].key;
        }
    }
    rules_of_model(&c);
    rules_of_ranks(&c);
    rules_of_training(&c);
    rules_of_loggers(&c);
    rules_of_wishes(&c);
}

/* Digits to a number; *text moves behind them. False if there are none or too many. */
static bool take_number(const char **text, int64_t *out)
{
    int digits = 0;

    for (*out = 0; **text >= '0' && **text <= '9'; (*text)++, digits++) {
        *out = 10 * *out + (**text - '0');
        if (digits == 9) {
            return false;
        }
    }
    return digits > 0;
}

int64_t recipe_time_limit(const struct recipe *r)
{
    const char *text = r->run.time_limit;
    int64_t days = 0, part[3] = { 0 };
    bool has_days;
    int count = 0;

    if (text == NULL) {
        return 0;
    }
    has_days = strchr(text, '-') != NULL;
    if (has_days && (!take_number(&text, &days) || *text++ != '-')) {
        return -1;
    }
    do {
        if (count == 3 || !take_number(&text, &part[count++])) {
            return -1;
        }
    } while (*text == ':' && text++ != NULL);
    if (*text != '\0') {
        return -1;
    }
    if (has_days || count == 3) { /* D-HH, D-HH:MM, D-HH:MM:SS, HH:MM:SS */
        return ((24 * days + part[0]) * 60 + part[1]) * 60 + part[2];
    }
    return 60 * part[0] + part[1]; /* MM, MM:SS */
}
