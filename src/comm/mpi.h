/* The communicator over a transport. Inner to this room. */
#ifndef ROUX_COMM_MPI_H
#define ROUX_COMM_MPI_H

#include "comm/comm.h"
#include "comm/transport.h"

/* The world of a transport that is open: `group` moves in. Closing it closes the transport. */
void mpi_world(struct comm *out, const struct transport *transport, struct transport_group group);

#endif
