/*
 * A hash map from text to a pointer or an index. Keys are borrowed: they must outlive the map.
 * Iteration is in the order of insertion. A zeroed struct map is an empty map.
 */
#ifndef ROUX_BASE_MAP_H
#define ROUX_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct map_entry {
    const char *key;
    void *value;
};

struct map {
    struct map_entry *entries; /* [count], in order of insertion */
    size_t count, room;
    size_t *slots; /* open addressing: index + 1 into entries, 0 = free */
    size_t slot_count;
};

void map_release(struct map *m);
/* Replaces the value of a key that is there. */
void map_put(struct map *m, const char *key, void *value);
bool map_find(const struct map *m, const char *key, void **value); /* `value` may be NULL */

#endif
