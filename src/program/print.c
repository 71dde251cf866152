/* A program as text, and what it costs. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "program/op.h"

static void print_value(const struct program *p, val v, FILE *to)
{
    const struct value *x = value_of(p, v);
    char shape[96], place[128];

    fprintf(to, "%s %s%s", x->name, dtype_name(x->dtype), shape_text(&x->shape, shape));
    place_text(x->place, place);
    if (strcmp(place, "whole") != 0) {
        fprintf(to, " (%s)", place);
    }
}

static void print_node(const struct program *p, int i, FILE *to)
{
    const struct node *n = &p->nodes[i];
    bool first = true;

    fprintf(to, "%5d %c%-12s ", i, n->barrier ? '|' : ' ', op_name(n->op));
    for (int k = 0; k < OP_OUT; k++) {
        if (n->out[k].id != 0) {
            fprintf(to, "%s", first ? "" : ", ");
            print_value(p, n->out[k], to);
            first = false;
        }
    }
    fprintf(to, first ? "<-" : " <-");
    for (int k = 0; k < OP_IN; k++) {
        if (n->in[k].id != 0) {
            fprintf(to, " %s%s", (op_table[n->op]->adds >> k & 1) != 0 ? "+=" : "",
                    value_of(p, n->in[k])->name);
        }
    }
    if (n->begin < i) {
        fprintf(to, ", under way from %d", n->begin);
    }
    fputc('\n', to);
}

void program_print(const struct program *p, FILE *to)
{
    int segment = -2, working = 0, barriers = 0;

    for (int i = 0; i < p->node_count; i++) {
        const struct op_def *def = op_table[p->nodes[i].op];

        working += def->run != NULL || def->collective;
        barriers += p->nodes[i].barrier;
    }
    fprintf(to, "program %s: %d nodes, %d of them compute; threads meet before %d (|)\n", p->name,
            p->node_count, working, barriers);
    for (int i = 0; i < p->node_count; i++) {
        const struct node *n = &p->nodes[i];
        int here = n->segment * 2 + (n->backward ? 1 : 0);

        if (here != segment && n->segment >= 0) {
            fprintf(to, "%s%s:\n", p->segments[n->segment].name, n->backward ? ", backward" : "");
        }
        segment = here;
        print_node(p, i, to);
    }
}

int64_t program_flops(const struct program *p)
{
    int64_t sum = 0;

    for (int i = 0; i < p->node_count; i++) {
        const struct op_def *def = op_table[p->nodes[i].op];

        sum += def->flops == NULL ? 0 : def->flops(p, &p->nodes[i]);
    }
    return sum;
}

int64_t program_wire_bytes(const struct program *p, axes over)
{
    int64_t sum = 0;

    for (int i = 0; i < p->node_count; i++) {
        const struct op_def *def = op_table[p->nodes[i].op];

        if (def->wire != NULL && p->nodes[i].arg.move.over == over) {
            sum += def->wire(p, &p->nodes[i]);
        }
    }
    return sum;
}
