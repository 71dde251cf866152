/*
 * What this machine was measured to do, kept between runs: `roux bench --calibrate` writes it,
 * `roux plan` and the progress line read it.
 *
 * One file, $XDG_CACHE_HOME/roux/calibration.json (else ~/.cache/roux/...), holds one entry a key.
 * An entry speaks for its key alone: another processor, number of cores or threads, kernel family,
 * precision or version of roux has its own.
 */
#ifndef ROUX_TRAIN_CALIBRATION_H
#define ROUX_TRAIN_CALIBRATION_H

#include "base/arena.h"
#include "program/program.h"

struct calibration_key {
    char cpu[128], family[32], precision[16], version[32];
    int cores, threads;
};

/* A node that was timed: the dimensions of struct node_work; work is flops, or bytes where there
 * are none. */
struct calibration_point {
    enum op op;
    double size[3], work, seconds;
};

enum { CALIBRATION_POINTS = 4096 };

struct calibration {
    struct calibration_key key;
    double peak;            /* floating-point operations a second from registers, all threads */
    double memory;          /* bytes a second: the best of read, copy and triad */
    double barrier_seconds; /* of a meeting of all threads */
    struct calibration_point *points; /* [room] in the arena of whoever made it */
    int count;
};

/* A calibration without points, which have room for CALIBRATION_POINTS in `a`. */
void calibration_init(struct calibration *c, struct arena *a);
/* Replaces the point of the same op and size; beyond the room it does nothing. */
void calibration_add(struct calibration *c, const struct calibration_point *point);

/* This machine, this program. */
void calibration_key_here(struct calibration_key *out, const struct kernels *kernels, int threads);

/* Where it is kept; ERR_MISSING if neither XDG_CACHE_HOME nor HOME says where. */
MUST_USE status calibration_path(struct arena *a, const char **out);

enum calibration_found {
    CALIBRATION_FITS,
    CALIBRATION_ABSENT,
    CALIBRATION_FOREIGN, /* entries, but none of this key */
    CALIBRATION_DAMAGED
};

/* The entry of this key. `why`, if it does not fit: what differs from the nearest entry, or what is
 * wrong with the file, with its path. */
enum calibration_found calibration_find(struct calibration *out, struct arena *a, const char *path,
                                        const struct calibration_key *key, const char **why);

/* Puts the entry in the place of the one with its key; others stay. A damaged file is written anew.
 * The file is whole or as it was. */
MUST_USE status calibration_save(const char *path, const struct calibration *c);

#endif
