/* The key table in itself, and docs/keys.md against it. ROUX_WRITE_DOCS=1 writes the page
 * instead of comparing it. */
#include <unistd.h>
#include "support/expect.h"
#include "base/file.h"
#include "base/text.h"
#include "recipe/recipe.h"

static void rows_are_whole_and_different(void **state)
{
    const struct key_row *rows;
    size_t count = recipe_keys(&rows);

    (void)state;
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) {
        assert_true(*rows[i].name != '\0' && *rows[i].help != '\0' && *rows[i].type != '\0');
        assert_true(*rows[i].fallback != '\0' && *rows[i].effect != '\0');
        if (strcmp(rows[i].type, "choice") == 0) {
            assert_true(*rows[i].allowed != '\0');
        }
        for (size_t j = 0; j < i; j++) {
            assert_false(strcmp(rows[i].name, rows[j].name) == 0 &&
                         strcmp(rows[i].section, rows[j].section) == 0);
        }
    }
}

/* "1..8|null" as people write it; the bars of choices would end a cell of the table. */
static void add_allowed(struct text *page, const char *allowed)
{
    const char *dots = strstr(allowed, "..");

    if (dots != NULL) {
        const char *high = dots + 2;
        size_t length = strcspn(high, "|");

        text_add_n(page, allowed, (size_t)(dots - allowed));
        if (length > 0) {
            text_add(page, " to ");
            text_add_n(page, high, length);
        } else {
            text_add(page, " or more");
        }
        text_add(page, high[length] == '|' ? ", null" : "");
        return;
    }
    for (const char *c = allowed; *c != '\0'; c++) {
        if (*c != '|') {
            text_add_char(page, *c);
        } else if (c != allowed) {
            text_add(page, ", ");
        }
    }
}

static void write_page(struct text *page)
{
    const struct key_row *rows;
    size_t count = recipe_keys(&rows);
    const char *section = NULL;

    text_add(page, "# Keys of a recipe\n\n"
                   "Made from `src/recipe/keys.def`; do not edit. `roux keys` prints the same.\n"
                   "Keys marked *not built yet* are known and refused where they ask for something "
                   "real; those with *no\n"
                   "effect here* belong to the reference's machinery and change nothing. A key "
                   "whose default is null takes "
                   "null.\n");
    for (size_t i = 0; i < count; i++) {
        if (section == NULL || strcmp(section, rows[i].section) != 0) {
            section = rows[i].section;
            text_add_format(page,
                            "\n## %s\n\n| key | type | default | allowed | meaning | effect |\n"
                            "| --- | --- | --- | --- | --- | --- |\n",
                            *section == '\0' ? "(top)" : section);
        }
        text_add_format(page, "| `%s` | %s | %s | ", rows[i].name, rows[i].type, rows[i].fallback);
        add_allowed(page, rows[i].allowed);
        text_add_format(page, " | %s | %s |\n", rows[i].help, rows[i].effect);
    }
}

static void the_page_of_keys_is_up_to_date(void **state)
{
    struct arena a = { 0 };
    struct text page = { 0 };
    const char *source = getenv("ROUX_SOURCE");
    const char *path;
    char *bytes;
    size_t length;

    (void)state;
    if (source == NULL) {
        skip();
    }
    path = path_join(&a, source, "docs/keys.md");
    write_page(&page);
    if (getenv("ROUX_WRITE_DOCS") != NULL) {
        EXPECT_OK(file_replace(path, page.data, page.length));
    }
    EXPECT_OK(file_read(&a, path, 1 << 20, &bytes, &length));
    if (strcmp(bytes, text_of(&page)) != 0) {
        print_error("docs/keys.md differs from keys.def: run this test with ROUX_WRITE_DOCS=1\n");
        _fail(__FILE__, __LINE__);
    }
    text_release(&page);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole_and_different),
        cmocka_unit_test(the_page_of_keys_is_up_to_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
