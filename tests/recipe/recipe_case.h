/* A recipe from a text, and what was found in it, as the tests of this room want it. */
#ifndef ROUX_TESTS_RECIPE_CASE_H
#define ROUX_TESTS_RECIPE_CASE_H

#include "support/expect.h"
#include "recipe/recipe.h"

struct recipe_case {
    struct arena arena;
    struct findings found;
    struct recipe recipe;
    status status;
    char *printed; /* the findings, as findings_print has them */
};

/* A recipe without findings. */
#define SMALL                            \
    "distributed_backend: mpi\n"         \
    "trainer:\n"                         \
    "  precision: 64\n"                  \
    "  max_steps: 20\n"                  \
    "model:\n"                           \
    "  do_finetune: false\n"             \
    "  fp8: false\n"                     \
    "  max_context_width: 64\n"          \
    "  hidden_size: 64\n"                \
    "  num_attention_heads: 4\n"         \
    "  num_key_value_heads: 2\n"         \
    "  intermediate_size: 128\n"         \
    "  num_hidden_layers: 2\n"           \
    "  vocab_size: 256\n"                \
    "  data: {train_dir: /data/train}\n" \
    "  optim: {sched: {warmup_steps: 5}}\n"

enum { CASE_OVERRIDES = 8 };

/* Reads `text` as the file "r.yaml"; `overrides` end with NULL. Checks the rules for `ranks`
 * ranks unless that is -1. */
static inline void case_read(struct recipe_case *c, const char *text, const char *const *overrides,
                             int ranks)
{
    size_t length = 0;
    int count = 0;
    FILE *to;

    *c = (struct recipe_case){ 0 };
    while (overrides != NULL && overrides[count] != NULL) {
        count++;
    }
    c->status = recipe_parse(&c->recipe, &c->found, &c->arena, "r.yaml", text, strlen(text),
                             overrides, count);
    if (ranks >= 0) {
        recipe_check(&c->recipe, &c->found, ranks);
    }
    to = open_memstream(&c->printed, &length);
    assert_non_null(to);
    findings_print(&c->found, to);
    fclose(to);
}

static inline void case_release(struct recipe_case *c)
{
    free(c->printed);
    arena_release(&c->arena);
}

static inline void expect_printed(const struct recipe_case *c, const char *part, bool wanted,
                                  const char *file, int line)
{
    if ((strstr(c->printed, part) != NULL) != wanted) {
        print_error("%s\"%s\" in:\n%s", wanted ? "expected " : "unexpected ", part, c->printed);
        _fail(file, line);
    }
}

/* The findings of `text` with the overrides, for `ranks` ranks, contain `part`. */
#define EXPECT_FOUND(part, text, ranks, ...)                                            \
    do {                                                                                \
        struct recipe_case case_;                                                       \
        case_read(&case_, (text), (const char *const[]){ __VA_ARGS__, NULL }, (ranks)); \
        expect_printed(&case_, (part), true, __FILE__, __LINE__);                       \
        case_release(&case_);                                                           \
    } while (0)

#define EXPECT_NOT_FOUND(part, text, ranks, ...)                                        \
    do {                                                                                \
        struct recipe_case case_;                                                       \
        case_read(&case_, (text), (const char *const[]){ __VA_ARGS__, NULL }, (ranks)); \
        expect_printed(&case_, (part), false, __FILE__, __LINE__);                      \
        case_release(&case_);                                                           \
    } while (0)

#endif
