#include <string.h>

#include "base/text.h"
#include "infer/infer.h"

/* How long the sequence is that begins with this byte; 0 if none does. */
static int length_of(unsigned char first)
{
    return first < 0x80                    ? 1
           : first >= 0xc2 && first < 0xe0 ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 0;
}

/* Whether what waits can still become a well-formed sequence: filled up with the least bytes
 * that may follow, it is one. */
static bool may_become_whole(const struct utf8_gate *g)
{
    static const unsigned char second[][2] = { { 0xe0, 0xa0 }, { 0xf0, 0x90 } };
    int length = length_of(g->waiting[0]);
    char whole[4];

    if (length <= g->count) {
        return false;
    }
    memset(whole, 0x80, sizeof whole);
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        if (g->waiting[0] == second[i][0]) {
            whole[1] = (char)second[i][1];
        }
    }
    memcpy(whole, g->waiting, (size_t)g->count);
    return text_utf8_valid(whole, (size_t)length) == (size_t)length;
}

int utf8_gate_end(struct utf8_gate *g, char out[8])
{
    int count = g->count;

    memcpy(out, g->waiting, (size_t)count);
    g->count = 0;
    return count;
}

int utf8_gate_put(struct utf8_gate *g, unsigned char byte, char out[8])
{
    int count = 0;

    g->waiting[g->count++] = byte;
    if (may_become_whole(g)) {
        return 0;
    }
    /* Where the byte does not go on with what waited before it, it may begin the next sequence. */
    if (g->count > 1 &&
        text_utf8_valid((const char *)g->waiting, (size_t)g->count) != (size_t)g->count) {
        g->count--;
        count = utf8_gate_end(g, out);
        g->waiting[g->count++] = byte;
    }
    if (!may_become_whole(g)) {
        memcpy(out + count, g->waiting, (size_t)g->count);
        count += g->count;
        g->count = 0;
    }
    return count;
}
