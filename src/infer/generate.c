/*
 * Generation without a cache: one program of B = 1 and as many positions as there will ever be,
 * whose live count is a state value. Each new token runs all positions so far again; that is
 * quadratic, and simple enough to be the measure of a cache.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/philox.h"
#include "base/threads.h"
#include "infer/infer.h"
#include "model/hf.h"
#include "model/model.h"
#include "store/safetensors.h"

enum { BYTES = 256, SPECIAL_IDS = 256 };

struct generation {
    const struct generate_options *o;
    struct arena arena;
    struct comm alone;
    struct mesh mesh;
    const struct kernels *kernels;
    int threads;
    struct model_spec spec;
    struct model model;
    struct residents residents;
    struct program program;
    struct model_inputs inputs;
    val length, logits;
    struct device device;
    int64_t bound, live; /* positions there are, and those filled */
    double *scores;      /* [vocabulary] */
    float *narrow;       /* the same as the device has them in 32 */
    struct philox_stream random;
};

/* ---- set-up ---- */

static status check_prompt(const struct generation *g)
{
    const struct generate_options *o = g->o;

    if (o->prompt_count < 1) {
        return fail(ERR_RECIPE, "the prompt is empty; it needs at least one token");
    }
    if (o->prompt_count >= g->spec.max_positions) {
        return fail(ERR_RECIPE,
                    "the prompt has %lld tokens, but the model has %lld positions "
                    "(max_position_embeddings), of which "
                    "one must be left for a new token; shorten the prompt",
                    (long long)o->prompt_count, (long long)g->spec.max_positions);
    }
    for (int64_t i = 0; i < o->prompt_count; i++) {
        if (o->prompt[i] < 0 || o->prompt[i] >= g->spec.vocab) {
            return fail(
                ERR_RECIPE,
                "token %lld of the prompt is %lld, which is not an id of the vocabulary of %lld",
                (long long)i, (long long)o->prompt[i], (long long)g->spec.vocab);
        }
    }
    return OK;
}

static status write_program(struct generation *g)
{
    struct program *p = &g->program;
    struct memory_plan plan;

    program_init(p, "generate", &g->arena, &g->mesh, g->o->real);
    g->inputs = model_inputs(p, 1, g->bound);
    g->length = program_state(p, "length", DT_I64, shape_1(1), (struct place){ { 0 } });
    program_live(p, g->inputs.ids, 1, g->length);
    program_live(p, g->inputs.targets, 1, g->length);
    program_live(p, g->inputs.positions, 1, g->length);
    program_live(p, g->inputs.starts, 1, g->length);
    g->logits = model_logits(p, &g->model, &g->inputs);
    program_keep(p, g->logits);
    return program_plan(p, &g->residents, g->kernels, g->threads, &plan);
}

static status load_weights(struct generation *g)
{
    struct tensor_folder f = { 0 };
    int ignored;
    status s;

    TRY_OR(close_folder, s, tensor_folder_open(&f, &g->arena, g->o->model));
    s = weights_load(g->model.weights, &g->device, &g->program, &f, &ignored);
close_folder:
    tensor_folder_close(&f);
    return s;
}

static void put_token(struct generation *g, int64_t id)
{
    int32_t token = (int32_t)id, position = (int32_t)g->live, start = 0;

    device_write(&g->device, &g->program, g->inputs.ids, g->live, 1, &token);
    device_write(&g->device, &g->program, g->inputs.positions, g->live, 1, &position);
    device_write(&g->device, &g->program, g->inputs.starts, g->live, 1, &start);
    g->live++;
    device_write(&g->device, &g->program, g->length, 0, 1, &g->live);
}

static status set_up(struct generation *g)
{
    static const int size[AXIS_COUNT] = { 1, 1, 1, 1, 1 };
    const struct generate_options *o = g->o;

    TRY(hf_config_read(&g->spec, &g->arena, o->model));
    TRY(check_prompt(g));
    g->bound = o->most < g->spec.max_positions - o->prompt_count ? o->prompt_count + o->most
                                                                 : g->spec.max_positions;
    g->threads = threads_default(o->threads);
    g->scores = arena_take_array(&g->arena, (size_t)g->spec.vocab, sizeof *g->scores);
    g->narrow = arena_take_array(&g->arena, (size_t)g->spec.vocab, sizeof *g->narrow);
    g->random = philox_stream_make(o->seed, "generate");
    comm_alone(&g->alone);
    TRY(mesh_open(&g->mesh, &g->alone, size));
    TRY(kernels_find(o->real, &g->kernels));
    TRY(model_make(&g->model, &g->arena, &g->spec, &g->mesh));
    residents_init(&g->residents, &g->arena);
    TRY(write_program(g));
    TRY(device_open(&g->device, g->kernels, &g->mesh, g->threads, &g->residents));
    TRY(load_weights(g));
    for (int64_t i = 0; i < o->prompt_count; i++) {
        put_token(g, o->prompt[i]);
    }
    return OK;
}

/* ---- one token ---- */

static status read_scores(struct generation *g)
{
    int64_t V = g->spec.vocab, from = (g->live - 1) * V;

    if (g->o->real == DT_F64) {
        device_read(&g->device, &g->program, g->logits, from, V, g->scores);
    } else {
        device_read(&g->device, &g->program, g->logits, from, V, g->narrow);
        for (int64_t i = 0; i < V; i++) {
            g->scores[i] = g->narrow[i];
        }
    }
    for (int64_t i = 0; i < V; i++) {
        if (!isfinite(g->scores[i])) {
            return fail(ERR_FORMAT,
                        "%s: the logit of token %lld at position %lld is %s; the model's numbers "
                        "overflow in this "
                        "precision",
                        g->o->model, (long long)i, (long long)(g->live - 1),
                        isnan(g->scores[i]) ? "NaN" : "infinite");
        }
    }
    return OK;
}

static int64_t likeliest(const struct generation *g)
{
    int64_t best = 0;

    for (int64_t i = 1; i < g->spec.vocab; i++) {
        best = g->scores[i] > g->scores[best] ? i : best;
    }
    return best;
}

/* The id at which the running sum of probabilities, in the order of ids, passes the random
 * number. */
static int64_t drawn(const struct generation *g, int64_t number)
{
    int64_t V = g->spec.vocab, last = likeliest(g);
    double largest = g->scores[last], sum = 0, at;

    for (int64_t i = 0; i < V; i++) {
        g->scores[i] = exp((g->scores[i] - largest) / g->o->temperature);
        sum += g->scores[i];
    }
    at = philox_uniform(&g->random, (uint64_t)number) * sum;
    for (int64_t i = 0; i < V; i++) {
        if (g->scores[i] > 0) {
            last = i;
            at -= g->scores[i];
            if (at < 0) {
                break;
            }
        }
    }
    return last;
}

static bool ends_text(const struct generation *g, int64_t id)
{
    for (int i = 0; i < g->spec.eos_count; i++) {
        if (g->spec.eos[i] == id) {
            return true;
        }
    }
    return false;
}

static status next_token(struct generation *g, int64_t number, int64_t *id)
{
    TRY(program_run(&g->program, &g->device, NULL));
    TRY(read_scores(g));
    *id = g->o->temperature > 0 ? drawn(g, number) : likeliest(g);
    return OK;
}

static status go_on(struct generation *g, generate_each_fn *each, void *user,
                    struct generate_report *report)
{
    report->positions = g->spec.max_positions;
    report->end = END_MOST;
    while (report->tokens < g->o->most) {
        int64_t id;

        TRY(next_token(g, report->tokens, &id));
        if (ends_text(g, id)) {
            report->end = END_TEXT;
            report->end_id = id;
            break;
        }
        TRY(each(user, id));
        report->tokens++;
        if (g->live == g->bound) {
            break; /* a token behind the last position could not be read by the model */
        }
        put_token(g, id);
    }
    if (report->end == END_MOST && report->tokens < g->o->most) {
        report->end = END_CONTEXT;
    }
    return OK;
}

status generate_run(const struct generate_options *o, generate_each_fn *each, void *user,
                    struct generate_report *report)
{
    struct generation g = { .o = o };
    double start;
    status s;

    *report = (struct generate_report){ 0 };
    s = set_up(&g);
    if (s == OK) {
        start = clock_seconds();
        s = go_on(&g, each, user, report);
        report->seconds = clock_seconds() - start;
    }
    device_close(&g.device);
    residents_release(&g.residents);
    mesh_close(&g.mesh);
    comm_close(&g.alone);
    arena_release(&g.arena);
    return s;
}

/* ---- prompts of bytes ---- */

static const char *tokenizer_of(struct arena *a, const char *model)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer.model", "vocab.json" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (file_is_there(path_join(a, model, names[i]))) {
            return names[i];
        }
    }
    return NULL;
}

status generate_text_prompt(struct arena *a, const char *model, const char *text, int64_t **ids,
                            int64_t *count)
{
    struct model_spec spec;
    const char *tokenizer = tokenizer_of(a, model);

    TRY(hf_config_read(&spec, a, model));
    if (tokenizer != NULL || spec.vocab > BYTES + SPECIAL_IDS) {
        return fail(ERR_UNSUPPORTED,
                    "%s: a prompt of text needs a model of bytes, but this one has %s%s; "
                    "tokenizers are not built "
                    "yet, give --prompt-ids",
                    model,
                    tokenizer != NULL ? "the tokenizer " : "a vocabulary of more than 512 ids",
                    tokenizer != NULL ? tokenizer : "");
    }
    *count = (int64_t)strlen(text);
    *ids = arena_take_array(a, (size_t)*count, sizeof **ids);
    for (int64_t i = 0; i < *count; i++) {
        (*ids)[i] = (unsigned char)text[i];
        if ((*ids)[i] >= spec.vocab) {
            return fail(ERR_RECIPE,
                        "%s: byte %lld of the prompt is 0x%02x, beyond the vocabulary of %lld; "
                        "give --prompt-ids",
                        model, (long long)i, (unsigned)(*ids)[i], (long long)spec.vocab);
        }
    }
    return OK;
}
