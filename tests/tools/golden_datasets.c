/*
 * golden_datasets DIR: every folder that DIR/expected.jsonl names in json, json_bad and choice is
 * read or refused as it says: number of rows, sums, SHA-256 over all rows, first and last row; for
 * refusals the file, line, row and column of the message. Other forms, preference pairs and folders
 * that are not there are skipped by name.
 */
#include <jansson.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/text.h"
#include "data/corpus.h"
#include "tools/sha256.h"
#include "tools/tally.h"

enum { WHY = 1024 };

static int64_t number_of(const json_t *number)
{
    return json_is_real(number) ? (int64_t)json_real_value(number) : json_integer_value(number);
}

/* What all rows together come to. */
struct sums {
    struct sha256 hash;
    int64_t rows, tokens, ids, labels;
    struct text first, last;
};

static void add_list(struct text *t, const char *name, const int32_t *values, int64_t count)
{
    text_add_format(t, "\"%s\":[", name);
    for (int64_t i = 0; i < count; i++) {
        text_add_format(t, i == 0 ? "%d" : ",%d", values == NULL ? 1 : values[i]);
    }
    text_add_char(t, ']');
}

/* A row in the form that is hashed. The mask is not kept by the reader; the cases read here have
 * ones. */
static void add_row(struct sums *sums, const struct row *row)
{
    struct text t = { 0 };

    text_add_char(&t, '{');
    add_list(&t, "attention_mask", NULL, row->length);
    text_add_char(&t, ',');
    add_list(&t, "input_ids", row->ids, row->length);
    text_add_char(&t, ',');
    add_list(&t, "labels", row->labels, row->length);
    text_add(&t, "}");
    if (sums->rows == 0) {
        text_add(&sums->first, text_of(&t));
    }
    text_clear(&sums->last);
    text_add(&sums->last, text_of(&t));
    text_add_char(&t, '\n');
    sha256_add(&sums->hash, t.data, t.length);
    text_release(&t);
    sums->rows++;
    sums->tokens += row->length;
    for (int64_t i = 0; i < row->length; i++) {
        sums->ids += row->ids[i];
        sums->labels += row->labels[i];
    }
}

static status read_all(const char *folder, int64_t vocab, struct sums *sums)
{
    struct corpus c;
    struct arena a = { 0 };
    status s = corpus_open(&c, &folder, 1);

    for (int64_t i = 0; s == OK && i < c.rows; i++) {
        struct row row;

        s = corpus_row(&c, i, vocab, &a, &row);
        if (s == OK) {
            add_row(sums, &row);
        }
        arena_release(&a);
    }
    corpus_close(&c);
    return s;
}

/* The same text form of a row of expected.jsonl. */
static bool same_row(const struct text *got, const json_t *want)
{
    char *text = json_dumps(want, JSON_COMPACT | JSON_SORT_KEYS);
    bool same = strcmp(text, text_of(got)) == 0;

    free(text);
    return same;
}

static bool same_sums(struct sums *sums, const json_t *expected, char why[WHY])
{
    char hash[65];

    sha256_text(&sums->hash, hash);
    if (sums->rows != number_of(json_object_get(expected, "rows")) ||
        sums->tokens != number_of(json_object_get(expected, "count_input_ids")) ||
        sums->tokens != number_of(json_object_get(expected, "sum_attention_mask")) ||
        sums->ids != number_of(json_object_get(expected, "sum_input_ids")) ||
        sums->labels != number_of(json_object_get(expected, "sum_labels"))) {
        snprintf(why, WHY, "%lld rows, %lld tokens, ids sum to %lld, labels to %lld",
                 (long long)sums->rows, (long long)sums->tokens, (long long)sums->ids,
                 (long long)sums->labels);
        return false;
    }
    if (strcmp(hash, json_string_value(json_object_get(expected, "sha256"))) != 0) {
        snprintf(why, WHY, "the hash of all rows is %s", hash);
        return false;
    }
    if (!same_row(&sums->first, json_object_get(expected, "first")) ||
        !same_row(&sums->last, json_object_get(expected, "last"))) {
        snprintf(why, WHY, "first row %.200s, last row %.200s", text_of(&sums->first),
                 text_of(&sums->last));
        return false;
    }
    return true;
}

/* Does the message name file, line or row, and column, as far as the fault has them? */
static bool names_place(const char *message, const json_t *expected, char why[WHY])
{
    const char *file = json_string_value(json_object_get(expected, "file"));
    const char *column = json_string_value(json_object_get(expected, "column"));
    const json_t *line = json_object_get(expected, "line"), *row = json_object_get(expected, "row");
    char text[256];

    if (file != NULL && strstr(message, file) == NULL) {
        snprintf(why, WHY, "the message must name %s: %s", file, message);
        return false;
    }
    snprintf(text, sizeof text, "%s:%lld:", file == NULL ? "" : file, (long long)number_of(line));
    if (line != NULL && strstr(message, text) == NULL) {
        snprintf(why, WHY, "the message must name line %s %s", text, message);
        return false;
    }
    snprintf(text, sizeof text, "row %lld: ", (long long)number_of(row));
    if (row != NULL && strstr(message, text) == NULL) {
        snprintf(why, WHY, "the message must name %s %s", text, message);
        return false;
    }
    if (column != NULL && strstr(message, column) == NULL) {
        snprintf(why, WHY, "the message must name column %s: %s", column, message);
        return false;
    }
    return true;
}

static void judge(struct tally *t, const char *name, json_t *expected, status s, struct sums *sums)
{
    const char *verdict = json_string_value(json_object_get(expected, "verdict"));
    bool may_refuse = json_object_get(expected, "may_refuse") != NULL;
    char why[WHY] = "";

    if (strcmp(verdict, "ok") == 0 && s == OK) {
        same_sums(sums, expected, why) ? tally_pass(t, name, NULL) : tally_fail(t, name, why);
    } else if (strcmp(verdict, "ok") == 0 && !may_refuse) {
        tally_fail(t, name, fail_text());
    } else if (strcmp(verdict, "refuse") == 0 && s == OK) {
        tally_fail(t, name, "was read, must be refused");
    } else if (s == OK) {
        tally_pass(t, name, "read");
    } else if (status_exit_code(s) != 4) {
        tally_fail(t, name, "the exit code of a refusal must be 4");
    } else {
        names_place(fail_text(), expected, why) ? tally_pass(t, name, fail_text())
                                                : tally_fail(t, name, why);
    }
}

static void try_folder(struct tally *t, const char *dir, json_t *expected)
{
    const char *name = json_string_value(json_object_get(expected, "path"));
    const json_t *vocab = json_object_get(expected, "vocab_size");
    struct sums sums = { 0 };
    struct arena a = { 0 };
    const char *folder = path_join(&a, dir, name);
    status s;

    if (!text_starts(name, "json/") && !text_starts(name, "json_bad/") &&
        !text_starts(name, "choice/")) {
        tally_skip(t, name, "this form is not read yet");
    } else if (!file_is_folder(folder)) {
        tally_skip(t, name, "is not there");
    } else if (text_ends(name, "/dpo")) {
        tally_skip(t, name, "preference pairs are not read yet");
    } else {
        sha256_init(&sums.hash);
        s = read_all(folder, vocab == NULL ? INT32_MAX : number_of(vocab), &sums);
        if (s == ERR_UNSUPPORTED) {
            tally_skip(t, name, fail_text());
        } else {
            judge(t, name, expected, s, &sums);
        }
        text_release(&sums.first);
        text_release(&sums.last);
    }
    arena_release(&a);
}

int main(int argc, char **argv)
{
    struct tally t = { 0 };
    char list_path[4096], *line = NULL;
    size_t room = 0;
    FILE *list;

    if (argc != 2) {
        fprintf(stderr, "usage: golden_datasets DIR\n");
        return 2;
    }
    snprintf(list_path, sizeof list_path, "%s/expected.jsonl", argv[1]);
    list = fopen(list_path, "re");
    if (list == NULL) {
        perror(list_path);
        return 1;
    }
    for (int number = 1; getline(&line, &room, list) > 0; number++) {
        json_error_t error;
        json_t *expected = json_loads(line, JSON_ALLOW_NUL, &error);

        if (expected == NULL) { /* an integer beyond 64 bits, in the value of a fault */
            expected = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
        }
        if (expected == NULL) {
            fprintf(stderr, "%s:%d: %s\n", list_path, number, error.text);
            return 1;
        }
        try_folder(&t, argv[1], expected);
        json_decref(expected);
    }
    free(line);
    fclose(list);
    return tally_close(&t);
}
