#include "train/calibration.h"

#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

enum { FILE_LIMIT = 16 << 20 };

void calibration_init(struct calibration *c, struct arena *a)
{
    *c = (struct calibration){ .points =
                                   arena_take_array(a, CALIBRATION_POINTS, sizeof *c->points) };
}

void calibration_add(struct calibration *c, const struct calibration_point *point)
{
    for (int i = 0; i < c->count; i++) {
        if (c->points[i].op == point->op &&
            memcmp(c->points[i].size, point->size, sizeof point->size) == 0) {
            c->points[i] = *point;
            return;
        }
    }
    if (c->count < CALIBRATION_POINTS) {
        c->points[c->count++] = *point;
    }
}

/* ---- the key ---- */

/* The value behind `name` in a line of /proc/cpuinfo. */
static bool cpu_field(const char *line, const char *name, const char **value)
{
    size_t length = strlen(name);
    const char *colon = strchr(line, ':');

    if (strncmp(line, name, length) != 0 || strchr(" \t:", line[length]) == NULL || colon == NULL) {
        return false;
    }
    *value = colon + 1 + strspn(colon + 1, " \t");
    return true;
}

/* "Intel(R) Xeon(R) Processor, family 6, model 143": names alone are vague on virtual machines. */
static void cpu_name(char *out, size_t room)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512], name[80] = "unknown processor";
    int family = 0, model = 0;
    bool named = false;

    while (f != NULL && !named && fgets(line, sizeof line, f) != NULL) {
        const char *value;

        line[strcspn(line, "\n")] = 0;
        if (cpu_field(line, "cpu family", &value)) {
            family = atoi(value);
        } else if (cpu_field(line, "model name", &value)) {
            snprintf(name, sizeof name, "%s", value);
            named = true;
        } else if (cpu_field(line, "model", &value)) {
            model = atoi(value);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    snprintf(out, room, "%s, family %d, model %d", name, family, model);
}

void calibration_key_here(struct calibration_key *out, const struct kernels *kernels, int threads)
{
    cpu_set_t set;

    *out = (struct calibration_key){ .threads = threads, .cores = 1 };
    cpu_name(out->cpu, sizeof out->cpu);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        out->cores = CPU_COUNT(&set);
    }
    snprintf(out->family, sizeof out->family, "%s", kernels->family);
    snprintf(out->precision, sizeof out->precision, "%s", precision_name(kernels->real));
    snprintf(out->version, sizeof out->version, "%s", ROUX_VERSION);
}

status calibration_path(struct arena *a, const char **out)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache != NULL && cache[0] == '/') {
        *out = path_join(a, cache, "roux/calibration.json");
        return OK;
    }
    if (home != NULL && home[0] != 0) {
        *out = path_join(a, home, ".cache/roux/calibration.json");
        return OK;
    }
    return fail(ERR_MISSING,
                "a calibration is kept in $XDG_CACHE_HOME/roux, else in ~/.cache/roux, "
                "but neither XDG_CACHE_HOME nor HOME is set; set one of them");
}

/* ---- reading ---- */

static bool read_text(const json_t *entry, const char *key, char *out, size_t room)
{
    const char *text = json_string_value(json_object_get(entry, key));

    if (text == NULL || strlen(text) >= room) {
        return false;
    }
    snprintf(out, room, "%s", text);
    return true;
}

static bool read_number(const json_t *value, double least, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= least;
}

static bool read_count(const json_t *entry, const char *key, int *out)
{
    json_t *value = json_object_get(entry, key);
    json_int_t count = json_integer_value(value);

    *out = (int)count;
    return json_is_integer(value) && count >= 1 && count <= 65536;
}

static bool read_key(const json_t *entry, struct calibration_key *out)
{
    *out = (struct calibration_key){ 0 };
    return read_text(entry, "cpu", out->cpu, sizeof out->cpu) &&
           read_text(entry, "family", out->family, sizeof out->family) &&
           read_text(entry, "precision", out->precision, sizeof out->precision) &&
           read_text(entry, "version", out->version, sizeof out->version) &&
           read_count(entry, "cores", &out->cores) && read_count(entry, "threads", &out->threads);
}

static enum op op_called(const char *name)
{
    for (int i = 1; name != NULL && i < OP_COUNT; i++) {
        if (strcmp(op_name((enum op)i), name) == 0) {
            return (enum op)i;
        }
    }
    return OP_NONE;
}

/* ["linear", rows, K, N, work, seconds] */
static bool read_point(const json_t *row, struct calibration_point *out)
{
    static const double tiny = 1e-12;

    if (json_array_size(row) != 6) {
        return false;
    }
    out->op = op_called(json_string_value(json_array_get(row, 0)));
    for (size_t i = 0; i < 3; i++) {
        if (!read_number(json_array_get(row, i + 1), 1, &out->size[i])) {
            return false;
        }
    }
    return out->op != OP_NONE && read_number(json_array_get(row, 4), tiny, &out->work) &&
           read_number(json_array_get(row, 5), tiny, &out->seconds);
}

static bool read_entry(const json_t *entry, struct calibration *out)
{
    json_t *points = json_object_get(entry, "points");

    if (!read_key(entry, &out->key) ||
        !read_number(json_object_get(entry, "peak_flops"), 1, &out->peak) ||
        !read_number(json_object_get(entry, "memory_bytes"), 1, &out->memory) ||
        !read_number(json_object_get(entry, "barrier_seconds"), 0, &out->barrier_seconds) ||
        json_array_size(points) < 1 || json_array_size(points) > CALIBRATION_POINTS) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(points); i++) {
        struct calibration_point point;

        if (!read_point(json_array_get(points, i), &point)) {
            return false;
        }
        calibration_add(out, &point);
    }
    return true;
}

/* The list of entries, checked to be one; ERR_MISSING, or what is wrong. */
static status read_file(const char *path, json_t **out)
{
    struct arena a = { 0 };
    char *bytes;
    size_t length;
    json_error_t error;
    json_t *root;
    status s;

    *out = NULL;
    TRY_OR(release, s, file_read(&a, path, FILE_LIMIT, &bytes, &length));
    root = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        s = fail(ERR_FORMAT, "%s:%d: %s", path, error.line, error.text);
    } else if (!json_is_array(json_object_get(root, "entries"))) {
        s = fail(ERR_FORMAT, "%s: it has no list \"entries\"", path);
    } else {
        *out = json_incref(json_object_get(root, "entries"));
    }
    json_decref(root);
release:
    arena_release(&a);
    return s;
}

/* ---- which entry ---- */

/* What of an entry's key is not as it should be, as text; the number of such parts. */
static int differences(const struct calibration_key *is, const struct calibration_key *want,
                       struct text *t)
{
    const struct {
        const char *what, *is, *want;
    } words[] = { { "processor", is->cpu, want->cpu },
                  { "kernels", is->family, want->family },
                  { "precision", is->precision, want->precision },
                  { "roux", is->version, want->version } };
    const struct {
        const char *what;
        int is, want;
    } counts[] = { { "cores", is->cores, want->cores }, { "threads", is->threads, want->threads } };
    int n = 0;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].is, words[i].want) != 0) {
            text_add_format(t, "%s%s %s, here %s", n++ > 0 ? "; " : "", words[i].what, words[i].is,
                            words[i].want);
        }
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].is != counts[i].want) {
            text_add_format(t, "%s%s %d, here %d", n++ > 0 ? "; " : "", counts[i].what,
                            counts[i].is, counts[i].want);
        }
    }
    return n;
}

/* Entries of other keys may be of another version's making: of them only the key is read. */
static enum calibration_found pick(const json_t *entries, struct calibration *out, struct arena *a,
                                   const char *path, const struct calibration_key *key,
                                   const char **why)
{
    int least = 100;

    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        struct calibration_key is;
        struct text t = { 0 };
        int n = 0;
        bool sound = read_key(entry, &is);

        if (sound) {
            n = differences(&is, key, &t);
            sound = n > 0 || read_entry(entry, out);
        }
        if (sound && n < least) {
            least = n;
            *why = arena_text(a, text_of(&t));
        }
        text_release(&t);
        if (!sound || n == 0) {
            *why = sound ? "" : arena_format(a, "%s: entry %zu is damaged", path, i + 1);
            return sound ? CALIBRATION_FITS : CALIBRATION_DAMAGED;
        }
    }
    return least == 100 ? CALIBRATION_ABSENT : CALIBRATION_FOREIGN;
}

enum calibration_found calibration_find(struct calibration *out, struct arena *a, const char *path,
                                        const struct calibration_key *key, const char **why)
{
    enum calibration_found found;
    json_t *entries;
    status s = read_file(path, &entries);

    *why = "";
    calibration_init(out, a);
    if (s != OK) {
        *why = arena_text(a, fail_text());
        return s == ERR_MISSING ? CALIBRATION_ABSENT : CALIBRATION_DAMAGED;
    }
    found = pick(entries, out, a, path, key, why);
    json_decref(entries);
    return found;
}

/* ---- writing ---- */

static json_t *entry_make(const struct calibration *c)
{
    const struct calibration_key *k = &c->key;
    json_t *points = json_array();

    for (int i = 0; i < c->count; i++) {
        const struct calibration_point *p = &c->points[i];

        json_array_append_new(points, json_pack("[s, f, f, f, f, f]", op_name(p->op), p->size[0],
                                                p->size[1], p->size[2], p->work, p->seconds));
    }
    return json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:o}", "cpu", k->cpu, "cores",
                     k->cores, "threads", k->threads, "family", k->family, "precision",
                     k->precision, "version", k->version, "peak_flops", c->peak, "memory_bytes",
                     c->memory, "barrier_seconds", c->barrier_seconds, "points", points);
}

/* The other entries of the file, as far as they can be read. */
static void keep_others(json_t *entries, const char *path, const struct calibration_key *key)
{
    json_t *old;

    if (read_file(path, &old) != OK) {
        return;
    }
    for (size_t i = 0; i < json_array_size(old); i++) {
        json_t *entry = json_array_get(old, i);
        struct calibration_key is;
        struct text t = { 0 };

        if (read_key(entry, &is) && differences(&is, key, &t) > 0) {
            json_array_append(entries, entry);
        }
        text_release(&t);
    }
    json_decref(old);
}

status calibration_save(const char *path, const struct calibration *c)
{
    struct arena a = { 0 };
    json_t *entries = json_array(), *root;
    char *text;
    status s;

    keep_others(entries, path, &c->key);
    json_array_append_new(entries, entry_make(c));
    root = json_pack("{s:o}", "entries", entries);
    text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    check(text != NULL, "out of memory");
    TRY_OR(release, s, folder_make(path_folder(&a, path)));
    s = file_replace(path, text, strlen(text));
release:
    free(text);
    json_decref(root);
    arena_release(&a);
    return s;
}
