#!/bin/bash
# Every line of "Must show" of the architecture issue: line, figure, pass or fail. Run from a clean clone after `make build`.
#
#   FRESH_MACHINE=path   a script that tries commands on a bare Debian 12; without it those lines are skipped
#   FRESH_LOG=path       keeps what that run printed
#   GOLDEN=dir           more golden sets: dir/models, dir/safetensors, dir/finetune
#   SHORT=1              leaves out the fuzzers, the sanitizers and the interop environment
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${ROUX_BUILD:-build}
roux=$build/roux
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-show-XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMP_WAIT_POLICY=passive ROUX_PROGRAM=$PWD/$build/roux ROUX_BUILD=$PWD/$build ROUX_SOURCE=$PWD

# line VERDICT TEXT FIGURE
line() {
    case $1 in pass) passed=$((passed + 1)) ;; FAIL) failed=$((failed + 1)) ;; skip) skipped=$((skipped + 1)) ;; esac
    printf '%-4s  %s: %s\n' "$1" "$2" "$3"
}

# try TEXT FIGURE-PATTERN COMMAND...: passes if the command does; the last match of the pattern is the figure.
try() {
    local text=$1 pattern=$2 figure verdict=pass
    shift 2
    "$@" >"$work/out" 2>&1 || verdict=FAIL
    figure=$(grep -E "$pattern" "$work/out" | tail -n 1)
    line $verdict "$text" "${figure:-no output matched $pattern}"
    [ $verdict = pass ] || tail -n 15 "$work/out" | sed 's/^/      /'
}

# below TEXT FIGURE LIMIT UNIT; above likewise
below() { if awk "BEGIN { exit !($2 <= $3) }"; then line pass "$1" "$2 $4 (at most $3)"; else line FAIL "$1" "$2 $4 (at most $3)"; fi; }
above() { if awk "BEGIN { exit !($2 >= $3) }"; then line pass "$1" "$2 $4 (at least $3)"; else line FAIL "$1" "$2 $4 (at least $3)"; fi; }

# Median milliseconds of 31 runs.
median_ms() {
    local i from to
    for i in $(seq 31); do
        from=$EPOCHREALTIME
        "$@" >/dev/null 2>&1
        to=$EPOCHREALTIME
        echo $(((${to/./} - ${from/./}))) 
    done | sort -n | sed -n 16p | awk '{ printf "%.2f", $1 / 1000 }'
}

echo "commit $(git rev-parse --short HEAD), $(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'), $(nproc) cores, $(date -u +%Y-%m-%d)"

# ---- a bare machine ----
if [ -n "${FRESH_MACHINE:-}" ]; then
    # A minimal base system lacks even make.
    "$FRESH_MACHINE" 'apt-get update -qq && apt-get install -y -qq make' 'make demo' 'make test' >"$work/fresh" 2>&1
    cp "$work/fresh" "${FRESH_LOG:-/dev/null}"
    for command in 'make demo' 'make test'; do
        seconds=$(sed -n "s/^== exit 0 after \([0-9]*\) s: $command\$/\1/p" "$work/fresh")
        if [ -n "$seconds" ]; then below "$command on a bare Debian 12" "$seconds" 720 s; else
            line FAIL "$command on a bare Debian 12" "$(grep '^== exit' "$work/fresh" | tail -n 1)"
            tail -n 15 "$work/fresh" | sed 's/^/      /'
        fi
    done
    before=$(sed -n 's/^order-0 entropy of the held-out  *\([0-9][0-9.]*\) nat a byte.*/\1/p' "$work/fresh")
    after=$(sed -n 's/^validation loss after training *\([0-9.]*\) .*/\1/p' "$work/fresh")
    speed=$(sed -n 's/^speed at the end *\([0-9.]*\) .*/\1/p' "$work/fresh")
    above "demo: order-0 entropy ${before:-?} less validation loss ${after:-?}" "$(awk "BEGIN { print ${before:-0} - ${after:-9} }")" 0.3 nat
    above "demo: speed" "${speed:-0}" 600 tokens/s
else
    line skip "make demo and make test on a bare Debian 12" "FRESH_MACHINE is not set"
fi

# ---- goldens ----
for set in tests/golden ${GOLDEN:-}; do
    try "golden_models $set/models" 'passed, ' "$build/tests/golden_models" "$set/models"
    try "golden_safetensors $set/safetensors" 'passed, ' "$build/tests/golden_safetensors" "$set/safetensors"
    try "golden_casts $set/finetune" 'passed, ' "$build/tests/golden_casts" "$set/finetune"
done

# ---- derivatives and bits ----
try "each op's derivative against central differences" 'PASSED' "$build/tests/program_derivative"
grep 'worst difference' "$work/out" | sed 's/^/      /'
try "whole model: differences, recomputation, threads, row tree, rows alone" 'PASSED' "$build/tests/model_gradient"
try "kernels: row tree for 1, 2, 3, 5, 6, 8, 12 rows, threads" 'PASSED' "$build/tests/tensor_kernels"

cat >"$work/speed.yaml" <<'EOF'
distributed_backend: mpi
trainer: { accelerator: cpu, precision: 32, max_steps: 12, log_every_n_steps: 1 }
exp_manager: { export_full_model: { save_last: false }, checkpoint_callback_params: { save_last: false } }
model:
  do_finetune: false
  fp8: false
  vocab_size: 256
  hidden_size: 128
  intermediate_size: 384
  num_hidden_layers: 5
  num_attention_heads: 4
  num_key_value_heads: 2
  max_context_width: 256
  train_batch_size: 8
  activation_checkpointing: false
  data: { use_synthetic_data: true }
EOF
# In turn, and the best step of each: other work on the machine hits two threads harder than one.
for threads in 1 2 1 2 1 2 1 2; do
    "$roux" train "$work/speed.yaml" --quiet trainer.threads=$threads exp_manager.explicit_log_dir="$work/speed$threads" 2>"$work/err" ||
        cat "$work/err"
    sed -n 's/.*"seconds":\([0-9.e-]*\),.*/\1/p' "$work/speed$threads/metrics.jsonl" | sort -g | head -n 1 >>"$work/seconds$threads"
    rm -rf "$work/speed$threads"
done
best() { sort -g "$work/seconds$1" | head -n 1; }
above "two threads against one" "$(awk "BEGIN { printf \"%.2f\", $(best 1) / $(best 2) }")" 1.6 "times the speed"

# ---- ranks ----
for n in 2 4; do
    try "$n ranks against one, 64 within 1e-11, 32 to the bit" 'PASSED' mpirun --oversubscribe -n $n \
        env OMP_NUM_THREADS=1 ROUX_MODULES="$PWD/$build" "$build/tests/train_ranks_mpi"
    grep -h 'worst difference' "$work/out" | sort -u | sed 's/^/      /'
done
try "a forgotten collective is refused while planning" 'mutations refused' "$build/tests/model_mutation"
try "stop after any step and resume, one and four ranks" 'PASS|FAIL' bash tests/whole/resume_slow.sh

# ---- times ----
base=$(median_ms /bin/true)
below "roux --help (/bin/true: $base ms)" "$(median_ms "$roux" --help)" 10 ms
below "roux check of the demo's recipe (/bin/true: $base ms)" "$(median_ms "$roux" check examples/demo.yaml)" 20 ms
below "planning 20,000 values" "$("$build/bench/plan" 20000 | sed 's/.*: \([0-9.]*\) ms.*/\1/')" 50 ms

# ---- others' tools, sanitizers, fuzzers ----
if [ "${SHORT:-}" = 1 ]; then
    line skip "interop, sanitizers, fuzzers" "SHORT=1"
else
    try "transformers loads our export and gives our logits; safetensors reads it" 'PASS|agree|passed' bash tests/interop/run.sh --export tests/golden/models/llama-*
    try "make sanitize" 'tests passed|passed under' make sanitize
    try "make fuzz, ${FUZZ_SECONDS:-60} s a parser" 'executions|PASS|without a finding' make fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-60}"
    grep -E 'executions' "$work/out" | sed 's/^/      /'
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
