#include "tensor/shape.h"

#include <stdio.h>

char *shape_text(const struct shape *s, char out[96])
{
    size_t at = 0;

    at += (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < s->rank; i++) {
        at += (size_t)snprintf(out + at, 96 - at, "%s%lld", i == 0 ? "" : ", ", (long long)s->d[i]);
    }
    snprintf(out + at, 96 - at, "]");
    return out;
}
