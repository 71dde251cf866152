/*
 * Using a model without training it: what it computes on a given batch, and how it goes on with a
 * text.
 *
 *   probe_run      logits, loss and every gradient of a model folder on a batch file, by Hugging Face name
 *   generate_run   tokens that follow a prompt, one by one
 *
 * Both write programs of their own with the model's layers: what is proved of a probe holds for the
 * trainer.
 */
#ifndef ROUX_INFER_INFER_H
#define ROUX_INFER_INFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm.h"

/* ---- probe ---- */

/*
 * The batch file is safetensors with I64 or I32 tensors [B, S]:
 *
 *   input_ids      in [0, vocabulary)
 *   labels         a token id or -100 (not scored); not shifted: position i is scored against labels[i + 1]
 *   document_ids   optional: a new value starts a document
 *   position_ids   optional, not read where document_ids stand: a restart at 0 starts a document
 *
 * The result holds logits [B, S, vocabulary], loss [1] F64 (sum of token losses / valid targets; 0
 * if there is no target), and grad.<tensor name> for every weight, the derivative of that loss; F64
 * where `real` is, else F32. Logits are left out when there is more than one rank.
 */
struct probe_options {
    const char *model, *batch; /* a model folder; a batch file */
    const char *out;           /* a file, replaced whole; NULL: nothing is written */
    enum dtype real;           /* DT_F64, DT_F32 or DT_BF16 */
    int threads;               /* of this rank; 0 = all that this process may use */
    int tensor, shard;         /* degrees; what is left of the world are replicas. 0 means 1 */
    bool recompute;   /* repeat layers in the backward pass instead of keeping their activations */
    bool test_finite; /* stop at the first value that is not finite: ERR_FORMAT naming it */

    /* Looking inside; all NULL where nobody asks. What is shown goes to `to`, by rank 0. */
    FILE *to;
    const char *until; /* the last node that runs, by index or first output; without `out` */
    const char *dump;  /* VALUE or VALUE=FILE: shown after the run, of this rank */
    const char
        *compare; /* FAMILY[/PRECISION]: run node by node against it; without out, until, dump */
    double tolerance;  /* of `compare`, over a value's largest entry; 0: by precision */
    FILE *time_ops;    /* a table of times by op goes here */
    const char *trace; /* a file in Chrome's form; rank r above 0 adds ".r" to its name */
};

struct probe_report {
    const char *family, *kernels;
    int64_t B, S, vocabulary, parameters;
    int64_t targets; /* valid ones */
    double loss;
    int gradients; /* tensors */
    int ignored;   /* tensors of the model's files that it has no use for */
    bool logits;   /* whether they were written */
    int threads;
    /* with `until`: the last node; loss and targets are 0 then. With neither it is -1 */
    int until;
};

/*
 * Collective over world: rows are dealt as sequence i -> slot i div D of data index i mod D, with
 * empty rows where B does not divide by D; the result is written by rank 0. ERR_MISSING, ERR_FORMAT
 * (file, tensor, row, position), ERR_UNSUPPORTED, ERR_RECIPE for degrees that do not fit and names
 * that are unknown, ERR_FORMAT too where two families differ by more than the tolerance,
 * ERR_MEMORY, ERR_IO, ERR_PEER. Texts of `report` live in `a`.
 */
MUST_USE status probe_run(const struct probe_options *o, struct comm *world, struct arena *a,
                          struct probe_report *report);

/* ---- generate ---- */

struct generate_options {
    const char *model;
    const int64_t *prompt; /* [prompt_count]; no token is added to it */
    int64_t prompt_count;
    int64_t most; /* new tokens, at least 1 */
    /* 0: the likeliest token, the lowest id among equals; else softmax(logits / temperature) */
    double temperature;
    uint64_t seed; /* the random number of new token n is a function of (seed, n) */
    enum dtype real;
    int threads;
};

enum generate_end {
    END_MOST,
    END_TEXT,
    END_CONTEXT
}; /* as many as asked for; an end-of-text id; no positions left */

struct generate_report {
    int64_t tokens;
    enum generate_end end;
    int64_t end_id;    /* of END_TEXT; it was not given to `each` */
    int64_t positions; /* that the model has */
    double seconds;    /* of the tokens alone */
};

/* One new token. A status other than OK ends the generation with it. */
typedef status generate_each_fn(void *user, int64_t id);

/*
 * On this rank alone. ERR_RECIPE for an empty prompt, one with ids outside the vocabulary, or one
 * that leaves no position free; ERR_FORMAT where logits are not finite; and what loading a model
 * can say.
 */
MUST_USE status generate_run(const struct generate_options *o, generate_each_fn *each, void *user,
                             struct generate_report *report);

/*
 * A text as a prompt of bytes, one token a byte, for models without a tokenizer (vocabulary of 256
 * bytes and at most as many special ids). ERR_UNSUPPORTED where the folder has a tokenizer or a
 * larger vocabulary, ERR_RECIPE for a byte without id.
 */
MUST_USE status generate_text_prompt(struct arena *a, const char *model, const char *text,
                                     int64_t **ids, int64_t *count);

/*
 * Bytes to a terminal or pipe so that no UTF-8 sequence is ever half written: what may still become
 * one waits. Bytes that are no UTF-8 pass as they are. A zeroed struct has nothing waiting.
 */
struct utf8_gate {
    unsigned char waiting[4];
    int count;
};

/* Takes one byte; returns how many bytes of `out` may be written now. */
int utf8_gate_put(struct utf8_gate *g, unsigned char byte, char out[8]);
int utf8_gate_end(struct utf8_gate *g, char out[8]);

#endif
