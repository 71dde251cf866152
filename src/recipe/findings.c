#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "recipe/recipe.h"

#define OVERRIDE "override "

/* Files come first, then overrides by number, then what has no place. */
static int rank_of_file(const char *file)
{
    if (file == NULL) {
        return 2;
    }
    return text_starts(file, OVERRIDE) ? 1 : 0;
}

/* Negative if `a` stands before `b`. */
static int compare(const struct finding *a, const struct finding *b)
{
    int rank = rank_of_file(a->file);

    if (rank != rank_of_file(b->file)) {
        return rank - rank_of_file(b->file);
    }
    if (rank == 0 && strcmp(a->file, b->file) != 0) {
        return strcmp(a->file, b->file);
    }
    if (rank == 1 && strcmp(a->file, b->file) != 0) {
        return atoi(a->file + strlen(OVERRIDE)) < atoi(b->file + strlen(OVERRIDE)) ? -1 : 1;
    }
    if (a->line != b->line) {
        return a->line < b->line ? -1 : 1;
    }
    return a->column - b->column;
}

static void make_room(struct findings *f)
{
    int room = f->room == 0 ? 16 : 2 * f->room;
    struct finding *items;

    if (f->count < f->room) {
        return;
    }
    items = arena_take_array(f->arena, (size_t)room, sizeof *items);
    if (f->count > 0) {
        memcpy(items, f->items, (size_t)f->count * sizeof *items);
    }
    f->items = items;
    f->room = room;
}

void findings_add(struct findings *f, enum finding_kind kind, const struct tree *at,
                  const char *key, const char *format, ...)
{
    struct finding new = { .kind = kind };
    va_list list;
    int to;

    check(f->arena != NULL, "findings without an arena");
    if (f->count >= FINDINGS_MOST && kind != FINDING_ERROR) {
        return;
    }
    if (f->count > FINDINGS_MOST) {
        return;
    }
    if (f->count == FINDINGS_MOST) {
        at = NULL;
        key = NULL;
        new.text = "there is more, which is not shown";
    } else {
        va_start(list, format);
        new.text = arena_format_list(f->arena, format, list);
        va_end(list);
    }
    if (at != NULL) {
        new.file = at->file;
        new.line = at->line;
        new.column = at->column;
    }
    new.key = key != NULL ? arena_text(f->arena, key) : NULL;
    make_room(f);
    for (to = f->count++; to > 0 && compare(&new, &f->items[to - 1]) < 0; to--) {
        f->items[to] = f->items[to - 1];
    }
    f->items[to] = new;
}

static int count_of(const struct findings *f, enum finding_kind kind)
{
    int count = 0;

    for (int i = 0; i < f->count; i++) {
        count += f->items[i].kind == kind;
    }
    return count;
}

int findings_errors(const struct findings *f)
{
    return count_of(f, FINDING_ERROR);
}

bool findings_have_error(const struct findings *f, const char *key)
{
    for (int i = 0; i < f->count; i++) {
        if (f->items[i].kind == FINDING_ERROR && f->items[i].key != NULL &&
            strcmp(f->items[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

void findings_print(const struct findings *f, FILE *to)
{
    static const char *const names[] = { "error", "warning", "note" };
    int errors = count_of(f, FINDING_ERROR), warnings = count_of(f, FINDING_WARNING),
        notes = count_of(f, FINDING_NOTE);

    for (int i = 0; i < f->count; i++) {
        const struct finding *item = &f->items[i];

        if (item->file != NULL) {
            fprintf(to, "%s:", item->file);
        }
        if (item->line > 0) {
            fprintf(to, "%d:%d:", item->line, item->column);
        }
        fprintf(to, "%s%s: %s\n", item->file != NULL ? " " : "", names[item->kind], item->text);
    }
    fprintf(to, "%d error%s, %d warning%s, %d note%s\n", errors, errors == 1 ? "" : "s", warnings,
            warnings == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
}
