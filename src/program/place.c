#include "program/place.h"

#include <stdio.h>
#include <string.h>

bool place_same(struct place a, struct place b)
{
    return memcmp(a.on, b.on, sizeof a.on) == 0;
}

struct place place_gradient(struct place p)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (p.on[a] == COPIES) {
            p.on[a] = PARTIAL;
        } else if (p.on[a] == PARTIAL) {
            p.on[a] = WHOLE;
        }
    }
    return p;
}

const char *place_word(int8_t on)
{
    static const char *const split[] = { "split on dimension 0", "split on dimension 1",
                                         "split on dimension 2", "split on dimension 3" };

    switch (on) {
    case WHOLE:
        return "whole";
    case PARTIAL:
        return "a partial sum";
    case COPIES:
        return "copies";
    case MIXED:
        return "mixed";
    default:
        return split[on - 1];
    }
}

char *place_text(struct place p, char out[128])
{
    size_t at = 0;

    out[0] = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (p.on[a] != WHOLE) {
            at += (size_t)snprintf(out + at, 128 - at, "%s%s on %s", at > 0 ? ", " : "",
                                   place_word(p.on[a]), axis_name((enum axis)a));
        }
    }
    if (at == 0) {
        snprintf(out, 128, "whole");
    }
    return out;
}

struct place place_on(const struct mesh *m, struct place p, axes over, int8_t on)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        if ((over >> a & 1) != 0 && m->size[a] > 1) {
            p.on[a] = on;
        }
    }
    return p;
}

struct place place_rows(const struct mesh *m)
{
    struct place p = place_on(m, (struct place){ { 0 } }, AXES_DATA, 1);

    return place_on(m, p, AXES_CP, 2);
}
