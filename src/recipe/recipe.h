/*
 * Recipes: YAML text to a tree whose leaves know where they stand, overrides, and a typed struct.
 *
 *   recipe_read    file + overrides -> tree -> struct recipe, with all findings collected
 *
 * The key table keys.def drives parsing, defaults, ranges, help, `roux keys` and docs/keys.md: one
 * row a key. Composition of several files (defaults lists, references) is a later issue and happens
 * between tree and table.
 */
#ifndef ROUX_RECIPE_RECIPE_H
#define ROUX_RECIPE_RECIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/status.h"
#include "recipe/tree.h"

/*
 * The typed recipe: one member struct a section, one member a key, named as the key is; made from
 * keys.def by the preprocessor (the only place where that is done). Types: INT int64_t, FLOAT
 * double, BOOL bool, TEXT and CHOICE const char *, TEXTS and NUMBERS a counted list. A key that is
 * null (or left out with a null default) is 0, NaN, false, NULL or an empty list; recipe_given
 * tells whether someone wrote it.
 */
struct text_list {
    const char **item;
    int count;
};

struct number_list {
    double *item;
    int count;
};

#include "recipe/struct.h" /* struct recipe */

enum finding_kind { FINDING_ERROR, FINDING_WARNING, FINDING_NOTE };

struct finding {
    enum finding_kind kind;
    const char *file; /* or "override 2" */
    int line, column; /* from 1; 0 where it has none */
    const char *key;  /* dotted path, or NULL */
    const char *text; /* what was found, what is allowed, the nearest fix */
};

enum { FINDINGS_MOST = 500 }; /* what comes after that is not kept */

/* In order of place: the file by line, then the overrides, then what has no place. */
struct findings {
    struct finding *items;
    int count, room;
    struct arena *arena;
};

void findings_add(struct findings *f, enum finding_kind kind, const struct tree *at,
                  const char *key, const char *format, ...) FORMAT(5, 6);
int findings_errors(const struct findings *f);
bool findings_have_error(const struct findings *f, const char *key); /* about this very key */
/* "file:line:column: error: text" a line, in order of file and place; and a last line that
 * counts. */
void findings_print(const struct findings *f, FILE *to);

/*
 * Reads one recipe file with `key=value` overrides ("+key=", "++key=", "~key" as in Hydra; `model.`
 * keys as in the file, `recipes.model.` as launcher users write them).
 *
 * Some values are settled here, so that nobody below needs to know why:
 *   trainer.precision, model.precision    the effective one, "16", "32" or "64"; bf16 is "32" for now, with a warning
 *   model.lr_decay_iters                  trainer.max_steps where it is null or left out
 *   model.data.use_synthetic_data         true without a data section, and for dataset_type: synthetic
 *   model.fp8                             false where it is left out
 *   model.num_hidden_layers, num_attention_heads, rms_norm_eps, max_position_embeddings    after their other names
 *
 * Every problem becomes a finding; ERR_RECIPE if any is an error (the text says how many), with
 * `out` still usable for `check` as far as it goes. Values and texts live in `a`.
 */
MUST_USE status recipe_read(struct recipe *out, struct findings *found, struct arena *a,
                            const char *path, const char *const *overrides, int override_count);

/* The same from memory; `name` stands for the file in messages. */
MUST_USE status recipe_parse(struct recipe *out, struct findings *found, struct arena *a,
                             const char *name, const char *bytes, size_t length,
                             const char *const *overrides, int override_count);

/*
 * The rules between keys (facts: cross-field checks) for a job of `ranks` ranks; adds findings.
 * With 0 ranks the number is not known yet, and the rules about it are left out. Does nothing where
 * recipe_read found no tree.
 */
void recipe_check(const struct recipe *r, struct findings *found, int ranks);

/*
 * The length of the axis over which weights, gradients and moments are split (S), in a job of
 * `ranks` ranks. A given model.shard_degree is S, whatever the strategy; 1 is no sharding. Null: 1
 * for no_shard or fsdp: false; all ranks that tensor and expert degrees leave for full_shard,
 * shard_grad_op, and for every other strategy with a tensor degree above 1; else, for the hybrid
 * strategies, the largest divisor of those ranks that is at most 8 (a node of the reference).
 */
int64_t recipe_shard_degree(const struct recipe *r, int ranks);

/* Seconds of run.time_limit in any form that Slurm takes (D-HH:MM:SS, HH:MM:SS, MM, ...); 0 if
 * it is null, -1 if it is none of these forms. */
int64_t recipe_time_limit(const struct recipe *r);

/* Whether the key (dotted) was written in the file or an override (null counts as written). */
bool recipe_given(const struct recipe *r, const char *key);

/* The recipe as it is after overrides and defaults, as YAML. */
void recipe_print(const struct recipe *r, FILE *to);

/* The key table, for `roux keys` and the docs. */
struct key_row {
    const char *section, *name, *type, *fallback, *allowed, *help, *effect;
};
size_t recipe_keys(const struct key_row **rows);

#endif
