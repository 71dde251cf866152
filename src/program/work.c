/* What single nodes compute and move: for measuring them and for estimates. */
#include "base/text.h"
#include "program/op.h"

static double bytes_of(const struct program *p, val v)
{
    const struct value *x = value_of(p, v);

    return v.id == 0 ? 0 : (double)shape_count(&x->shape) * (double)dtype_bytes(x->dtype);
}

static double moved_bytes(const struct program *p, const struct node *n)
{
    const struct op_def *def = op_table[n->op];
    double bytes = 0;

    if (n->op == OP_EMBED) {
        return 2 * bytes_of(p, n->out[0]); /* the rows read are as many as those written */
    }
    for (int k = 0; k < OP_IN; k++) {
        bytes += bytes_of(p, n->in[k]) * ((def->adds >> k & 1) != 0 ? 2 : 1);
    }
    for (int k = 0; k < OP_OUT; k++) {
        bytes += def->alias && k == 0 ? 0 : bytes_of(p, n->out[k]);
    }
    return bytes;
}

/* The gradient of a table: rows are read, and as many of the table are read and written. */
static double embed_dw_bytes(const struct program *p, const struct node *n)
{
    double table = bytes_of(p, n->in[0]), rest = 0;

    for (int k = 1; k < OP_IN; k++) {
        rest += bytes_of(p, n->in[k]);
    }
    return rest + 2 * (table < rest ? table : rest);
}

static double largest_value(const struct program *p, const struct node *n)
{
    int64_t most = 1;

    for (int k = 0; k < OP_IN; k++) {
        int64_t count = n->in[k].id == 0 ? 0 : shape_count(&value_of(p, n->in[k])->shape);

        most = count > most ? count : most;
    }
    return (double)most;
}

static void product_size(double size[3], double rows, double inner, double flops)
{
    size[0] = rows;
    size[1] = inner;
    size[2] = flops / (2 * rows * inner);
}

static void attention_size(const struct program *p, const struct node *n, double size[3])
{
    const struct shape *qkv = &value_of(p, n->in[0])->shape;
    int64_t window = n->arg.attention.window;

    size[0] = (double)(qkv->d[0] * n->arg.attention.heads);
    size[1] = (double)(window > 0 && window < qkv->d[1] ? window : qkv->d[1]);
    size[2] = (double)n->arg.attention.d;
}

static void node_size(const struct program *p, const struct node *n, struct node_work *w)
{
    const struct shape *in = &value_of(p, n->in[0])->shape, *out = &value_of(p, n->out[0])->shape;

    switch (n->op) {
    case OP_LINEAR:
        product_size(w->size, (double)shape_rows(in), (double)shape_last(in), w->flops);
        break;
    case OP_LINEAR_DX:
        product_size(w->size, (double)shape_rows(in), (double)shape_last(out), w->flops);
        break;
    case OP_LINEAR_DW:
        product_size(w->size, (double)shape_rows(&value_of(p, n->in[1])->shape),
                     (double)shape_last(in), w->flops);
        break;
    case OP_ATTENTION:
    case OP_ATTENTION_D:
        attention_size(p, n, w->size);
        break;
    case OP_HEAD_STATS:
    case OP_HEAD_GRAD:
    case OP_HEAD_LEARN:
    case OP_HEAD_LOGITS:
        w->size[0] = (double)shape_rows(in);
        w->size[1] = (double)shape_last(in);
        w->size[2] = (double)value_of(p, n->in[1])->shape.d[0];
        break;
    default:
        w->size[0] = largest_value(p, n);
        w->size[1] = w->size[2] = 1;
    }
}

struct node_work program_node_work(const struct program *p, int node)
{
    const struct node *n = &p->nodes[node];
    const struct op_def *def = op_table[n->op];
    struct node_work w = { 0 };

    w.flops = def->flops == NULL ? 0 : (double)def->flops(p, n);
    w.wire = def->wire == NULL ? 0 : (double)def->wire(p, n);
    w.bytes = def->run == NULL && !def->collective ? 0
              : n->op == OP_EMBED_DW               ? embed_dw_bytes(p, n)
                                                   : moved_bytes(p, n);
    node_size(p, n, &w);
    return w;
}

static void add_shape(struct text *t, const struct program *p, val v)
{
    const struct shape *s = &value_of(p, v)->shape;

    if (v.id == 0) {
        return;
    }
    text_add(t, t->length == 0 ? "" : " ");
    for (int i = 0; i < s->rank; i++) {
        text_add_format(t, i == 0 ? "%lld" : "x%lld", (long long)s->d[i]);
    }
}

const char *program_node_shapes(const struct program *p, int node, struct arena *a)
{
    const struct node *n = &p->nodes[node];
    struct text t = { 0 };
    const char *kept;

    for (int k = 0; k < OP_OUT; k++) {
        add_shape(&t, p, n->out[k]);
    }
    text_add(&t, t.length == 0 ? "<-" : " <-");
    for (int k = 0; k < OP_IN; k++) {
        add_shape(&t, p, n->in[k]);
    }
    kept = arena_text(a, text_of(&t));
    text_release(&t);
    return kept;
}
