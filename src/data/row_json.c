/*
 * Rows are checked while they are scanned, so that a fault can be shown where it stands. Columns
 * come in any order: each is kept as a list, and what concerns two of them is checked at the end.
 */
#include "data/row_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/json_scan.h"

enum column_number {
    INPUT_IDS,
    ATTENTION_MASK,
    LABELS,
    DOCUMENT_IDS,
    POSITION_IDS,
    COLUMNS,
    NEEDED = DOCUMENT_IDS
};

struct column {
    bool is_there;
    int64_t *values; /* in the arena */
    size_t count, room;
    size_t at; /* where its list begins, from the row's beginning */
};

struct parse {
    struct json_scan scan;
    int64_t vocab;
    struct column columns[COLUMNS];
    struct row_fault *fault;
    struct arena *arena;
};

static const char *const column_names[COLUMNS] = { "input_ids", "attention_mask", "labels",
                                                   "document_ids", "position_ids" };

/* Sets the fault where the scanner stands; `what` begins with the column, if there is one. */
FORMAT(2, 3) static bool wrong(struct parse *p, const char *format, ...)
{
    va_list list;

    p->fault->at = (size_t)(p->scan.at - p->scan.begin);
    va_start(list, format);
    vsnprintf(p->fault->text, sizeof p->fault->text, format, list);
    va_end(list);
    return false;
}

/* The scanner's problem. `kind_wanted` is what had to stand there. */
static bool scan_wrong(struct parse *p, const char *column)
{
    char found[JSON_FOUND];

    return wrong(p, "%s%s%s (found: %s)", column, *column == '\0' ? "" : ": ", p->scan.problem,
                 json_found(&p->scan, found));
}

static bool check_value(struct parse *p, enum column_number number, size_t position, int64_t value)
{
    const struct column *c = &p->columns[number];
    const char *name = column_names[number];

    if (number == INPUT_IDS && (value < 0 || value >= p->vocab)) {
        return wrong(p, "%s[%zu]: found %lld, ids of this vocabulary are 0 to %lld", name, position,
                     (long long)value, (long long)p->vocab - 1);
    }
    if (number == LABELS && value != -100 && (value < 0 || value >= p->vocab)) {
        return wrong(p, "%s[%zu]: found %lld, a label is -100 (not scored) or an id, 0 to %lld",
                     name, position, (long long)value, (long long)p->vocab - 1);
    }
    if (number == POSITION_IDS) {
        int64_t next = position == 0 ? 0 : c->values[position - 1] + 1;

        if (value != 0 && value != next) {
            return wrong(p,
                         "%s[%zu]: found %lld, allowed are %lld (the next position) and 0 (a "
                         "document begins)",
                         name, position, (long long)value, (long long)next);
        }
    }
    return true;
}

static bool read_value(struct parse *p, enum column_number number)
{
    struct column *c = &p->columns[number];
    const char *begin;
    int64_t value = 0;

    (void)json_next(&p->scan);
    begin = p->scan.at;
    if (!json_whole(&p->scan, &value)) {
        char column[40];

        snprintf(column, sizeof column, "%s[%zu]", column_names[number], c->count);
        return scan_wrong(p, column);
    }
    if (c->count == c->room) {
        int64_t *longer =
            arena_take_array(p->arena, c->room == 0 ? 512 : 2 * c->room, sizeof *longer);

        if (c->count > 0) {
            memcpy(longer, c->values, c->count * sizeof *longer);
        }
        c->values = longer;
        c->room = c->room == 0 ? 512 : 2 * c->room;
    }
    c->values[c->count] = value;
    if (!check_value(p, number, c->count, value)) {
        p->fault->at = (size_t)(begin - p->scan.begin);
        return false;
    }
    c->count++;
    return true;
}

static bool read_column(struct parse *p, enum column_number number)
{
    struct column *c = &p->columns[number];
    struct json_scan *s = &p->scan;

    if (c->is_there) {
        return wrong(p, "%s stands twice in this row", column_names[number]);
    }
    c->is_there = true;
    (void)json_next(s);
    c->at = (size_t)(s->at - s->begin);
    if (!json_open(s, '[')) {
        char found[JSON_FOUND];

        return wrong(p, "%s: a list of integers must stand here (found: %s)", column_names[number],
                     json_found(s, found));
    }
    while (json_more(s, ']', c->count)) {
        if (!read_value(p, number)) {
            return false;
        }
    }
    return s->problem == NULL || scan_wrong(p, column_names[number]);
}

static bool read_object(struct parse *p)
{
    struct json_scan *s = &p->scan;

    if (!json_open(s, '{')) {
        return scan_wrong(p, "");
    }
    for (size_t seen = 0; json_more(s, '}', seen); seen++) {
        struct json_string key;
        int number = 0;

        if (!json_key(s, &key)) {
            return scan_wrong(p, "");
        }
        while (number < COLUMNS && !json_string_is(&key, column_names[number])) {
            number++;
        }
        if (number < COLUMNS) {
            if (!read_column(p, (enum column_number)number)) {
                return false;
            }
        } else if (!json_skip(s)) {
            return scan_wrong(p, "");
        }
    }
    return (s->problem == NULL && json_end(s)) || scan_wrong(p, "");
}

static bool check_columns(struct parse *p)
{
    for (int number = 0; number < COLUMNS; number++) {
        const struct column *c = &p->columns[number];

        if (!c->is_there && number < NEEDED) {
            p->scan.at = p->scan.begin;
            return wrong(p, "%s is missing; every row needs input_ids, attention_mask and labels",
                         column_names[number]);
        }
        if (c->is_there && c->count != p->columns[INPUT_IDS].count) {
            p->scan.at = p->scan.begin + c->at;
            return wrong(p, "%s has %zu values, input_ids has %zu: they must be equal",
                         column_names[number], c->count, p->columns[INPUT_IDS].count);
        }
    }
    return true;
}

static bool document_begins(const struct parse *p, size_t at)
{
    const struct column *documents = &p->columns[DOCUMENT_IDS],
                        *positions = &p->columns[POSITION_IDS];

    return at == 0 || (documents->is_there && documents->values[at] != documents->values[at - 1]) ||
           (positions->is_there && positions->values[at] == 0);
}

static void fill_row(const struct parse *p, struct row *out)
{
    size_t count = p->columns[INPUT_IDS].count;
    int32_t start = 0;

    out->length = (int64_t)count;
    out->ids = arena_take_array(p->arena, count, sizeof *out->ids);
    out->labels = arena_take_array(p->arena, count, sizeof *out->labels);
    out->starts = arena_take_array(p->arena, count, sizeof *out->starts);
    for (size_t i = 0; i < count; i++) {
        start = document_begins(p, i) ? (int32_t)i : start;
        out->ids[i] = (int32_t)p->columns[INPUT_IDS].values[i];
        out->labels[i] = (int32_t)p->columns[LABELS].values[i];
        out->starts[i] = start;
    }
}

bool row_parse(const char *bytes, size_t length, int64_t vocab, struct arena *a, struct row *out,
               struct row_fault *fault)
{
    struct parse p = { .vocab = vocab, .fault = fault, .arena = a };
    bool good;

    check(vocab > 0 && vocab <= INT32_MAX, "vocabulary of %lld", (long long)vocab);
    json_scan_init(&p.scan, bytes, length);
    good = read_object(&p) && check_columns(&p);
    if (good) {
        fill_row(&p, out);
    }
    return good;
}
