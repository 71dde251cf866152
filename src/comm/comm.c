#include "comm/comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGREE_TEXT = 4096 };

static bool is_sum(enum collective_kind kind)
{
    return kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
}

/* What a caller hands over is the plan's work: mistakes in it are ours. */
static void collective_check(const struct comm *c, const struct collective *what)
{
    size_t width = dtype_bytes(what->dtype);
    bool spread = what->kind == COMM_REDUCE_SCATTER || what->kind == COMM_GATHER;
    int64_t times = spread ? c->size : 1;

    check(c->ops, "a collective on a communicator that is not open");
    check(what->n >= 0 && what->n <= INT64_MAX / 64 / times / (int64_t)width,
          "a collective over %lld elements", (long long)what->n);
    check(!is_sum(what->kind) || what->dtype == DT_F32 || what->dtype == DT_BF16 ||
              what->dtype == DT_F64 || what->dtype == DT_I64,
          "a sum over ranks in %s", dtype_name(what->dtype));
    check(what->kind != COMM_BROADCAST || (what->root >= 0 && what->root < c->size),
          "a broadcast from rank %d of %d", what->root, c->size);
    check(what->n == 0 || (what->out && (what->in || what->kind == COMM_BROADCAST)),
          "a collective without a buffer");
}

status comm_split(struct comm *parent, int color, int order, struct comm *out)
{
    check(parent->ops, "a split of a communicator that is not open");
    check(color >= 0, "a split with color %d", color);
    *out = (struct comm){ 0 };
    return parent->ops->split(parent, color, order, out);
}

status comm_begin(struct comm *c, const struct collective *what, struct ticket *t)
{
    collective_check(c, what);
    check(what->scratch || comm_scratch(c, what) == 0, "a collective without scratch memory");
    *t = (struct ticket){ .what = *what };
    return c->ops->begin(c, what, t);
}

status comm_wait(struct comm *c, struct ticket *t)
{
    status s = c->ops->wait(c, t);

    *t = (struct ticket){ 0 };
    return s;
}

status comm_run(struct comm *c, const struct collective *what)
{
    struct collective own = *what;
    struct ticket t;
    status s;

    if (!own.scratch) {
        size_t bytes = comm_scratch(c, what);

        own.scratch = bytes > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
        check(bytes == 0 || own.scratch, "no memory for %zu bytes of scratch", bytes);
    }
    s = comm_begin(c, &own, &t);
    if (s == OK) {
        s = comm_wait(c, &t);
    }
    if (!what->scratch) {
        free(own.scratch);
    }
    return s;
}

status comm_barrier(struct comm *c)
{
    return c->ops->barrier(c);
}

size_t comm_scratch(const struct comm *c, const struct collective *what)
{
    return c->ops->scratch(c, what);
}

void comm_close(struct comm *c)
{
    if (c->ops) {
        c->ops->close(c);
    }
    *c = (struct comm){ 0 };
}

/* The first member whose code is not OK, or -1. */
static int first_failed(const int64_t *codes, int size)
{
    for (int r = 0; r < size; r++) {
        if (codes[r] != OK) {
            return r;
        }
    }
    return -1;
}

static status agree_by(struct comm *c, status mine, int64_t *codes)
{
    char text[AGREE_TEXT] = "";
    int64_t code = mine;
    int speaker;

    TRY(comm_run(c, &(struct collective){
                        .kind = COMM_GATHER, .dtype = DT_I64, .in = &code, .out = codes, .n = 1 }));
    speaker = first_failed(codes, c->size);
    if (speaker < 0) {
        return OK;
    }
    if (speaker == c->rank) {
        snprintf(text, sizeof text, "%s", fail_text());
    }
    TRY(comm_run(c, &(struct collective){ .kind = COMM_BROADCAST,
                                          .dtype = DT_U8,
                                          .out = text,
                                          .n = sizeof text,
                                          .root = speaker }));
    text[sizeof text - 1] = 0;
    return fail((status)codes[speaker], "rank %d: %s", speaker, text);
}

status comm_agree(struct comm *c, status mine)
{
    int64_t *codes;

    if (c->size == 1) {
        return mine;
    }
    codes = calloc((size_t)c->size, sizeof *codes);
    check(codes, "no memory for %d status codes", c->size);
    mine = agree_by(c, mine, codes);
    free(codes);
    return mine;
}
