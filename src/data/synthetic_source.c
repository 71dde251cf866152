/* Rows without files: uniform ids, each a pure function of seed, row and position. */
#include <stdlib.h>
#include "base/philox.h"
#include "data/corpus_source.h"

enum { SYNTHETIC_ROWS = 100000 };

struct synthetic {
    struct philox_stream stream;
    int64_t length, vocab;
};

static status synthetic_read(const struct corpus_source *s, int64_t row, int64_t vocab,
                             struct arena *a, struct row *out)
{
    const struct synthetic *own = s->own;

    if (own->vocab > vocab) {
        return fail(ERR_RECIPE,
                    "synthetic row %lld: its ids are below %lld, the vocabulary has %lld",
                    (long long)row, (long long)own->vocab, (long long)vocab);
    }
    *out = (struct row){ .length = own->length, .file = "synthetic", .line = row + 1 };
    out->ids = arena_take_array(a, (size_t)own->length, sizeof *out->ids);
    out->labels = arena_take_array(a, (size_t)own->length, sizeof *out->labels);
    out->starts = arena_take_array(a, (size_t)own->length, sizeof *out->starts);
    for (int64_t i = 0; i < own->length; i++) {
        uint64_t at = (uint64_t)row * (uint64_t)own->length + (uint64_t)i;

        out->ids[i] = (int32_t)philox_below(&own->stream, at, own->vocab);
        out->labels[i] = out->ids[i];
    }
    return OK;
}

static void synthetic_close(struct corpus_source *s)
{
    free(s->own);
    *s = (struct corpus_source){ 0 };
}

static const struct source_kind synthetic_kind = {
    .read = synthetic_read,
    .close = synthetic_close,
};

void synthetic_source_open(struct corpus_source *s, uint64_t seed, int64_t length, int64_t vocab)
{
    struct synthetic *own = malloc(sizeof *own);

    check(own != NULL, "no memory for a synthetic source");
    *own = (struct synthetic){ .stream = philox_stream_make(seed, "synthetic rows"),
                               .length = length,
                               .vocab = vocab };
    *s = (struct corpus_source){ .kind = &synthetic_kind, .rows = SYNTHETIC_ROWS, .own = own };
}
