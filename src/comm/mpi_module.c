/*
 * roux-mpi.so: the transport over MPI. The one file that includes mpi.h; linked with MPI and with
 * nothing of roux.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "comm/transport.h"

static char failure[MPI_MAX_ERROR_STRING + 64];

/* NULL for success, else the library's text. */
static const char *outcome(const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;

    if (code == MPI_SUCCESS) {
        return NULL;
    }
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
        snprintf(text, sizeof text, "error %d", code);
    }
    snprintf(failure, sizeof failure, "%s: %s", call, text);
    return failure;
}

static MPI_Comm comm_of(const struct transport_group *g)
{
    return *(MPI_Comm *)g->handle;
}

/* Gives a communicator a handle on the heap, and our error handling. Takes the communicator
 * over. */
static const char *group_fill(struct transport_group *g, MPI_Comm comm)
{
    const char *text =
        outcome("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MPI_Comm *handle = malloc(sizeof *handle);

    if (!handle) {
        return "out of memory for a communicator";
    }
    *handle = comm;
    g->handle = handle;
    if (!text) {
        text = outcome("MPI_Comm_rank", MPI_Comm_rank(comm, &g->rank));
    }
    if (!text) {
        text = outcome("MPI_Comm_size", MPI_Comm_size(comm, &g->size));
    }
    return text;
}

/* One thread at a time talks to MPI, not always the same one: MPI_THREAD_SERIALIZED is what we
 * need. */
static const char *mpi_open(struct transport_group *world)
{
    int given = MPI_THREAD_SINGLE;
    const char *text =
        outcome("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given));
    MPI_Comm own;

    if (text) {
        return text;
    }
    if (given < MPI_THREAD_SERIALIZED) {
        MPI_Finalize();
        return "this MPI was built without threads (MPI_THREAD_SERIALIZED)";
    }
    text = outcome("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &own));
    return text ? text : group_fill(world, own);
}

static const char *mpi_split(const struct transport_group *g, int color, int order,
                             struct transport_group *out)
{
    MPI_Comm made;
    const char *text = outcome("MPI_Comm_split", MPI_Comm_split(comm_of(g), color, order, &made));

    return text ? text : group_fill(out, made);
}

static const char *mpi_send(const struct transport_group *g, int to, int tag, const void *bytes,
                            int length, void *request)
{
    return outcome("MPI_Isend",
                   MPI_Isend(bytes, length, MPI_BYTE, to, tag, comm_of(g), (MPI_Request *)request));
}

static const char *mpi_receive(const struct transport_group *g, int from, int tag, void *bytes,
                               int length, void *request)
{
    return outcome("MPI_Irecv", MPI_Irecv(bytes, length, MPI_BYTE, from, tag, comm_of(g),
                                          (MPI_Request *)request));
}

static const char *mpi_barrier(const struct transport_group *g, void *request)
{
    return outcome("MPI_Ibarrier", MPI_Ibarrier(comm_of(g), (MPI_Request *)request));
}

static const char *mpi_test(void *requests, int count, bool *done)
{
    int all = 0;
    const char *text = outcome(
        "MPI_Testall", MPI_Testall(count, (MPI_Request *)requests, &all, MPI_STATUSES_IGNORE));

    *done = all != 0;
    return text;
}

static void mpi_free(struct transport_group *g)
{
    MPI_Comm *handle = g->handle;

    MPI_Comm_free(handle);
    free(handle);
    *g = (struct transport_group){ 0 };
}

static void mpi_close(void)
{
    MPI_Finalize();
}

extern const struct transport roux_mpi_transport;
const struct transport roux_mpi_transport = {
    .version = TRANSPORT_VERSION,
    .request_bytes = sizeof(MPI_Request),
    .open = mpi_open,
    .split = mpi_split,
    .send = mpi_send,
    .receive = mpi_receive,
    .barrier = mpi_barrier,
    .test = mpi_test,
    .free = mpi_free,
    .close = mpi_close,
};
