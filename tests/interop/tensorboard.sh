#!/usr/bin/env bash
# tests/interop/tensorboard.sh [CHECK]
#
# Shows that TensorBoard's own reader takes the event files that roux writes: a small model is trained, stopped and resumed, and the
# reader must give, for every tag, the steps and values that metrics.jsonl has. With CHECK (the golden set's check_tb.py)
# the same folders are also put to that program.
#
# Not part of `make test`: it installs tensorboard at a pinned version, once, into $ROUX_BUILD/interop/tensorboard
# (ROUX_BUILD is build/ if it is not set; ROUX_TENSORBOARD_VENV names another environment).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${ROUX_BUILD:-$root/build}
roux=${ROUX_PROGRAM:-$build/roux}
venv=${ROUX_TENSORBOARD_VENV:-$build/interop/tensorboard}

if [ ! -x "$roux" ]; then
    echo "$roux is not there: build first (make), or name it in ROUX_PROGRAM" >&2
    exit 2
fi
mkdir -p "$(dirname "$venv")"
if ! cmp -s "$here/tensorboard.txt" "$venv/requirements.txt"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/tensorboard.txt"
    cp "$here/tensorboard.txt" "$venv/requirements.txt" # last: an environment without it is not finished
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/roux-tensorboard-XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/recipe.yaml" <<'RECIPE'
distributed_backend: alone
log_perf_metrics: true
trainer: { max_steps: 9, precision: 32, log_every_n_steps: 3, val_check_interval: 2, limit_val_batches: 1 }
exp_manager:
  name: tour
  version: v1
  resume_if_exists: true
  create_tensorboard_logger: true
  checkpoint_callback_params: { every_n_train_steps: 4, save_last: false }
  export_full_model: { save_last: false }
model:
  model_type: llama_v3
  do_finetune: false
  train_batch_size: 2
  val_batch_size: 2
  max_context_width: 8
  hidden_size: 16
  intermediate_size: 32
  num_hidden_layers: 1
  num_attention_heads: 2
  num_key_value_heads: 2
  vocab_size: 64
  data: { dataset_type: hf, train_dir: rows, val_dir: rows }
RECIPE
mkdir "$work/rows"
for i in $(seq 0 39); do
    ids="[$i, 1, 2, 3, 4, 5, 6, $((i + 7))]"
    echo "{\"input_ids\": $ids, \"attention_mask\": [1, 1, 1, 1, 1, 1, 1, 1], \"labels\": $ids}"
done >"$work/rows/rows.json"
cd "$work"
run() { # SAVE_DIR STEPS
    "$roux" train recipe.yaml --quiet exp_manager.exp_dir=exp exp_manager.summary_writer_kwargs="{save_dir: $1}" trainer.max_steps="$2"
}
run events 9
run events 15 # resumes at 8: 9 is repeated
"$venv/bin/python" "$here/check_tensorboard.py" events/tour/v1 exp/tour/v1/metrics.jsonl 3
"$roux" train recipe.yaml --quiet exp_manager.explicit_log_dir=plain exp_manager.resume_if_exists=false
"$venv/bin/python" "$here/check_tensorboard.py" plain plain/metrics.jsonl 3
if [ $# -gt 0 ]; then
    for folder in events/tour/v1 plain; do
        "$venv/bin/python" "$1" "$folder" >/dev/null && echo "$1 takes $folder"
    done
fi
