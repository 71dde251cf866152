/*
 * The border between roux and a message-passing library: what roux-mpi.so exports. Inner to this
 * room.
 *
 * The module is opened with dlopen on first use and knows nothing of roux: no collectives, no error
 * texts of ours, no symbol of the program. It moves bytes between two ranks, splits groups, and
 * says in the library's words what failed. Every function returns NULL if all went well, else a
 * text that lives until the next call. One thread at a time.
 */
#ifndef ROUX_COMM_TRANSPORT_H
#define ROUX_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

enum { TRANSPORT_VERSION = 1 };

/* The name of the exported `struct transport`. */
#define TRANSPORT_SYMBOL "roux_mpi_transport"

struct transport_group {
    void *handle; /* the module's own */
    int rank, size;
};

/*
 * Life: open once; split, send, receive, test, barrier; free every group that split made; close
 * once. After close nothing may be called, open neither. Tags are 0 .. 32767. A request is a handle
 * of `request_bytes` bytes in the caller's memory, which may copy it elsewhere meanwhile; the
 * requests of one test lie one after another.
 */
struct transport {
    int version; /* TRANSPORT_VERSION */
    size_t request_bytes;
    const char *(*open)(struct transport_group *world);
    const char *(*split)(const struct transport_group *g, int color, int order,
                         struct transport_group *out);
    const char *(*send)(const struct transport_group *g, int to, int tag, const void *bytes,
                        int length, void *request);
    const char *(*receive)(const struct transport_group *g, int from, int tag, void *bytes,
                           int length, void *request);
    const char *(*barrier)(const struct transport_group *g, void *request);
    const char *(*test)(void *requests, int count, bool *done);
    void (*free)(struct transport_group *g);
    void (*close)(void);
};

#endif
