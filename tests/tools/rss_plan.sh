#!/usr/bin/env bash
# rss_plan.sh BUILD [OVERRIDES...]
#
# Resident memory of a training run against `roux plan`: RssAnon + RssShmem, sampled every 5 ms, less its value at the
# start, on a model whose plan is at least 512 MiB. One line with the figures; exit code 0 if they are within 5 %.
set -euo pipefail
build=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-rss-XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/model.yaml" <<END
trainer: { max_steps: 4, log_every_n_steps: 1, limit_val_batches: 0 }
distributed_backend: alone
exp_manager: { explicit_log_dir: $work/run, create_checkpoint_callback: false, save_on_stop: false, export_full_model: { save_last: false } }
model:
  model_type: llama_v3
  do_finetune: false
  activation_checkpointing: false
  train_batch_size: 4
  max_context_width: 256
  vocab_size: 32000
  hidden_size: 384
  intermediate_size: 1024
  num_hidden_layers: 8
  num_attention_heads: 6
  num_key_value_heads: 6
  data: { use_synthetic_data: true }
END

planned=$("$build/roux" plan "$work/model.yaml" --json "$@" 2>/dev/null | sed -n 's/.*"total": *\([0-9]*\).*/\1/p' | head -1)
[[ -n $planned ]] || { echo "no total in the plan"; exit 1; }
((planned >= 512 << 20)) || { echo "the plan is $((planned >> 20)) MiB, less than 512"; exit 1; }
read -r _ start _ peak < <("$build/tests/rss_peak" "$build/roux" train "$work/model.yaml" --quiet "$@" 2>"$work/said" | tail -n 1) || { cat "$work/said"; exit 1; }
[[ -n ${peak:-} ]] || { cat "$work/said"; exit 1; }
awk -v planned="$planned" -v used="$(((peak - start) * 1024))" 'BEGIN {
    off = 100 * (used / planned - 1)
    printf "plan %.1f MiB, resident %.1f MiB: %+.2f %% (at most 5)\n", planned / 1048576, used / 1048576, off
    exit !(off <= 5 && off >= -5)
}'
