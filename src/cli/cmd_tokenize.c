/* roux tokenize: text to rows of tokens. */
#include "base/text.h"
#include "cli/cli.h"
#include "data/tokenize.h"

static const struct option options[] = {
    { "bytes", 0, OPTION_FLAG, NULL, "a token a byte, vocabulary 256; the only tokenizer so far", 0,
      0, false },
    { "out", 0, OPTION_TEXT, "DIR", "folder to make: DIR/train, and DIR/val if rows are held out",
      0, 0, true },
    { "width", 0, OPTION_INT, "N", "tokens of a row: the recipe's model.max_context_width", 2,
      16777216, true },
    { "validation", 0, OPTION_NUMBER, "SHARE",
      "share of the rows that is held out, from each input's end (default 0)", 0, 0.999, false },
    { "documents", 0, OPTION_FLAG, NULL, "rows run across inputs, with document_ids", 0, 0, false },
    { "force", 0, OPTION_FLAG, NULL, "replace what an earlier run made in DIR", 0, 0, false },
    { "quiet", 'q', OPTION_FLAG, NULL, "no report", 0, 0, false },
    { 0 },
};

static const struct example examples[] = {
    { "tokenize --bytes book.txt --out data --width 256 --validation 0.05",
      "rows of 256 bytes; a twentieth is held out" },
    { "tokenize --bytes texts/ --out data --width 1024 --documents",
      "all files of a folder, packed without padding" },
    { 0 },
};

static void report(const struct tokenize_options *o, const struct tokenize_report *r)
{
    char inputs[32], bytes[32], rows[32], held[32], tokens[32];

    printf("read       %s file%s, %s bytes\n", text_count(inputs, r->inputs),
           r->inputs == 1 ? "" : "s", text_count(bytes, r->bytes));
    printf("wrote      %s rows of %lld tokens to %s/train", text_count(rows, r->rows),
           (long long)o->width, o->out);
    if (r->validation_rows > 0) {
        printf(", %s to %s/val", text_count(held, r->validation_rows), o->out);
    }
    printf("\ntokens     %s\n", text_count(tokens, r->tokens));
    printf("order-0 entropy%s: %.4f nats a byte (what guessing each byte by its frequency alone "
           "would lose)\n",
           r->validation_rows > 0 ? " of the held-out bytes" : "", r->entropy0);
    printf("next: roux train RECIPE model.vocab_size=256 model.max_context_width=%lld "
           "model.data.train_dir=%s/train",
           (long long)o->width, o->out);
    if (r->validation_rows > 0) {
        printf(" model.data.val_dir=%s/val", o->out);
    }
    putchar('\n');
}

static int run(const struct args *args)
{
    struct tokenize_options o = {
        .inputs = args->words,
        .input_count = args->word_count,
        .out = args_text(args, "out", NULL),
        .width = args_int(args, "width", 0),
        .validation = args_number(args, "validation", 0),
        .documents = args_has(args, "documents"),
        .force = args_has(args, "force"),
    };
    struct tokenize_report r;
    status s;

    if (!args_has(args, "bytes")) {
        return cli_fail(
            fail(ERR_UNSUPPORTED,
                 "tokenize: only --bytes is built so far (a token a byte); give --bytes"));
    }
    s = tokenize_bytes(&o, &r);
    if (s != OK) {
        return cli_fail(s);
    }
    if (!args_has(args, "quiet")) {
        report(&o, &r);
    }
    return 0;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .words = "INPUT...",
    .summary = "turn text files into rows of tokens",
    .about = "Reads files, or all files directly in a folder, and writes rows of token ids as JSON "
             "lines that roux train reads. A run "
             "that fails leaves nothing behind; one that is killed leaves OUT.partial-*, never a "
             "half OUT.",
    .options = options,
    .examples = examples,
    .least = 1,
    .most = -1,
    .run = run,
};
