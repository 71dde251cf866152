#!/usr/bin/env bash
# After its first steps a run asks the system for nothing: no allocation of ours in twenty steps without save, validation
# or log line, from synthetic rows and from files, in 32 and bf16; and resident memory stays where it is.
set -euo pipefail
shim=$ROUX_BUILD/tests/alloc_window.so
if [[ ! -e $shim ]]; then
    echo "skipped: the preload library is not built under sanitizers"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-memory-XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir "$work/rows"
for i in $(seq 0 199); do
    seq -s, $((i % 40 + 1)) $((i % 40 + 20)) | sed 's/.*/{"input_ids":[&],"attention_mask":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"labels":[&]}/'
done >"$work/rows/rows.json"

cat >"$work/tiny.yaml" <<END
trainer: { max_steps: 40, log_every_n_steps: 1000, limit_val_batches: 0, accumulate_grad_batches: 2 }
distributed_backend: alone
exp_manager: { explicit_log_dir: $work/run, create_checkpoint_callback: false, save_on_stop: false, export_full_model: { save_last: false } }
model:
  model_type: llama_v3
  do_finetune: false
  train_batch_size: 2
  max_context_width: 32
  vocab_size: 64
  hidden_size: 32
  intermediate_size: 64
  num_hidden_layers: 2
  num_attention_heads: 2
  num_key_value_heads: 2
  data: { use_synthetic_data: false, train_dir: $work/rows }
END

fail() {
    echo "FAIL: $*"
    exit 1
}

# The shim must be able to count: a run whose log lines stand in the window allocates nothing either, but one that draws
# its picture (a validation) does.
window() { # what, overrides ...
    local what=$1
    shift
    rm -rf "$work/run" "$work/report"
    LD_PRELOAD=$shim ALLOC_WINDOW_FROM=10 ALLOC_WINDOW_TO=30 ALLOC_WINDOW_REPORT=$work/report \
        "$ROUX_PROGRAM" train "$work/tiny.yaml" --quiet "$@" >"$work/said" 2>&1 || { cat "$work/said"; fail "$what did not run"; }
    [[ -e $work/report ]] || fail "$what: the window never closed"
    echo "$what: $(head -1 "$work/report") in 20 steps"
}

for precision in 32 bf16 64; do
    window "rows from files, $precision" trainer.precision=$precision
    [[ $(head -1 "$work/report") == "0 calls" ]] || { cat "$work/report"; fail "memory is asked for between steps"; }
done
window "synthetic rows, bf16" trainer.precision=bf16 model.data.use_synthetic_data=true model.data.train_dir=null
[[ $(head -1 "$work/report") == "0 calls" ]] || { cat "$work/report"; fail "memory is asked for between steps"; }
window "with a validation inside" trainer.limit_val_batches=1 trainer.val_check_interval=20 model.data.val_dir="$work/rows"
[[ $(head -1 "$work/report") != "0 calls" ]] || fail "the library counts nothing"

# ---- resident memory from step 3 to step 200 ----

rm -rf "$work/run"
"$ROUX_PROGRAM" train "$work/tiny.yaml" --quiet trainer.max_steps=100000 trainer.precision=bf16 >"$work/said" 2>&1 &
pid=$!
resident_at() { # step
    for _ in $(seq 600); do
        if [[ $(tail -n 1 "$work/run/metrics.jsonl" 2>/dev/null | sed -n 's/^{"step":\([0-9]*\),.*/\1/p') -ge $1 ]] 2>/dev/null; then
            awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"
            return
        fi
        sleep 0.05
    done
    fail "step $1 was not reached in 30 s"
}
early=$(resident_at 3)
late=$(resident_at 200)
kill -KILL $pid
wait $pid 2>/dev/null || true
echo "resident memory: $early KiB after step 3, $late KiB after step 200"
((late - early <= 1024)) || fail "it grew by $((late - early)) KiB"
