/* The values of overrides: Hydra's quotes, lists and maps, with scalars typed as in YAML. */
#include <string.h>
#include "base/text.h"
#include "recipe/override.h"

struct scanner {
    struct arena *a;
    const struct tree *at;
    const char *next;
    const char *problem;
    int depth;
};

enum { MAP_ENTRIES = 1000 }; /* of a token; found one by one */

static struct tree *scan_element(struct scanner *s, const char *ends);

static struct tree *give_up(struct scanner *s, const char *problem)
{
    if (s->problem == NULL) {
        s->problem = problem;
    }
    return NULL;
}

static void skip_blanks(struct scanner *s)
{
    s->next += strspn(s->next, " \t");
}

/* A run of n backslashes before the quote is n / 2 backslashes, and an odd one more makes the
 * quote part of the text; all other backslashes are themselves. */
static struct tree *scan_quoted(struct scanner *s)
{
    char quote = *s->next++;
    struct text out = { 0 };
    struct tree *t = NULL;

    for (;;) {
        size_t run = strspn(s->next, "\\");

        if (s->next[run] == quote) {
            for (size_t i = 0; i < run / 2; i++) {
                text_add_char(&out, '\\');
            }
            s->next += run + 1;
            if (run % 2 == 0) {
                break;
            }
            text_add_char(&out, quote);
        } else if (s->next[run] == '\0') {
            text_release(&out);
            return give_up(s, quote == '"' ? "the quote \" is not closed"
                                           : "the quote ' is not closed");
        } else {
            text_add_n(&out, s->next, run + 1);
            s->next += run + 1;
        }
    }
    t = tree_make_text(s->a, text_of(&out), s->at);
    text_release(&out);
    return t;
}

/* Everything up to one of `ends` or the end, without the blanks around it; a backslash frees the
 * character behind it. */
static struct tree *scan_primitive(struct scanner *s, const char *ends)
{
    struct text out = { 0 };
    struct tree *t = tree_make(s->a, TREE_TEXT, s->at);
    bool escaped = false;
    size_t kept = 0; /* the length without blanks at the end */

    while (*s->next != '\0' && strchr(ends, *s->next) == NULL) {
        if (text_starts(s->next, "${")) {
            text_release(&out);
            return give_up(s, "references (${...}) are not built yet; write the value itself");
        }
        if (*s->next == '\\' && s->next[1] != '\0' &&
            strchr("\\()[]{}:=, \t", s->next[1]) != NULL) {
            text_add_char(&out, s->next[1]);
            s->next += 2;
            escaped = true;
            kept = out.length;
            continue;
        }
        if (strchr("=#!&;<>^~`'\"()[]{}", *s->next) != NULL || (unsigned char)*s->next < 0x20) {
            text_release(&out);
            return give_up(
                s, arena_format(s->a, "'%c' needs quotes that reach the program: \"key='...'\"",
                                *s->next));
        }
        text_add_char(&out, *s->next++);
        if (s->next[-1] != ' ' && s->next[-1] != '\t') {
            kept = out.length;
        }
    }
    t->text = arena_text_n(s->a, text_of(&out), kept);
    text_release(&out);
    if (!escaped && kept > 0 && !tree_scalar(t, t->text)) {
        return give_up(s, "the integer does not fit 64 bits");
    }
    return t;
}

static struct tree *scan_list(struct scanner *s)
{
    struct tree *list = tree_make(s->a, TREE_LIST, s->at);

    s->next++;
    skip_blanks(s);
    if (*s->next == ']') {
        s->next++;
        return list;
    }
    for (;;) {
        struct tree *item = scan_element(s, ",]");

        if (item == NULL) {
            return NULL;
        }
        tree_add(s->a, list, item);
        if (*s->next == ']') {
            s->next++;
            return list;
        }
        if (*s->next++ != ',') {
            return give_up(s, "the bracket [ is not closed");
        }
    }
}

static struct tree *scan_map(struct scanner *s)
{
    struct tree *map = tree_make(s->a, TREE_MAP, s->at);

    s->next++;
    skip_blanks(s);
    if (*s->next == '}') {
        s->next++;
        return map;
    }
    for (;;) {
        struct tree *key, *value;

        skip_blanks(s);
        key = scan_primitive(s, ":,}");
        if (key == NULL) {
            return NULL;
        }
        if (*s->next++ != ':' || *key->text == '\0' || key->kind == TREE_NULL) {
            return give_up(s, "a map is written {key: value, key: value}");
        }
        if (map->count == MAP_ENTRIES) {
            return give_up(s, "a map of too many keys");
        }
        value = scan_element(s, ",}");
        if (value == NULL) {
            return NULL;
        }
        if (key->kind == TREE_TEXT && tree_find(map, key->text) != NULL) {
            map->items[tree_index(map, key->text)] = value;
        } else {
            tree_put(s->a, map, key, value);
        }
        if (*s->next == '}') {
            s->next++;
            return map;
        }
        if (*s->next++ != ',') {
            return give_up(s, "the brace { is not closed");
        }
    }
}

/* One element and the blanks around it, up to a character of `ends` or the end of the text. */
static struct tree *scan_element(struct scanner *s, const char *ends)
{
    struct tree *t;

    if (++s->depth > TREE_DEPTH) {
        return give_up(s, "nested too deep");
    }
    skip_blanks(s);
    if (*s->next == '\'' || *s->next == '"') {
        t = scan_quoted(s);
    } else if (*s->next == '[') {
        t = scan_list(s);
    } else if (*s->next == '{') {
        t = scan_map(s);
    } else {
        t = scan_primitive(s, *ends != '\0' ? ends : ",");
        if (t != NULL && *t->text == '\0' && *ends != '\0') {
            return give_up(s, "an empty element; write '' for an empty text");
        }
    }
    if (t == NULL) {
        return NULL;
    }
    skip_blanks(s);
    if (*s->next != '\0' && strchr(ends, *s->next) == NULL) {
        return give_up(
            s, *s->next == ','
                   ? "a comma at the top; write [a,b] for a list, or quotes for a text; several "
                     "runs in one command are not supported"
                   : "something stands behind the value");
    }
    s->depth--;
    return t;
}

struct tree *override_value(struct arena *a, const char *text, const struct tree *at,
                            const char **problem)
{
    struct scanner s = { .a = a, .at = at, .next = text };
    struct tree *t;

    if (text_utf8_valid(text, strlen(text)) != strlen(text)) {
        *problem = "not UTF-8";
        return NULL;
    }
    t = scan_element(&s, "");
    if (t != NULL && *s.next != '\0') {
        t = give_up(&s, "something stands behind the value");
    }
    *problem = s.problem;
    return t;
}
