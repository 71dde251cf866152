/* How much memory there is to take. */
#ifndef ROUX_BASE_MEMORY_H
#define ROUX_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the kernel says is left of this machine's memory without pushing anything out (MemAvailable),
 * and of what this process' control groups (a container, a Slurm job; versions 1 and 2, with those
 * above them) may still take: the least of them, in bytes; -1 if nothing is said.
 *
 * `root` stands before /proc and /sys: "" for this machine, a folder in tests.
 */
int64_t memory_left(const char *root);

/* Whether the system gives huge pages to whoever asks for them. */
bool memory_has_huge_pages(const char *root);

#endif
