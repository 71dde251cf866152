/* Dumps of a value, and two kernel families held against each other node by node. */
#include "infer/inspect.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "store/safetensors.h"

/* ---- dumps ---- */

status dump_read(struct dump *d, struct arena *a, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals == NULL ? strlen(text) : (size_t)(equals - text);

    *d = (struct dump){ .name = arena_format(a, "%.*s", (int)length, text),
                        .file = equals == NULL ? NULL : equals + 1 };
    if (length == 0 || (equals != NULL && equals[1] == '\0')) {
        return fail(ERR_RECIPE, "--dump %s: write the name of a value, or VALUE=FILE", text);
    }
    return OK;
}

status dump_keep(struct dump *d, struct program *p)
{
    TRY(program_find_value(p, d->name, &d->value));
    program_keep(p, d->value);
    return OK;
}

status dump_check(const struct dump *d, const struct program *p, int until)
{
    const struct value *x = program_value(p, d->value);

    while (x->base.id != 0) {
        x = program_value(p, x->base);
    }
    if (until > 0 && x->role == ROLE_TEMP && x->first >= until) {
        return fail(ERR_RECIPE, "%s is made by node %d, but --until stops after node %d", d->name,
                    x->first, until - 1);
    }
    return OK;
}

static status dump_write(const struct dump *d, const struct program *p, const struct device *device,
                         struct arena *a)
{
    const struct value *x = program_value(p, d->value);
    int64_t count = shape_count(&x->shape);
    size_t width = dtype_bytes(x->dtype);
    void *bytes = arena_take_array(a, (size_t)count, width);
    struct tensor_writer w;
    status s;

    TRY(tensor_writer_open(&w, a, d->file));
    tensor_writer_metadata(&w, "format", "pt");
    tensor_writer_declare(&w, x->name, x->dtype, x->shape.rank, x->shape.d);
    device_read(device, p, d->value, 0, count, bytes);
    TRY_OR(abandon, s, tensor_writer_begin(&w, 8));
    TRY_OR(abandon, s, tensor_writer_append(&w, bytes, (size_t)count * width));
    s = tensor_writer_finish(&w);
abandon:
    tensor_writer_abandon(&w);
    return s;
}

status dump_print(const struct dump *d, const struct program *p, const struct device *device,
                  struct arena *a, FILE *to)
{
    enum { SHOWN = 8 };
    const struct value *x = program_value(p, d->value);
    struct value_summary summary;
    double shown[SHOWN];
    char shape[96];

    TRY(device_summary(device, p, d->value, &summary));
    fprintf(to, "value      %s %s%s\n", x->name, dtype_name(x->dtype),
            shape_text(&x->shape, shape));
    fprintf(to, "           least %.9g, largest %.9g, mean %.9g, rms %.9g\n", summary.least,
            summary.most, summary.mean, summary.rms);
    if (summary.not_finite > 0) {
        fprintf(to, "           %lld of %lld are NaN or infinite\n", (long long)summary.not_finite,
                (long long)summary.count);
    }
    fprintf(to, "           begins");
    for (int64_t i = 0; i < summary.count && i < SHOWN; i++) {
        TRY(device_read_doubles(device, p, d->value, i, 1, &shown[i]));
        fprintf(to, " %.9g", shown[i]);
    }
    fputc('\n', to);
    return d->file == NULL ? OK : dump_write(d, p, device, a);
}

/* ---- two families ---- */

enum { PIECE = 2048 };

/* In the second one's type, where programs of two precisions are compared. */
static void copy_value(const struct pair *c, val v)
{
    const struct value *x = program_value(c->program[0], v), *y = program_value(c->program[1], v);
    int64_t all = shape_count(&x->shape);
    uint64_t piece[PIECE], converted[PIECE]; /* of the widest type */

    for (int64_t from = 0; from < all; from += PIECE) {
        int64_t n = all - from < PIECE ? all - from : PIECE;

        device_read(c->device[0], c->program[0], v, from, n, piece);
        if (x->dtype != y->dtype) {
            check(dtype_convert(y->dtype, converted, x->dtype, piece, (size_t)n), "%s: %s to %s",
                  x->name, dtype_name(x->dtype), dtype_name(y->dtype));
        }
        device_write(c->device[1], c->program[1], v, from, n,
                     x->dtype == y->dtype ? piece : converted);
    }
}

struct difference {
    double largest, relative;
};

static status compare_value(const struct pair *c, val v, struct difference *out)
{
    int64_t all = shape_count(&program_value(c->program[0], v)->shape);
    double a[PIECE], b[PIECE], entry = 0;

    *out = (struct difference){ 0, 0 };
    for (int64_t from = 0; from < all; from += PIECE) {
        int64_t n = all - from < PIECE ? all - from : PIECE;

        TRY(device_read_doubles(c->device[0], c->program[0], v, from, n, a));
        TRY(device_read_doubles(c->device[1], c->program[1], v, from, n, b));
        for (int64_t i = 0; i < n; i++) {
            bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
            double apart = same ? 0 : fabs(a[i] - b[i]);

            /* One that is not a number makes the difference one, too: that counts as infinite. */
            apart = isnan(apart) ? INFINITY : apart;
            out->largest = apart > out->largest ? apart : out->largest;
            entry = fabs(a[i]) > entry ? fabs(a[i]) : entry;
        }
    }
    out->relative = out->largest == 0                   ? 0
                    : entry == 0 || isinf(out->largest) ? INFINITY
                                                        : out->largest / entry;
    return OK;
}

static status compare_node(struct pair *c, int node, FILE *to)
{
    val written[OP_IN + OP_OUT];
    int count = program_node_writes(c->program[0], node, written);

    for (int i = 0; i < count; i++) {
        const char *name = program_value(c->program[0], written[i])->name;
        struct difference d;
        bool above;

        TRY(compare_value(c, written[i], &d));
        above = d.relative > c->tolerance;
        if (above && c->first == NULL) {
            c->first = name;
            c->first_node = node;
            c->first_relative = d.relative;
        }
        if (to != NULL) {
            fprintf(to, "%5d  %-12s %12.4g %12.4g %c %s\n", node,
                    op_name(c->program[0]->nodes[node].op), d.largest, d.relative,
                    above ? '!' : ' ', name);
        }
    }
    return OK;
}

status pair_run(struct pair *c, FILE *to)
{
    const struct program *p = c->program[0];

    check(p->node_count == c->program[1]->node_count, "two plans of %s differ", p->name);
    for (int i = 0; i < p->node_count; i++) {
        check(p->nodes[i].op == c->program[1]->nodes[i].op &&
                  p->nodes[i].out[0].id == c->program[1]->nodes[i].out[0].id,
              "two plans of %s differ at node %d", p->name, i);
    }
    if (to != NULL) {
        fprintf(to, "%5s  %-12s %12s %12s   %s\n", "node", "op", "difference", "relative", "value");
    }
    for (int i = 0; i < p->node_count; i++) {
        for (int k = 0; k < OP_IN; k++) {
            if (p->nodes[i].in[k].id != 0) {
                copy_value(c, p->nodes[i].in[k]);
            }
        }
        TRY(program_run_node(p, c->device[0], i));
        TRY(program_run_node(c->program[1], c->device[1], i));
        TRY(compare_node(c, i, to));
    }
    return OK;
}
