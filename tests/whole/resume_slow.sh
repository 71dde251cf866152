#!/bin/bash
# A stop does not matter: SIGTERM at whatever step it arrives, run the same command again, until the end. Steps, losses, norms and
# rates, and the final weights, must be the bits of the uninterrupted run. With one rank, and with four (shards and replicas), where
# the signal goes to the process of one rank.
set -u
roux=$ROUX_PROGRAM
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-resume-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

cat >recipe.yaml <<'EOF'
distributed_backend: mpi
trainer: { accelerator: cpu, devices: 1, precision: 32, max_steps: 24, log_every_n_steps: 1, accumulate_grad_batches: 2, threads: 1 }
exp_manager:
  export_full_model: { save_last: true }
  checkpoint_callback_params: { save_last: false, every_n_train_steps: 0 }
model:
  do_finetune: false
  fp8: false
  vocab_size: 211
  hidden_size: 64
  intermediate_size: 160
  num_hidden_layers: 3
  num_attention_heads: 4
  num_key_value_heads: 2
  max_context_width: 64
  train_batch_size: 2
  optim: { lr: 0.003, sched: { warmup_steps: 4, min_lr: 0.0003 } }
  data: { use_synthetic_data: true }
EOF

lines() { if [ -f "$1" ]; then wc -l <"$1"; else echo 0; fi; }

# What must not differ: everything up to the measured times.
numbers() { sed 's/,"seconds".*//' "$1"; }

die() { echo "FAIL: $*"; exit 1; }

# interrupted NAME COMMAND...: runs it, with a TERM to $victim's choice two steps on, until it ends by itself.
interrupted() {
    local name=$1 stops=0 code pid from
    shift
    while :; do
        from=$(lines "$name/metrics.jsonl")
        "$@" exp_manager.explicit_log_dir="$work/$name" >"$name.log" 2>&1 &
        pid=$!
        while kill -0 $pid 2>/dev/null && [ "$(lines "$name/metrics.jsonl")" -le $((from + 1 + stops % 3)) ]; do sleep 0.01; done
        victim=$(victim_of $pid)
        [ -n "$victim" ] && kill -TERM "$victim" 2>/dev/null
        wait $pid
        code=$?
        [ $code -eq 0 ] && break
        [ $code -eq 75 ] || { cat "$name.log"; die "$name: exit $code instead of 75"; }
        stops=$((stops + 1))
        [ -d "$name/checkpoints/sharded" ] || die "$name: stopped without a checkpoint"
    done
    [ $stops -ge 3 ] || die "$name: only $stops stops happened"
    echo "$name: $stops stops"
}

compare() {
    diff <(numbers "$1/metrics.jsonl") <(numbers "$2/metrics.jsonl") >diff.txt || { head -4 diff.txt; die "$2: the log differs"; }
    cmp "$1/checkpoints/full/steps_24/model.safetensors" "$2/checkpoints/full/steps_24/model.safetensors" || die "$2: the weights differ"
    ls "$2"/checkpoints/sharded 2>/dev/null | grep -q stop_ && die "$2: a stop checkpoint was left behind"
    echo "$2: log and weights are the bits of $1"
}

"$roux" train recipe.yaml exp_manager.explicit_log_dir="$work/whole" >whole.log 2>&1 || { cat whole.log; die "the uninterrupted run"; }
victim_of() { echo "$1"; }
interrupted stopped "$roux" train recipe.yaml
compare whole stopped

command -v mpirun >/dev/null || { echo "mpirun is not installed: the ranks' part is skipped"; exit 0; }
ranks=(mpirun --oversubscribe -n 4 "$roux" train recipe.yaml model.shard_degree=2 trainer.devices=4)
"${ranks[@]}" exp_manager.explicit_log_dir="$work/whole4" >whole4.log 2>&1 || { cat whole4.log; die "four uninterrupted ranks"; }
# The third process that mpirun started.
victim_of() { pgrep -P "$1" -f "train recipe.yaml" | sed -n 3p; }
interrupted stopped4 "${ranks[@]}"
compare whole4 stopped4
echo "PASS"
