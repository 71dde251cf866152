#include "checkpoint/layout.h"
#include <stdio.h>
#include <string.h>
#include "base/text.h"

int layout_shards(const int size[AXIS_COUNT])
{
    return size[AXIS_DS] * size[AXIS_CP];
}

int layout_writers(const int size[AXIS_COUNT])
{
    return size[AXIS_TP] * size[AXIS_EP] * layout_shards(size);
}

struct cell layout_cell(const int size[AXIS_COUNT], int writer)
{
    int shards = layout_shards(size);

    return (struct cell){ .tp = writer / shards / size[AXIS_EP],
                          .ep = writer / shards % size[AXIS_EP],
                          .shard = writer % shards };
}

int layout_writer(const struct mesh *m)
{
    int column = m->at[AXIS_TP] * m->size[AXIS_EP] + m->at[AXIS_EP];

    return column * layout_shards(m->size) + mesh_index(m, AXES_SHARD);
}

char *layout_folder(struct arena *a, struct cell c)
{
    return arena_format(a, "tp%d_ep%d", c.tp, c.ep);
}

char *layout_state(struct arena *a, struct cell c)
{
    return arena_format(a, "tp%d_ep%d/shard%d.safetensors", c.tp, c.ep, c.shard);
}

char *layout_table(struct arena *a, struct cell c)
{
    return arena_format(a, LAYOUT_OWN "/tp%d_ep%d_shard%d.json", c.tp, c.ep, c.shard);
}

bool layout_is_folder(const char *name)
{
    int tp, ep, end = 0;
    char again[32];

    if (sscanf(name, "tp%8d_ep%8d%n", &tp, &ep, &end) != 2 || name[end]) {
        return false;
    }
    snprintf(again, sizeof again, "tp%d_ep%d", tp, ep);
    return strcmp(name, again) == 0;
}

bool layout_is_state(const char *name)
{
    int shard, end = 0;

    if (sscanf(name, "shard%8d.safetensors%n", &shard, &end) != 1 || end == 0) {
        return false;
    }
    return !name[end] || text_starts(name + end, ".partial-");
}
