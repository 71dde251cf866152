/* Names inside a checkpoint, and who writes what. Inner to this room. */
#ifndef ROUX_CHECKPOINT_LAYOUT_H
#define ROUX_CHECKPOINT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/digest.h"
#include "base/status.h"
#include "comm/mesh.h"

#define LAYOUT_OWN ".roux"
#define LAYOUT_MANIFEST LAYOUT_OWN "/manifest.json"
#define LAYOUT_WRITING ".writing"

enum { LAYOUT_ALIGN = 4096, LAYOUT_DEPTH = 3 };

/* A writer: the ranks of replica 0, numbered (tp * E + ep) * S + shard; S and shard are over DS
 * and CP together. */
struct cell {
    int tp, ep, shard;
};

int layout_writers(const int size[AXIS_COUNT]);
int layout_shards(const int size[AXIS_COUNT]);
struct cell layout_cell(const int size[AXIS_COUNT], int writer);
int layout_writer(const struct mesh *m); /* this rank's number; replicas share it */

/* "tp0_ep0", "tp0_ep0/shard0.safetensors", ".roux/tp0_ep0_shard0.json" */
char *layout_folder(struct arena *a, struct cell c);
char *layout_state(struct arena *a, struct cell c);
char *layout_table(struct arena *a, struct cell c);

/* Is this the name of a folder, or of a file in such a folder, that a checkpoint of ours has?
 * Also unfinished files. */
bool layout_is_folder(const char *name);
bool layout_is_state(const char *name);

/* What proves a file: its length and its digest. */
struct stamp {
    uint64_t bytes;
    struct digest digest;
};

#endif
