/* A llama of a few hundred weights in a folder of its own, and batches for it. */
#ifndef ROUX_TESTS_INFER_TINY_MODEL_H
#define ROUX_TESTS_INFER_TINY_MODEL_H

#include <unistd.h>
#include "support/expect.h"
#include "base/file.h"
#include "base/philox.h"
#include "store/safetensors.h"

struct tiny {
    struct arena arena;
    char folder[256];
    int vocab, positions, eos; /* eos -1: none */
    double scale;              /* of the weights */
    const char *leave_out;     /* a tensor that is not written */
};

enum { TINY_WIDTH = 16, TINY_FFN = 24, TINY_HEAD = 8 };

static inline const char *tiny_path(struct tiny *t, const char *name)
{
    return path_join(&t->arena, t->folder, name);
}

static inline void tiny_write(struct tiny *t, const char *name, const char *text)
{
    EXPECT_OK(file_replace(tiny_path(t, name), text, strlen(text)));
}

static inline void tiny_config(struct tiny *t)
{
    const char *eos = t->eos < 0 ? "null" : arena_format(&t->arena, "%d", t->eos);

    tiny_write(t, "config.json",
               arena_format(&t->arena,
                            "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": "
                            "\"llama\", \"hidden_act\": \"silu\", \"hidden_size\": %d,"
                            " \"intermediate_size\": %d, \"num_hidden_layers\": 1, "
                            "\"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
                            " \"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, "
                            "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false,"
                            " \"vocab_size\": %d, \"eos_token_id\": %s}",
                            TINY_WIDTH, TINY_FFN, t->positions, t->vocab, eos));
}

struct tiny_tensor {
    const char *name;
    int rank;
    int64_t shape[2];
};

static inline void tiny_weights(struct tiny *t)
{
    const struct tiny_tensor tensors[] = {
        { "model.embed_tokens.weight", 2, { t->vocab, TINY_WIDTH } },
        { "model.norm.weight", 1, { TINY_WIDTH } },
        { "lm_head.weight", 2, { t->vocab, TINY_WIDTH } },
        { "model.layers.0.input_layernorm.weight", 1, { TINY_WIDTH } },
        { "model.layers.0.self_attn.q_proj.weight", 2, { 2 * TINY_HEAD, TINY_WIDTH } },
        { "model.layers.0.self_attn.k_proj.weight", 2, { TINY_HEAD, TINY_WIDTH } },
        { "model.layers.0.self_attn.v_proj.weight", 2, { TINY_HEAD, TINY_WIDTH } },
        { "model.layers.0.self_attn.o_proj.weight", 2, { TINY_WIDTH, 2 * TINY_HEAD } },
        { "model.layers.0.post_attention_layernorm.weight", 1, { TINY_WIDTH } },
        { "model.layers.0.mlp.gate_proj.weight", 2, { TINY_FFN, TINY_WIDTH } },
        { "model.layers.0.mlp.up_proj.weight", 2, { TINY_FFN, TINY_WIDTH } },
        { "model.layers.0.mlp.down_proj.weight", 2, { TINY_WIDTH, TINY_FFN } },
    };
    struct tensor_writer w;
    enum { COUNT = sizeof tensors / sizeof tensors[0] };

    EXPECT_OK(tensor_writer_open(&w, &t->arena, tiny_path(t, "model.safetensors")));
    for (int i = 0; i < COUNT; i++) {
        if (t->leave_out == NULL || strcmp(t->leave_out, tensors[i].name) != 0) {
            tensor_writer_declare(&w, tensors[i].name, DT_F32, tensors[i].rank, tensors[i].shape);
        }
    }
    EXPECT_OK(tensor_writer_begin(&w, 8));
    for (int i = 0; i < COUNT; i++) {
        struct philox_stream random = philox_stream_make(7, tensors[i].name);
        int64_t count = tensors[i].shape[0] * (tensors[i].rank == 2 ? tensors[i].shape[1] : 1);

        if (t->leave_out != NULL && strcmp(t->leave_out, tensors[i].name) == 0) {
            continue;
        }
        for (int64_t k = 0; k < count; k++) {
            float x = (float)(t->scale * philox_normal(&random, (uint64_t)k));

            EXPECT_OK(tensor_writer_append(&w, &x, sizeof x));
        }
    }
    EXPECT_OK(tensor_writer_finish(&w));
    tensor_writer_abandon(&w);
}

/* Settings that are 0 get the usual value. */
static inline void tiny_make(struct tiny *t)
{
    const char *temporary = getenv("TMPDIR");

    snprintf(t->folder, sizeof t->folder, "%s/roux-tiny-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(t->folder));
    t->vocab = t->vocab == 0 ? 40 : t->vocab;
    t->positions = t->positions == 0 ? 32 : t->positions;
    t->eos = t->eos == 0 ? -1 : t->eos;
    t->scale = t->scale == 0 ? 0.5 : t->scale;
    tiny_config(t);
    tiny_weights(t);
}

static inline void tiny_remove(struct tiny *t)
{
    EXPECT_OK(folder_remove(t->folder));
    arena_release(&t->arena);
}

/* A tensor of a batch file: [rows, columns] or, with columns 0, [rows]. */
struct tiny_column {
    const char *name;
    enum dtype dtype; /* DT_I64, DT_I32, DT_F32 */
    int64_t rows, columns;
    const int64_t *values;
};

static inline const char *tiny_batch(struct tiny *t, const struct tiny_column *columns, int count)
{
    const char *path = tiny_path(t, "batch.safetensors");
    struct tensor_writer w;

    EXPECT_OK(tensor_writer_open(&w, &t->arena, path));
    for (int i = 0; i < count; i++) {
        int64_t shape[2] = { columns[i].rows, columns[i].columns };

        tensor_writer_declare(&w, columns[i].name, columns[i].dtype,
                              columns[i].columns == 0 && columns[i].rows != 0 ? 1 : 2, shape);
    }
    EXPECT_OK(tensor_writer_begin(&w, 8));
    for (int i = 0; i < count; i++) {
        int64_t elements = columns[i].rows * (columns[i].columns == 0 ? 1 : columns[i].columns);

        for (int64_t k = 0; k < elements; k++) {
            char bytes[8];

            assert_true(dtype_convert(columns[i].dtype, bytes, DT_I64, &columns[i].values[k], 1));
            EXPECT_OK(tensor_writer_append(&w, bytes, dtype_bytes(columns[i].dtype)));
        }
    }
    EXPECT_OK(tensor_writer_finish(&w));
    tensor_writer_abandon(&w);
    return path;
}

#endif
