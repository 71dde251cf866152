/*
 * A YAML document as a tree whose every node knows where it stands.
 *
 * The dialect is YAML 1.1 as the reference's loader reads it, with a more generous float rule, no
 * timestamps, and an error for duplicate keys (facts: config-language.md, section 3). What a plain
 * scalar is, is decided by tree_scalar alone.
 *
 * Limits, all refused with their place: 16 MiB of text, 100 levels, 1,000,000 values once aliases
 * and merge keys are expanded (an alias is a copy, so a node has one parent and may be changed).
 */
#ifndef ROUX_RECIPE_TREE_H
#define ROUX_RECIPE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/status.h"

enum { TREE_FILE_BYTES = 16 << 20, TREE_DEPTH = 100, TREE_VALUES = 1000000, TREE_FAULTS = 100 };

enum tree_kind { TREE_NULL, TREE_BOOL, TREE_INT, TREE_FLOAT, TREE_TEXT, TREE_LIST, TREE_MAP };

struct tree {
    enum tree_kind kind;
    const char *file; /* as it was named to tree_parse, or "override 2" */
    int line, column; /* from 1; 0 where it has none */
    const char *text; /* of a scalar: as written, without quotes and escapes; else NULL */
    union {
        bool truth;    /* TREE_BOOL */
        int64_t whole; /* TREE_INT */
        double number; /* TREE_FLOAT */
    };
    /* TREE_MAP: [count], scalars other than null, all different, in order of first insertion */
    struct tree **keys;
    struct tree **items; /* TREE_LIST, TREE_MAP: [count] */
    size_t count, room;
};

struct tree_fault {
    int line, column; /* from 1; 0 where it has none */
    const char *text;
};

/* In order of place. */
struct tree_faults {
    struct tree_fault item[TREE_FAULTS];
    int count;
};

/*
 * Reads one document. An empty one, and a single null, is an empty map; a lone scalar is refused, a
 * list is not. ERR_RECIPE with all mistakes in `faults`: duplicate keys and the like do not end the
 * reading, a mistake of syntax does. The error text is the first mistake with its place. `name` is
 * kept by the nodes. *out is NULL where nothing was read.
 */
MUST_USE status tree_parse(struct tree **out, struct tree_faults *faults, struct arena *a,
                           const char *name, const char *bytes, size_t length);

/* The same from a file. A missing, unreadable, too large or binary file is ERR_RECIPE too, and a
 * fault without a line. */
MUST_USE status tree_read(struct tree **out, struct tree_faults *faults, struct arena *a,
                          const char *path);

/* Sets kind, text and value of `t` as an unquoted scalar has them. False if it is an integer
 * beyond 64 bits (then it is a text). `text` is kept. */
bool tree_scalar(struct tree *t, const char *text);

/* A new node at the place of `at`. */
struct tree *tree_make(struct arena *a, enum tree_kind kind, const struct tree *at);
struct tree *tree_make_text(struct arena *a, const char *text, const struct tree *at);

void tree_add(struct arena *a, struct tree *list, struct tree *item);
void tree_put(struct arena *a, struct tree *map, struct tree *key,
              struct tree *value); /* the key is known to be new */

/* Index of a text key, or map->count. Linear: maps written by people are short. */
size_t tree_index(const struct tree *map, const char *key);
struct tree *tree_find(const struct tree *map, const char *key); /* NULL if it is not there */

/* The node at a dotted path of text keys, or NULL. */
const struct tree *tree_at(const struct tree *root, const char *path);

/* "null", "the integer 3", "the text 'abc'" (clipped, control characters escaped), "a list", "a
 * map". */
const char *tree_describe(struct arena *a, const struct tree *t);

/* `text` fit for a message: clipped at 80 bytes, control characters escaped. */
const char *tree_clip(struct arena *a, const char *text);

/* As YAML that reads back to the same values, each line `indent` blanks deep. Values below keys
 * that look like secrets * (…token, …password, …secret, …api_key) are written as null. */
void tree_print(const struct tree *t, int indent, FILE *to);
void tree_print_text(const char *text, FILE *to); /* a text, quoted where it must be */
bool tree_key_is_secret(const char *name);

#endif
