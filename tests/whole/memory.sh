#!/usr/bin/env bash
# After its first steps a run asks the system for nothing: no allocation of ours in twenty steps without save, validation
# or log line, from synthetic rows and from files, in every precision, alone and as one of two ranks; and resident memory
# stays where it is.
set -euo pipefail
export OMP_WAIT_POLICY=passive
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

# window WHAT FROM TO OVERRIDES...: leaves the library's report in $work/report. MPIRUN goes before the program.
window() {
    local what=$1 from=$2 to=$3
    shift 3
    rm -rf "$work/run" "$work/report"
    ${MPIRUN:-} env LD_PRELOAD="$shim" ALLOC_WINDOW_FROM="$from" ALLOC_WINDOW_TO="$to" ALLOC_WINDOW_REPORT="$work/report" \
        "$ROUX_PROGRAM" train "$work/tiny.yaml" --quiet "$@" >"$work/said" 2>&1 || { cat "$work/said"; fail "$what did not run"; }
    [[ -e $work/report ]] || fail "$what: the window never closed"
    echo "$what: $(head -1 "$work/report") in steps $from to $to"
}
none() { [[ $(head -1 "$work/report") == "0 calls" ]] || { cat "$work/report"; fail "memory is asked for between steps"; }; }

for precision in 32 bf16 64; do
    window "rows from files, $precision" 10 30 trainer.precision=$precision
    none
done
window "rows from files, bf16, one thread" 10 30 trainer.precision=bf16 trainer.threads=1
none
window "synthetic rows, bf16, recomputed" 10 30 trainer.precision=bf16 model.activation_checkpointing=true model.data.use_synthetic_data=true model.data.train_dir=null
none
if command -v mpirun >/dev/null && [[ -e $ROUX_BUILD/roux-mpi.so ]]; then
    for mesh in tensor_model_parallel_degree shard_degree; do
        MPIRUN="mpirun --allow-run-as-root --oversubscribe -n 2" window "rank 0 of 2, $mesh" 10 30 distributed_backend=mpi model.$mesh=2 trainer.precision=bf16
        none
    done
else
    echo "skipped: two ranks; mpirun or roux-mpi.so is absent"
fi

# The library must be able to count: a validation draws the picture of the run.
window "with a validation inside" 10 30 trainer.limit_val_batches=1 trainer.val_check_interval=20 model.data.val_dir="$work/rows"
grep -q '^[1-9].* from .*/roux+' "$work/report" || { cat "$work/report"; fail "the library counts nothing"; }

window "resident memory" 3 200 trainer.max_steps=200 trainer.precision=bf16
read -r _ early _ _ late _ < <(sed -n 2p "$work/report")
echo "resident memory: $early KiB after step 3, $late KiB after step 200"
((early > 0 && late - early <= 1024)) || fail "it grew by $((late - early)) KiB"
