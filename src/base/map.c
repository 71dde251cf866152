#include "base/map.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/status.h"

/*
 * slots [slot_count, a power of two, at most 3/4 full]     entries [count]
 *   hash("b") ->  2 ----------------------------------->   0  "a"
 *                 0 (free)                           .->   1  "b"
 * A slot holds index + 1; a collision goes to the next slot.
 */

static size_t slot_of(const struct map *m, const char *key)
{
    size_t mask = m->slot_count - 1;
    size_t at = (size_t)XXH3_64bits(key, strlen(key)) & mask;

    while (m->slots[at] != 0 && strcmp(m->entries[m->slots[at] - 1].key, key) != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

static void grow_slots(struct map *m)
{
    size_t count = m->slot_count > 0 ? m->slot_count * 2 : 16;

    free(m->slots);
    m->slots = calloc(count, sizeof *m->slots);
    check(m->slots != NULL, "out of memory: a map of %zu entries grows", m->count);
    m->slot_count = count;
    for (size_t i = 0; i < m->count; i++) {
        m->slots[slot_of(m, m->entries[i].key)] = i + 1;
    }
}

static void grow_entries(struct map *m)
{
    size_t room = m->room > 0 ? m->room * 2 : 8;

    check(room <= SIZE_MAX / sizeof *m->entries, "a map of %zu entries", m->count);
    m->entries = realloc(m->entries, room * sizeof *m->entries);
    check(m->entries != NULL, "out of memory: a map of %zu entries grows", m->count);
    m->room = room;
}

void map_release(struct map *m)
{
    free(m->entries);
    free(m->slots);
    *m = (struct map){ 0 };
}

void map_put(struct map *m, const char *key, void *value)
{
    size_t at;

    if (m->count >= m->slot_count / 4 * 3) {
        grow_slots(m);
    }
    at = slot_of(m, key);
    if (m->slots[at] != 0) {
        m->entries[m->slots[at] - 1].value = value;
        return;
    }
    if (m->count == m->room) {
        grow_entries(m);
    }
    m->entries[m->count] = (struct map_entry){ .key = key, .value = value };
    m->count++;
    m->slots[at] = m->count;
}

bool map_find(const struct map *m, const char *key, void **value)
{
    size_t at;

    if (m->slot_count == 0) {
        return false;
    }
    at = slot_of(m, key);
    if (m->slots[at] == 0) {
        return false;
    }
    if (value != NULL) {
        *value = m->entries[m->slots[at] - 1].value;
    }
    return true;
}
