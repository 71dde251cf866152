#!/bin/sh
# make demo: from a book to a model that continues it, in one go. Everything lands in ./demo.
#
#   DEMO_SECONDS   how long the training should take on this machine (default 240)
set -eu
cd "$(dirname "$0")/.."
roux=${ROUX_PROGRAM:-build/roux}
seconds=${DEMO_SECONDS:-240}

say() { printf '\n== %s\n' "$*"; }

say "the text: the King James Bible, public domain, as the Debian package bible-kjv prints it"
rm -rf demo
mkdir -p demo/text
bible -l80 gen1:1-rev22:21 >demo/text/kjv.txt
ls -l demo/text/kjv.txt

say "tokens: one a byte; the last twentieth of the text is held out"
"$roux" tokenize --bytes demo/text/kjv.txt --out demo/data --width 256 --validation 0.05 | tee demo/tokenize.txt

say "the recipe: examples/demo.yaml"
"$roux" check examples/demo.yaml
"$roux" plan examples/demo.yaml

# How many steps fit: a few are timed first, into a folder that is thrown away.
say "timing this machine"
"$roux" train examples/demo.yaml --quiet trainer.max_steps=12 trainer.limit_val_batches=0 trainer.log_every_n_steps=1 \
    exp_manager.explicit_log_dir=demo/timing exp_manager.export_full_model.save_last=false \
    exp_manager.export_full_model.final_export_dir=null exp_manager.checkpoint_callback_params.save_last=false
rate=$(sed -n 's/.*"seconds":\([0-9.e-]*\),.*/\1/p' demo/timing/metrics.jsonl | sort -g | sed -n 6p)
steps=$(awk -v rate="$rate" -v seconds="$seconds" 'BEGIN { n = int(seconds / rate / 100) * 100; if (n < 100) n = 100;
    if (n > 4000) n = 4000; print n }')
rm -rf demo/timing
printf 'a step takes %.2f s: %d steps in about %d s\n' "$rate" "$steps" "$seconds"

say "training"
"$roux" train examples/demo.yaml trainer.max_steps="$steps"

say "what it writes"
printf 'And it came to pass'
"$roux" generate --model demo/model --prompt "And it came to pass" --max-new-tokens 230 --temperature 0.7 --seed 1

before=$(sed -n 's/.*"step":0,"val_loss":\([0-9.]*\).*/\1/p' demo/run/metrics.jsonl)
after=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' demo/run/metrics.jsonl | tail -n 1)
entropy=$(sed -n 's/.*order-0 entropy[^0-9]*\([0-9.]*\) nat.*/\1/p' demo/tokenize.txt)
tokens=$(sed -n 's/.*"tokens_per_second":\([0-9.]*\).*/\1/p' demo/run/metrics.jsonl | tail -n 1)

say "done"
figure() { printf "%.${2}f" "$1"; }
before=$(figure "$before" 4) after=$(figure "$after" 4) tokens=$(figure "$tokens" 0)
cat <<EOF
validation loss before training   $before nat a byte
validation loss after training    $after nat a byte
order-0 entropy of the held-out   $entropy nat a byte (guessing each byte by its frequency alone)
speed at the end                  $tokens tokens/s

where everything lies
  demo/data                       rows of tokens, demo/data/val held out
  demo/run/metrics.jsonl          loss, norm, rate of every step
  demo/run/checkpoints/sharded    the last checkpoint: resume with exp_manager.resume_from_checkpoint
  demo/model                      the model as a Hugging Face folder: config.json, model.safetensors

what to type next
  $roux generate --model demo/model --prompt "In the beginning" --temperature 0.8 --seed 7
  $roux train examples/demo.yaml trainer.max_steps=$((steps + 200)) exp_manager.resume_from_checkpoint=demo/run/checkpoints
  $roux plan examples/demo.yaml --program | less
EOF
