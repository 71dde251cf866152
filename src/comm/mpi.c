/*
 * Collectives of messages between two ranks. Sums are formed here, in the order of the row tree,
 * whatever the library.
 *
 *   reduce-scatter   begin: every member sends each other one its piece of `in`
 *                    wait:  the others' pieces for this member lie in scratch and are added, with its own in `in`
 *   all-reduce       a reduce-scatter of pieces of nearly equal length, then (all in wait) a gather of the sums
 *   gather           begin: every member sends its piece to each other one
 *   broadcast        a binomial tree from the root: who has it sends on, in wait
 *
 *   scratch of a sum   | piece from 0 | piece from 1 | ... |    each `stride` elements; none for the own piece
 *
 * Long messages travel in pieces of MESSAGE bytes: the two ends begin to move data early, and no
 * count leaves an int.
 */
#include "comm/mpi.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "comm/sum.h"

enum { MESSAGE = 4 << 20, ALIGN_ELEMENTS = 64, SERIALS = 1 << 14 };

/* Requests under way; kept on the communicator's free list between uses, so that steps allocate
 * nothing. */
struct flight {
    char *requests; /* [room] of the transport's size */
    int count, room;
    int tag;
    struct flight *next;
};

struct group {
    const struct transport *transport;
    struct transport_group members;
    int world_rank;
    bool is_world;
    unsigned serial; /* numbers the begins, the same on every member: it makes the tags */
    struct flight *unused;
    const void **parts; /* [size], for members_sum */
};

static struct group *group_of(const struct comm *c)
{
    return c->own;
}

static status peer_failed(const struct comm *c, const char *doing, const char *reason)
{
    const struct group *g = group_of(c);

    return fail(ERR_PEER, "mpi %s of %d, rank %d (%d of the world): %s: %s",
                g->is_world ? "world" : "group", c->size, c->rank, g->world_rank, doing, reason);
}

static struct flight *flight_take(struct group *g)
{
    struct flight *f = g->unused;

    if (f) {
        g->unused = f->next;
    } else {
        f = calloc(1, sizeof *f);
        check(f, "no memory for the requests of a collective");
    }
    f->count = 0;
    return f;
}

static void flight_return(struct group *g, struct flight *f)
{
    f->next = g->unused;
    g->unused = f;
}

/* The slots of the next `count` requests. Growing may move requests under way, which are
 * handles. */
static char *flight_slots(struct group *g, struct flight *f, int count)
{
    size_t width = g->transport->request_bytes;

    if (f->room - f->count < count) {
        int room = f->count + count > 2 * f->room ? f->count + count : 2 * f->room;

        f->requests = realloc(f->requests, (size_t)room * width);
        check(f->requests, "no memory for %d requests", room);
        f->room = room;
    }
    return f->requests + (size_t)f->count * width;
}

static int message_count(size_t bytes)
{
    size_t count = (bytes + MESSAGE - 1) / MESSAGE;

    check(count <= INT32_MAX / 2, "a message of %zu bytes", bytes);
    return (int)count;
}

/* Posts the messages that carry `bytes` from or to `other`. Nothing is sent for an empty piece. */
static status post(struct comm *c, struct flight *f, bool sends, int other, void *at, size_t bytes)
{
    struct group *g = group_of(c);
    const struct transport *t = g->transport;
    int count = message_count(bytes);
    char *slot = flight_slots(g, f, count);

    for (int i = 0; i < count; i++) {
        size_t from = (size_t)i * MESSAGE;
        int length = (int)(bytes - from < MESSAGE ? bytes - from : MESSAGE);
        char *piece = (char *)at + from;
        const char *text = sends ? t->send(&g->members, other, f->tag, piece, length, slot)
                                 : t->receive(&g->members, other, f->tag, piece, length, slot);

        if (text) {
            return fail_while(peer_failed(c, sends ? "sending" : "receiving", text),
                              "exchanging %zu bytes with rank %d", bytes, other);
        }
        f->count++;
        slot += t->request_bytes;
    }
    return OK;
}

static status post_send(struct comm *c, struct flight *f, int to, const void *bytes, size_t length)
{
    return post(c, f, true, to, (void *)bytes, length);
}

static status post_receive(struct comm *c, struct flight *f, int from, void *bytes, size_t length)
{
    return post(c, f, false, from, bytes, length);
}

/* Until all of the flight's requests are done. The processor is offered to others, who may be
 * the ranks waited for. */
static status flight_finish(struct comm *c, struct flight *f)
{
    struct group *g = group_of(c);
    bool done = f->count == 0;

    while (!done) {
        const char *text = g->transport->test(f->requests, f->count, &done);

        if (text) {
            return peer_failed(c, "waiting", text);
        }
        if (!done) {
            sched_yield();
        }
    }
    f->count = 0;
    return OK;
}

/* The members' shares of n elements: `stride` each, the last ones less or nothing. */
struct shares {
    int64_t stride, n;
};

static struct shares shares_of(const struct comm *c, const struct collective *what)
{
    int64_t each = what->n;

    if (what->kind == COMM_ALL_REDUCE) {
        each = (what->n + c->size - 1) / c->size;
    }
    return (struct shares){ (each + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS,
                            what->n };
}

static int64_t share_begin(struct shares s, int member)
{
    int64_t begin = s.stride * member;

    return begin < s.n ? begin : s.n;
}

static int64_t share_length(struct shares s, int member)
{
    return share_begin(s, member + 1) - share_begin(s, member);
}

static size_t mpi_scratch(const struct comm *c, const struct collective *what)
{
    if (what->kind != COMM_ALL_REDUCE && what->kind != COMM_REDUCE_SCATTER) {
        return 0;
    }
    return (size_t)shares_of(c, what).stride * (size_t)(c->size - 1) * dtype_bytes(what->dtype);
}

/* The piece of `in` that member m sums up, and its length in elements. */
static const char *piece_of(const struct comm *c, const struct collective *what, int m,
                            int64_t *length)
{
    size_t width = dtype_bytes(what->dtype);
    struct shares s = shares_of(c, what);

    if (what->kind == COMM_REDUCE_SCATTER) {
        *length = what->n;
        return (const char *)what->in + (size_t)what->n * width * (size_t)m;
    }
    *length = share_length(s, m);
    return (const char *)what->in + (size_t)share_begin(s, m) * width;
}

/* Members take their turns in different orders, so that not all of them address the same one
 * first. */
static int member_at_turn(const struct comm *c, int turn)
{
    return (c->rank + turn) % c->size;
}

/* Where in scratch member m's piece for this member lies; m is another one. */
static char *slot_of(const struct comm *c, const struct collective *what, int m)
{
    size_t slot = (size_t)(m < c->rank ? m : m - 1);

    return (char *)what->scratch +
           slot * (size_t)shares_of(c, what).stride * dtype_bytes(what->dtype);
}

static status sum_begin(struct comm *c, const struct collective *what, struct flight *f)
{
    size_t width = dtype_bytes(what->dtype);
    int64_t own_length, length;

    piece_of(c, what, c->rank, &own_length);
    for (int turn = 1; turn < c->size; turn++) {
        int m = member_at_turn(c, c->size - turn);

        TRY(post_receive(c, f, m, slot_of(c, what, m), (size_t)own_length * width));
    }
    for (int turn = 1; turn < c->size; turn++) {
        int m = member_at_turn(c, turn);
        const char *piece = piece_of(c, what, m, &length);

        TRY(post_send(c, f, m, piece, (size_t)length * width));
    }
    return OK;
}

/* This member's piece of the sum, once all pieces are here. */
static void pieces_add(struct comm *c, const struct collective *what, void *out)
{
    const void **parts = group_of(c)->parts;
    int64_t length;
    const char *own = piece_of(c, what, c->rank, &length);

    if (length > 0) {
        for (int m = 0; m < c->size; m++) {
            parts[m] = m == c->rank ? own : slot_of(c, what, m);
        }
        members_sum(what->dtype, out, parts, c->size, length);
    }
}

/* Each member's piece of `out` goes to all others; this member's stands there already. */
static status spread(struct comm *c, struct flight *f, char *out, size_t width, struct shares s)
{
    for (int turn = 1; turn < c->size; turn++) {
        int m = member_at_turn(c, c->size - turn);

        TRY(post_receive(c, f, m, out + (size_t)share_begin(s, m) * width,
                         (size_t)share_length(s, m) * width));
    }
    for (int turn = 1; turn < c->size; turn++) {
        TRY(post_send(c, f, member_at_turn(c, turn), out + (size_t)share_begin(s, c->rank) * width,
                      (size_t)share_length(s, c->rank) * width));
    }
    return OK;
}

static status sum_wait(struct comm *c, const struct collective *what, struct flight *f)
{
    size_t width = dtype_bytes(what->dtype);
    struct shares s = shares_of(c, what);
    bool scatters = what->kind == COMM_REDUCE_SCATTER;
    char *out = scatters ? what->out : (char *)what->out + (size_t)share_begin(s, c->rank) * width;

    TRY(flight_finish(c, f));
    pieces_add(c, what, out);
    if (scatters) {
        return OK;
    }
    f->tag++;
    TRY(spread(c, f, what->out, width, s));
    return flight_finish(c, f);
}

static status gather_begin(struct comm *c, const struct collective *what, struct flight *f)
{
    size_t width = dtype_bytes(what->dtype);
    size_t bytes = (size_t)what->n * width;
    char *out = what->out;
    char *own = out + bytes * (size_t)c->rank;

    if (bytes > 0 && own != what->in) {
        memcpy(own, what->in, bytes);
    }
    return spread(c, f, out, width, (struct shares){ what->n, what->n * c->size });
}

/* Members are counted from the root. Member v has its data from v without its lowest bit, and
 * sends to v plus every power of two below that bit. */
static status broadcast_begin(struct comm *c, const struct collective *what, struct flight *f)
{
    int v = (c->rank - what->root + c->size) % c->size;
    int parent = (v & (v - 1)) + what->root;

    if (v == 0) {
        return OK;
    }
    return post_receive(c, f, parent % c->size, what->out,
                        (size_t)what->n * dtype_bytes(what->dtype));
}

static status broadcast_wait(struct comm *c, const struct collective *what, struct flight *f)
{
    int v = (c->rank - what->root + c->size) % c->size;
    int lowest = v == 0 ? c->size : v & -v;
    int bit = 1;

    TRY(flight_finish(c, f));
    while (bit * 2 < lowest) {
        bit *= 2;
    }
    for (; bit > 0; bit /= 2) {
        if (bit < lowest && v + bit < c->size) {
            TRY(post_send(c, f, (v + bit + what->root) % c->size, what->out,
                          (size_t)what->n * dtype_bytes(what->dtype)));
        }
    }
    return flight_finish(c, f);
}

static status mpi_begin(struct comm *c, const struct collective *what, struct ticket *t)
{
    struct group *g = group_of(c);
    struct flight *f = flight_take(g);
    status s = OK;

    f->tag = (int)(g->serial++ % SERIALS) * 2;
    switch (what->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
        s = sum_begin(c, what, f);
        break;
    case COMM_GATHER:
        s = gather_begin(c, what, f);
        break;
    case COMM_BROADCAST:
        s = broadcast_begin(c, what, f);
        break;
    }
    if (s != OK) {
        flight_return(g, f);
        return s;
    }
    t->requests = f;
    return OK;
}

static status mpi_wait(struct comm *c, struct ticket *t)
{
    struct flight *f = t->requests;
    status s = OK;

    if (!f) {
        return OK;
    }
    switch (t->what.kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
        s = sum_wait(c, &t->what, f);
        break;
    case COMM_GATHER:
        s = flight_finish(c, f);
        break;
    case COMM_BROADCAST:
        s = broadcast_wait(c, &t->what, f);
        break;
    }
    flight_return(group_of(c), f);
    return s;
}

static status mpi_barrier(struct comm *c)
{
    struct group *g = group_of(c);
    struct flight *f = flight_take(g);
    const char *text = g->transport->barrier(&g->members, flight_slots(g, f, 1));
    status s;

    if (text) {
        s = peer_failed(c, "in a barrier", text);
    } else {
        f->count = 1;
        s = flight_finish(c, f);
    }
    flight_return(g, f);
    return s;
}

static void mpi_close(struct comm *c)
{
    struct group *g = group_of(c);

    while (g->unused) {
        struct flight *f = g->unused;

        g->unused = f->next;
        free(f->requests);
        free(f);
    }
    free(g->parts);
    g->transport->free(&g->members);
    if (g->is_world) {
        g->transport->close();
    }
    free(g);
}

static status mpi_split(struct comm *parent, int color, int order, struct comm *out);

static const struct comm_ops comm_mpi_ops = {
    .name = "mpi",
    .split = mpi_split,
    .begin = mpi_begin,
    .wait = mpi_wait,
    .barrier = mpi_barrier,
    .scratch = mpi_scratch,
    .close = mpi_close,
};

static void group_open(struct comm *out, const struct transport *transport,
                       struct transport_group members, int world_rank, bool is_world)
{
    struct group *g = calloc(1, sizeof *g);

    check(g, "no memory for a communicator");
    *g = (struct group){ .transport = transport,
                         .members = members,
                         .world_rank = world_rank,
                         .is_world = is_world,
                         .parts = calloc((size_t)members.size, sizeof *g->parts) };
    check(g->parts, "no memory for a communicator of %d", members.size);
    *out =
        (struct comm){ .ops = &comm_mpi_ops, .rank = members.rank, .size = members.size, .own = g };
}

static status mpi_split(struct comm *parent, int color, int order, struct comm *out)
{
    struct group *g = group_of(parent);
    struct transport_group members = { 0 };
    const char *text = g->transport->split(&g->members, color, order, &members);

    if (text) {
        return peer_failed(parent, "splitting", text);
    }
    group_open(out, g->transport, members, g->world_rank, false);
    return OK;
}

void mpi_world(struct comm *out, const struct transport *transport, struct transport_group group)
{
    group_open(out, transport, group, group.rank, true);
}
