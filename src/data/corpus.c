/*
 * A corpus is its sources, row by row in turn: row i is row i / n of source i mod n, and the
 * shortest source ends the corpus. Each folder is one source; which files count is decided once,
 * over all folders.
 */
#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "data/corpus_source.h"

enum { LISTED_NAMES = 8 };

/* The forms by ending; the first that is there decides. */
static const struct {
    const char *ending, *called;
    bool is_read;
} forms[] = {
    { ".arrow", "Arrow", false },
    { ".json.gz", "JSON.GZ", false },
    { ".json", "JSON", true },
};

enum { FORMS = sizeof forms / sizeof forms[0] };

struct folder_files {
    char **names;
    size_t count;
};

/* The regular files directly inside the folder, sorted by name. */
static status list_files(struct arena *a, const char *folder, struct folder_files *out)
{
    char **all;
    size_t count;

    if (file_is_there(folder) && !file_is_folder(folder)) {
        return fail(ERR_FORMAT, "%s: is a file; the folder that holds it is needed", folder);
    }
    TRY(folder_list(a, folder, &all, &count));
    *out = (struct folder_files){ .names = arena_take_array(a, count, sizeof *out->names) };
    for (size_t i = 0; i < count; i++) {
        if (!file_is_folder(path_join(a, folder, all[i]))) {
            out->names[out->count++] = all[i];
        }
    }
    return OK;
}

/* The message for a folder in which nothing counts: it lists what was found. */
static status nothing_fits(const char *folder, const char *ending, const struct folder_files *files)
{
    struct text list = { 0 };
    status s;

    for (size_t i = 0; i < files->count && i < LISTED_NAMES; i++) {
        text_add_format(&list, "%s%s", i == 0 ? "" : ", ", files->names[i]);
    }
    if (files->count > LISTED_NAMES) {
        text_add_format(&list, " and %zu more", files->count - LISTED_NAMES);
    }
    s = fail(ERR_MISSING, "%s: holds no file that ends in %s; found: %s", folder, ending,
             files->count == 0 ? "no file at all" : text_of(&list));
    text_release(&list);
    return s;
}

/* The form of the whole corpus: the first of the table of which any folder has a file. FORMS if
 * none has. */
static int choose_form(const char *const *folders, const struct folder_files *files,
                       int folder_count, const char **folder, const char **name)
{
    for (int form = 0; form < FORMS; form++) {
        for (int i = 0; i < folder_count; i++) {
            for (size_t k = 0; k < files[i].count; k++) {
                if (text_ends(files[i].names[k], forms[form].ending)) {
                    *folder = folders[i];
                    *name = files[i].names[k];
                    return form;
                }
            }
        }
    }
    return FORMS;
}

/* The folder's files with the ending, as a source. */
static status open_source(struct corpus_source *s, struct arena *a, const char *folder,
                          const struct folder_files *files, const char *ending)
{
    char **kept = arena_take_array(a, files->count, sizeof *kept);
    size_t count = 0;

    for (size_t i = 0; i < files->count; i++) {
        if (text_ends(files->names[i], ending)) {
            kept[count++] = files->names[i];
        }
    }
    if (count == 0) {
        return nothing_fits(folder, ending, files);
    }
    TRY(json_source_open(s, folder, kept, count));
    if (s->rows == 0) {
        return fail(ERR_FORMAT, "%s: %s holds no row", folder,
                    count == 1 ? kept[0] : "none of its files");
    }
    return OK;
}

static status open_sources(struct corpus *c, struct arena *a, const char *const *folders,
                           const struct folder_files *files)
{
    const char *folder = NULL, *name = NULL;
    int form = choose_form(folders, files, c->source_count, &folder, &name);

    if (form == FORMS) {
        return nothing_fits(folders[0], ".json", &files[0]);
    }
    if (!forms[form].is_read) {
        return fail(
            ERR_UNSUPPORTED,
            "%s: holds %s, and %s data sets are not read yet: give a folder of .json files only",
            folder, name, forms[form].called);
    }
    for (int i = 0; i < c->source_count; i++) {
        TRY(open_source(&c->sources[i], a, folders[i], &files[i], forms[form].ending));
    }
    return OK;
}

status corpus_open(struct corpus *c, const char *const *folders, int folder_count)
{
    struct arena scratch = { 0 };
    struct folder_files *files;
    int64_t shortest = INT64_MAX;
    status s = OK;

    check(folder_count > 0, "a corpus of no folder");
    *c = (struct corpus){ .sources = calloc((size_t)folder_count, sizeof *c->sources),
                          .source_count = folder_count };
    check(c->sources != NULL, "no memory for %d sources", folder_count);
    files = arena_take_array(&scratch, (size_t)folder_count, sizeof *files);
    for (int i = 0; i < folder_count; i++) {
        TRY_OR(done, s, list_files(&scratch, folders[i], &files[i]));
    }
    TRY_OR(done, s, open_sources(c, &scratch, folders, files));
    for (int i = 0; i < folder_count; i++) {
        shortest = c->sources[i].rows < shortest ? c->sources[i].rows : shortest;
    }
    if (__builtin_mul_overflow(shortest, (int64_t)folder_count, &c->rows)) {
        s = fail(ERR_FORMAT, "%s and %d more: too many rows", folders[0], folder_count - 1);
    }
done:
    arena_release(&scratch);
    if (s != OK) {
        corpus_close(c);
    }
    return s;
}

status corpus_synthetic(struct corpus *c, uint64_t seed, int64_t length, int64_t vocab)
{
    if (length < 1 || length > INT32_MAX || vocab < 1 || vocab > INT32_MAX) {
        return fail(
            ERR_RECIPE,
            "synthetic rows of %lld ids in a vocabulary of %lld: both must be 1 to 2^31 - 1",
            (long long)length, (long long)vocab);
    }
    *c = (struct corpus){ .sources = calloc(1, sizeof *c->sources), .source_count = 1 };
    check(c->sources != NULL, "no memory for one source");
    synthetic_source_open(&c->sources[0], seed, length, vocab);
    c->rows = c->sources[0].rows;
    return OK;
}

status corpus_row(const struct corpus *c, int64_t index, int64_t vocab, struct arena *a,
                  struct row *out)
{
    const struct corpus_source *s;

    check(index >= 0 && index < c->rows, "row %lld of a corpus of %lld", (long long)index,
          (long long)c->rows);
    s = &c->sources[index % c->source_count];
    return s->kind->read(s, index / c->source_count, vocab, a, out);
}

void corpus_close(struct corpus *c)
{
    for (int i = 0; i < c->source_count; i++) {
        if (c->sources[i].kind != NULL) {
            c->sources[i].kind->close(&c->sources[i]);
        }
    }
    free(c->sources);
    *c = (struct corpus){ 0 };
}
