/* Rows and a small llama for tests of the trainer. */
#ifndef ROUX_TESTS_TRAIN_TINY_TRAIN_H
#define ROUX_TESTS_TRAIN_TINY_TRAIN_H

#include "base/file.h"
#include "base/philox.h"
#include "base/text.h"
#include "support/expect.h"
#include "train/trainer.h"

enum { TINY_WIDTH = 16, TINY_VOCAB = 37, TINY_ROWS = 53 };

/* Every fourth row is short, every third has two documents, every fifth (or all: `blind`) has no
 * target. */
static inline void tiny_write_row(struct text *out, int64_t row, bool blind)
{
    struct philox_stream s = philox_stream_make(9, "rows");
    int64_t length = row % 4 == 3 ? TINY_WIDTH * 2 / 3 : TINY_WIDTH,
            cut = row % 3 == 2 ? 7 : TINY_WIDTH;

    text_add(out, "{\"input_ids\":[");
    for (int64_t i = 0; i < length; i++) {
        text_add_format(out, "%s%lld", i > 0 ? "," : "",
                        (long long)philox_below(&s, (uint64_t)(row * TINY_WIDTH + i), TINY_VOCAB));
    }
    text_add(out, "],\"attention_mask\":[");
    for (int64_t i = 0; i < length; i++) {
        text_add(out, i > 0 ? ",1" : "1");
    }
    text_add(out, "],\"labels\":[");
    for (int64_t i = 0; i < length; i++) {
        int64_t id = philox_below(&s, (uint64_t)(row * TINY_WIDTH + i), TINY_VOCAB);

        text_add_format(out, "%s%lld", i > 0 ? "," : "",
                        (long long)(blind || row % 5 == 4 || i % 6 == 5 ? -100 : id));
    }
    text_add(out, "],\"document_ids\":[");
    for (int64_t i = 0; i < length; i++) {
        text_add(out, i > 0 ? "," : "");
        text_add(out, i < cut ? "0" : "1");
    }
    text_add(out, "]}\n");
}

static inline void tiny_write_rows(const char *folder, bool blind)
{
    struct text t = { 0 };
    char path[300];

    for (int64_t row = 0; row < TINY_ROWS; row++) {
        tiny_write_row(&t, row, blind);
    }
    snprintf(path, sizeof path, "%s/rows.json", folder);
    EXPECT_OK(file_replace(path, t.data, t.length));
    text_release(&t);
}

/* One rank, `B` rows a micro-batch, `steps` steps. The folder holds the rows and takes what the
 * run writes. */
static inline void tiny_spec(struct train_spec *s, const char *const *folder, enum dtype real,
                             int64_t B, int64_t steps)
{
    *s = (struct train_spec){ .name = "tiny",
                              .recipe_text = "",
                              .real = real,
                              .threads = 1,
                              .B = B,
                              .S = TINY_WIDTH,
                              .accumulate = 3,
                              .val_B = 1,
                              .seed = 5,
                              .train_dirs = folder,
                              .train_dir_count = 1,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .decay = 0.1,
                              .eps = 1e-8,
                              .grad_clip = 1,
                              .max_steps = steps,
                              .max_skipped = 3 };
    s->schedule = (struct schedule){ .lr = 1e-2, .min_lr = 1e-3, .warmup = 2, .horizon = steps };
    s->log_dir = s->checkpoint_dir = folder[0];
    for (int a = 0; a < AXIS_COUNT; a++) {
        s->size[a] = 1;
    }
    spec_default(&s->model, family_find("llama"));
    s->model.vocab = TINY_VOCAB;
    s->model.width = 24;
    s->model.ffn = 40;
    s->model.layers = 2;
    s->model.heads = 4;
    s->model.groups = 2;
    s->model.head_dim = 8;
    s->model.max_positions = TINY_WIDTH;
    s->model.init_std = 0.1;
    EXPECT_OK(spec_finish(&s->model, "tiny"));
}

#endif
