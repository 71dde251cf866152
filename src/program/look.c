/* Nodes and values by name, and what a value holds. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "program/op.h"
#include "program/watch.h"

static bool all_digits(const char *text)
{
    const char *at = text;

    while (isdigit((unsigned char)*at)) {
        at++;
    }
    return at != text && *at == '\0';
}

static status unknown(const struct program *p, const char *what, const char *text,
                      const char *const *names, size_t count)
{
    const char *near = text_nearest(text, names, count);

    return fail(ERR_RECIPE,
                "the program %s has no %s called %s%s%s%s; roux plan --program lists them", p->name,
                what, text, near == NULL ? "" : " (did you mean ", near == NULL ? "" : near,
                near == NULL ? "" : "?)");
}

status program_find_node(const struct program *p, const char *text, int *node)
{
    struct arena a = { 0 };
    const char **names = arena_take_array(&a, (size_t)p->node_count + 1, sizeof *names);
    size_t count = 0;
    status s = OK;

    *node = -1;
    for (int i = 0; i < p->node_count; i++) {
        val first = p->nodes[i].out[0];

        if (first.id != 0) {
            names[count++] = value_of(p, first)->name;
            if (*node < 0 && strcmp(names[count - 1], text) == 0) {
                *node = i;
            }
        }
    }
    if (*node < 0 && all_digits(text)) {
        long long index = strtoll(text, NULL, 10);

        if (index < p->node_count) {
            *node = (int)index;
        } else {
            s = fail(ERR_RECIPE, "the program %s has no node %s; its nodes are 0 to %d", p->name,
                     text, p->node_count - 1);
        }
    } else if (*node < 0) {
        s = unknown(p, "node", text, names, count);
    }
    arena_release(&a);
    return s;
}

status program_find_value(const struct program *p, const char *text, val *out)
{
    struct arena a = { 0 };
    const char **names = arena_take_array(&a, (size_t)p->value_count, sizeof *names);
    size_t count = 0;
    status s = OK;

    *out = (val){ 0 };
    for (int i = 1; i < p->value_count; i++) {
        names[count++] = p->values[i].name;
        if (strcmp(p->values[i].name, text) == 0) {
            *out = (val){ i };
        }
    }
    if (out->id == 0) {
        s = unknown(p, "value", text, names, count);
    }
    arena_release(&a);
    return s;
}

int program_node_writes(const struct program *p, int node, val *out)
{
    const struct node *n = &p->nodes[node];
    const struct op_def *def = op_table[n->op];
    int count = 0;

    if (def->run == NULL && !def->collective) {
        return 0;
    }
    for (int k = 0; k < OP_OUT; k++) {
        if (n->out[k].id != 0) {
            out[count++] = n->out[k];
        }
    }
    for (int k = 0; k < OP_IN; k++) {
        if ((def->adds >> k & 1) != 0 && n->in[k].id != 0) {
            out[count++] = n->in[k];
        }
    }
    return count;
}

status device_read_doubles(const struct device *d, const struct program *p, val v, int64_t from,
                           int64_t count, double *out)
{
    const struct value *x = value_of(p, v);
    const uint8_t *bytes = device_bytes(d, p, v);

    check(from >= 0 && count >= 0 && from + count <= shape_count(&x->shape),
          "%s: elements %lld to %lld", x->name, (long long)from, (long long)(from + count));
    if (x->dtype == DT_F64) {
        memcpy(out, bytes + (size_t)from * sizeof *out, (size_t)count * sizeof *out);
        return OK;
    }
    if ((x->dtype != DT_F32 && x->dtype != DT_BF16 && x->dtype != DT_I32 && x->dtype != DT_I64) ||
        !dtype_convert(DT_F64, out, x->dtype, bytes + (size_t)from * dtype_bytes(x->dtype),
                       (size_t)count)) {
        return fail(ERR_UNSUPPORTED,
                    "%s holds %s; only F64, F32, BF16, I64 and I32 can be looked at", x->name,
                    dtype_name(x->dtype));
    }
    return OK;
}

status device_summary(const struct device *d, const struct program *p, val v,
                      struct value_summary *out)
{
    enum { PIECE = 1024 };
    double piece[PIECE], sum = 0, squares = 0;
    int64_t all = shape_count(&value_of(p, v)->shape), finite = 0;

    *out = (struct value_summary){ .count = all };
    for (int64_t from = 0; from < all; from += PIECE) {
        int64_t n = all - from < PIECE ? all - from : PIECE;

        TRY(device_read_doubles(d, p, v, from, n, piece));
        for (int64_t i = 0; i < n; i++) {
            if (!isfinite(piece[i])) {
                out->not_finite++;
                continue;
            }
            out->least = finite == 0 || piece[i] < out->least ? piece[i] : out->least;
            out->most = finite == 0 || piece[i] > out->most ? piece[i] : out->most;
            sum += piece[i];
            squares += piece[i] * piece[i];
            finite++;
        }
    }
    if (finite > 0) {
        out->mean = sum / (double)finite;
        out->rms = sqrt(squares / (double)finite);
    }
    return OK;
}
