/*
 * compare_tensors A B [--tolerance X] [--bits] [--prefix P]
 *
 * A and B are safetensors files or model folders. Both must hold the same names, shapes and
 * numbers: for every tensor the largest difference is divided by the largest magnitude in A's
 * tensor, and no quotient may be beyond X (0 if it is not given). --bits asks for the same types
 * and the same bytes instead. --prefix looks only at names that begin with P.
 *
 * Prints a line for each tensor that is missing or differs in shape or type, one for the worst of
 * the others, and the count. Exit code 0 if all agree, 1 if not or if there was nothing to compare,
 * 2 if it was called wrongly or a file could not be read.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "store/safetensors.h"

enum { CHUNK = 1 << 16 };

struct side {
    const char *path;
    bool is_folder;
    struct tensor_file file;
    struct tensor_folder folder;
    const struct map *by_name;
};

struct comparison {
    struct side a, b;
    const char *prefix;
    double tolerance;
    bool bits;
    int compared, failed;
    double worst;
    const char *worst_name;
};

static status side_open(struct side *s, struct arena *a)
{
    s->is_folder = file_is_folder(s->path);
    if (s->is_folder) {
        TRY(tensor_folder_open(&s->folder, a, s->path));
        s->by_name = &s->folder.by_name;
    } else {
        TRY(tensor_file_open(&s->file, a, s->path));
        s->by_name = &s->file.by_name;
    }
    return OK;
}

static void side_close(struct side *s)
{
    tensor_folder_close(&s->folder);
    if (!s->is_folder) {
        tensor_file_close(&s->file);
    }
}

static status side_read(const struct side *s, const struct tensor_entry *e, int64_t from,
                        int64_t count, enum dtype to, void *out)
{
    return s->is_folder ? tensor_folder_read(&s->folder, e, from, count, to, out)
                        : tensor_file_read(&s->file, e, from, count, to, out);
}

static bool same_shape(const struct tensor_entry *a, const struct tensor_entry *b)
{
    bool same = a->rank == b->rank;

    for (int i = 0; same && i < a->rank; i++) {
        same = a->shape[i] == b->shape[i];
    }
    return same;
}

/* The same, to the sign of zero and the payload of NaN? */
static status compare_bits(const struct comparison *c, const struct tensor_entry *x,
                           const struct tensor_entry *y, bool *same)
{
    static char left[CHUNK * 8], right[CHUNK * 8];
    size_t width = dtype_bytes(x->dtype);

    for (int64_t i = 0; *same && i < x->count; i += CHUNK) {
        int64_t n = x->count - i < CHUNK ? x->count - i : CHUNK;

        TRY(side_read(&c->a, x, i, n, x->dtype, left));
        TRY(side_read(&c->b, y, i, n, x->dtype, right));
        *same = memcmp(left, right, (size_t)n * width) == 0;
    }
    return OK;
}

/* The largest difference and the largest magnitude of x; a NaN on one side alone, or two unlike
 * infinities, differ without bound. */
static status compare_values(const struct comparison *c, const struct tensor_entry *x,
                             const struct tensor_entry *y, double *quotient)
{
    static double left[CHUNK], right[CHUNK];
    double difference = 0, largest = 0;

    for (int64_t i = 0; i < x->count; i += CHUNK) {
        int64_t n = x->count - i < CHUNK ? x->count - i : CHUNK;

        TRY(side_read(&c->a, x, i, n, DT_F64, left));
        TRY(side_read(&c->b, y, i, n, DT_F64, right));
        for (int64_t k = 0; k < n; k++) {
            double apart = left[k] == right[k] || (isnan(left[k]) && isnan(right[k]))
                               ? 0
                               : fabs(left[k] - right[k]);

            difference = isnan(apart) ? INFINITY : fmax(difference, apart);
            largest = fmax(largest, isfinite(left[k]) ? fabs(left[k]) : 0);
        }
    }
    *quotient = difference == 0 ? 0 : difference / largest;
    return OK;
}

static status compare_pair(struct comparison *c, const struct tensor_entry *x,
                           const struct tensor_entry *y)
{
    double quotient = 0;
    bool same = true;

    c->compared++;
    if (!same_shape(x, y) || (c->bits && x->dtype != y->dtype)) {
        printf("FAIL %s: differs in shape or type\n", x->name);
        c->failed++;
        return OK;
    }
    if (c->bits) {
        TRY(compare_bits(c, x, y, &same));
    }
    /* Integers beyond 2^53 have no exact double, but bits have been compared for them. */
    if (!c->bits || !same) {
        TRY(compare_values(c, x, y, &quotient));
    }
    if (c->worst_name == NULL || quotient > c->worst) {
        c->worst = quotient;
        c->worst_name = x->name;
    }
    if (c->bits ? !same : !(quotient <= c->tolerance)) {
        printf("FAIL %s: apart by %.3g of its largest entry\n", x->name, quotient);
        c->failed++;
    }
    return OK;
}

/* Every tensor of `from`; where the other has it too, the pair is compared if `pairs` says so. */
static status walk(struct comparison *c, const struct side *from, const struct side *other,
                   bool pairs)
{
    for (size_t i = 0; i < from->by_name->count; i++) {
        const char *name = from->by_name->entries[i].key;
        void *found = NULL;

        if (!text_starts(name, c->prefix)) {
            continue;
        }
        if (!map_find(other->by_name, name, &found)) {
            printf("FAIL %s: is in %s, but not in %s\n", name, from->path, other->path);
            c->failed++;
        } else if (pairs) {
            TRY(compare_pair(c, from->by_name->entries[i].value, found));
        }
    }
    return OK;
}

static status compare(struct comparison *c, struct arena *a)
{
    status s;

    TRY_OR(close, s, side_open(&c->a, a));
    TRY_OR(close, s, side_open(&c->b, a));
    TRY_OR(close, s, walk(c, &c->a, &c->b, true));
    TRY_OR(close, s, walk(c, &c->b, &c->a, false));
    if (c->worst_name != NULL) {
        printf("worst %s: %.3g of its largest entry\n", c->worst_name, c->worst);
    }
    printf("%d compared, %d failed\n", c->compared, c->failed);
close:
    side_close(&c->a);
    side_close(&c->b);
    return s;
}

static bool arguments(struct comparison *c, int count, char **words)
{
    for (int i = 1; i < count; i++) {
        char *end = NULL;

        if (strcmp(words[i], "--bits") == 0) {
            c->bits = true;
        } else if (strcmp(words[i], "--prefix") == 0 && i + 1 < count) {
            c->prefix = words[++i];
        } else if (strcmp(words[i], "--tolerance") == 0 && i + 1 < count) {
            c->tolerance = strtod(words[++i], &end);
            if (end == words[i] || *end != '\0' || !(c->tolerance >= 0)) {
                return false;
            }
        } else if (text_starts(words[i], "--")) {
            return false;
        } else if (c->a.path == NULL) {
            c->a.path = words[i];
        } else if (c->b.path == NULL) {
            c->b.path = words[i];
        } else {
            return false;
        }
    }
    return c->b.path != NULL && !(c->bits && c->tolerance > 0);
}

int main(int count, char **words)
{
    struct comparison c = { .prefix = "", .a.file.fd = -1, .b.file.fd = -1 };
    struct arena a = { 0 };
    status s;

    if (!arguments(&c, count, words)) {
        fprintf(stderr, "usage: compare_tensors A B [--tolerance X | --bits] [--prefix P]\n");
        return 2;
    }
    s = compare(&c, &a);
    if (s != OK) {
        fprintf(stderr, "%s\n", fail_text());
    }
    arena_release(&a);
    return s != OK ? 2 : c.failed > 0 || c.compared == 0;
}
