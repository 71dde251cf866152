/*
 * Any bytes as a recipe: read, checked and printed. The last line is also an override. A recipe
 * without errors must print as a recipe without errors; and what that prints (secrets are gone by
 * then) must not change any more.
 */
#include <stdlib.h>
#include <string.h>
#include "recipe/recipe.h"

static char *print_to_memory(const struct recipe *r)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);

    check(to != NULL, "no memory stream");
    recipe_print(r, to);
    fclose(to);
    return text;
}

/* The recipe `text` printed again; frees the text. */
static char *print_again(char *text)
{
    struct arena a = { 0 };
    struct findings found = { 0 };
    struct recipe r;
    status s = recipe_parse(&r, &found, &a, "printed", text, strlen(text), NULL, 0);
    char *again;

    check(s == OK, "a printed recipe is refused: %s\n%s", fail_text(), text);
    again = print_to_memory(&r);
    arena_release(&a);
    free(text);
    return again;
}

static void check_printing(const struct recipe *r)
{
    char *once = print_again(print_to_memory(r));
    char *twice = print_again(strdup(once));

    check(strcmp(once, twice) == 0, "printed differently:\n%s\n%s", once, twice);
    free(once);
    free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = { 0 };
    struct findings found = { 0 };
    struct recipe r;
    const char *bytes = arena_text_n(&a, (const char *)data, size);
    const char *line = strrchr(bytes, '\n'), *token = line != NULL ? line + 1 : bytes;
    const char *overrides[] = { token };
    status s = recipe_parse(&r, &found, &a, "fuzz", bytes, size, overrides, token[0] != '\0');

    if (s == OK) {
        check_printing(&r);
    }
    recipe_check(&r, &found, 8);
    arena_release(&a);
    return 0;
}
