/* The communicator of one: sums and gathers are copies, a broadcast is nothing, and all is done
 * when begin returns. */
#include <string.h>
#include "comm/comm.h"

static status alone_split(struct comm *parent, int color, int order, struct comm *out)
{
    (void)parent;
    (void)color;
    (void)order;
    comm_alone(out);
    return OK;
}

static status alone_begin(struct comm *c, const struct collective *what, struct ticket *t)
{
    (void)c;
    (void)t;
    if (what->kind != COMM_BROADCAST && what->n > 0 && what->out != what->in) {
        memcpy(what->out, what->in, (size_t)what->n * dtype_bytes(what->dtype));
    }
    return OK;
}

static status alone_wait(struct comm *c, struct ticket *t)
{
    (void)c;
    (void)t;
    return OK;
}

static status alone_barrier(struct comm *c)
{
    (void)c;
    return OK;
}

static size_t alone_scratch(const struct comm *c, const struct collective *what)
{
    (void)c;
    (void)what;
    return 0;
}

static void alone_close(struct comm *c)
{
    (void)c;
}

static const struct comm_ops comm_alone_ops = {
    .name = "alone",
    .split = alone_split,
    .begin = alone_begin,
    .wait = alone_wait,
    .barrier = alone_barrier,
    .scratch = alone_scratch,
    .close = alone_close,
};

void comm_alone(struct comm *out)
{
    *out = (struct comm){ .ops = &comm_alone_ops, .rank = 0, .size = 1 };
}
