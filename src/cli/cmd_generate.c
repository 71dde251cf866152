/* roux generate: tokens that follow a prompt. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "infer/infer.h"
#include "tensor/kernels.h"

static const struct option options[] = {
    { "model", 0, OPTION_TEXT, "DIR", "a Hugging Face model folder", 0, 0, true },
    { "prompt", 0, OPTION_TEXT, "TEXT", "the beginning, for models of bytes", 0, 0, false },
    { "prompt-ids", 0, OPTION_TEXT, "IDS", "the beginning as token ids: \"1 2 3\"", 0, 0, false },
    { "max-new-tokens", 0, OPTION_INT, "N", "how many tokens at most (default 100)", 1, 16777216,
      false },
    { "temperature", 0, OPTION_NUMBER, "T",
      "0 takes the likeliest token (default); 1 draws from the model's probabilities", 0, 1000,
      false },
    { "seed", 0, OPTION_INT, "N", "of the drawing (default 0): the same seed gives the same text",
      0, 9007199254740992, false },
    { "ids", 0, OPTION_FLAG, NULL, "print token ids instead of text", 0, 0, false },
    { "precision", 0, OPTION_CHOICE, "32|64|bf16", "number type of the computation (default 32)", 0,
      0, false },
    { "threads", 0, OPTION_INT, "N", "threads (default: all cores)", 1, 4096, false },
    { "quiet", 'q', OPTION_FLAG, NULL, "only the text", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "generate --model demo/model --prompt 'In the beginning'",
      "goes on with the likeliest tokens" },
    { "generate --model demo/model --prompt 'And ' --temperature 0.8 --seed 7 --max-new-tokens 400",
      "draws; another seed, another text" },
    { "generate --model smol --prompt-ids '1 320 9' --ids --max-new-tokens 12",
      "twelve token ids" },
    { 0 },
};

/* ---- the prompt ---- */

static status ids_parse(struct arena *a, const char *text, int64_t **ids, int64_t *count)
{
    *ids = arena_take_array(a, strlen(text) + 1, sizeof **ids);
    *count = 0;
    for (;;) {
        char *end;

        while (isspace((unsigned char)*text) || *text == ',') {
            text++;
        }
        if (*text == 0) {
            return OK;
        }
        errno = 0;
        (*ids)[*count] = strtoll(text, &end, 10);
        if (end == text || errno != 0 ||
            (*end != 0 && !isspace((unsigned char)*end) && *end != ',')) {
            return fail(ERR_RECIPE,
                        "generate: --prompt-ids: '%.*s' is not a token id; it takes whole numbers, "
                        "as in \"1 2 3\"",
                        (int)strcspn(text, " ,\t\n"), text);
        }
        (*count)++;
        text = end;
    }
}

static status prompt_read(const struct args *args, struct arena *a, int64_t **ids, int64_t *count)
{
    const char *text = args_text(args, "prompt", NULL),
               *numbers = args_text(args, "prompt-ids", NULL);

    if ((text == NULL) == (numbers == NULL)) {
        return fail(ERR_RECIPE, "generate: give one of --prompt TEXT and --prompt-ids IDS%s",
                    text == NULL ? "" : ", not both");
    }
    return text != NULL ? generate_text_prompt(a, args_text(args, "model", NULL), text, ids, count)
                        : ids_parse(a, numbers, ids, count);
}

/* ---- the text ---- */

struct output {
    struct utf8_gate gate;
    bool ids, terminal;
    int64_t count;
    char last;
};

/* On a terminal what could move its cursor or change its state is shown as a question mark. */
static void put_bytes(struct output *o, const char *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];

        putchar(o->terminal && ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) ? '?' : c);
        o->last = bytes[i];
    }
}

static status put_token(void *user, int64_t id)
{
    struct output *o = user;
    char bytes[8];

    if (o->ids) {
        printf("%s%lld", o->count > 0 ? " " : "", (long long)id);
    } else if (id < 256) {
        put_bytes(o, bytes, utf8_gate_put(&o->gate, (unsigned char)id, bytes));
    }
    o->count++;
    if (fflush(stdout) != 0) {
        return fail(ERR_IO, "standard output: %s", strerror(errno));
    }
    return OK;
}

static void end_text(struct output *o)
{
    char bytes[8];

    put_bytes(o, bytes, utf8_gate_end(&o->gate, bytes));
    if (o->last != '\n') {
        putchar('\n');
    }
    fflush(stdout);
}

static void report(const struct generate_report *r)
{
    char count[32], seconds[32];

    fprintf(stderr, "%s token%s in %s (%.1f tokens/s)", text_count(count, r->tokens),
            r->tokens == 1 ? "" : "s", text_seconds(seconds, r->seconds),
            r->seconds > 0 ? (double)r->tokens / r->seconds : 0.0);
    if (r->end == END_TEXT) {
        fprintf(stderr, "; the model ended the text (token %lld)", (long long)r->end_id);
    } else if (r->end == END_CONTEXT) {
        fprintf(stderr, "; the model has no more than %lld positions", (long long)r->positions);
    }
    fputc('\n', stderr);
}

static status generate(const struct args *args, struct arena *a)
{
    struct generate_options o = {
        .model = args_text(args, "model", NULL),
        .most = args_int(args, "max-new-tokens", 100),
        .temperature = args_number(args, "temperature", 0),
        .seed = (uint64_t)args_int(args, "seed", 0),
        .real = precision_find(args_text(args, "precision", "32")),
        .threads = (int)args_int(args, "threads", 0),
    };
    struct output out = { .ids = args_has(args, "ids"), .terminal = isatty(STDOUT_FILENO) != 0 };
    struct generate_report r;
    int64_t *ids;
    status s;

    TRY(prompt_read(args, a, &ids, &o.prompt_count));
    o.prompt = ids;
    s = generate_run(&o, put_token, &out, &r);
    if (s == OK || out.count > 0) {
        end_text(&out);
    }
    if (s == OK && !args_has(args, "quiet")) {
        report(&r);
    }
    return s;
}

static int run(const struct args *args)
{
    struct arena a = { 0 };
    status s = generate(args, &a);

    arena_release(&a);
    return s == OK ? 0 : cli_fail(s);
}

const struct command command_generate = {
    .name = "generate",
    .words = "",
    .summary = "go on with a text",
    .about = "Prints what the model puts behind the prompt, token by token, until "
             "--max-new-tokens, an end-of-text token of the "
             "model's configuration, or its last position. Text needs a model of bytes; for others "
             "give and take token ids. No "
             "token is added to the prompt.",
    .options = options,
    .examples = examples,
    .least = 0,
    .most = 0,
    .run = run,
};
