#!/bin/bash
# Every line of "Must show" of the speed issue: line, figure, pass or fail, in at most an hour. Run after `make build` on a machine
# that does nothing else.
#
#   GOLDEN=dir   more golden sets: dir/models, dir/tensorboard/check_tb.py (without it only our own check of TensorBoard's reader runs)
#   SHORT=1      leaves out the comparison with PyTorch
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${ROUX_BUILD:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
roux=$build/roux
cache=${XDG_CACHE_HOME:-$HOME/.cache}/roux
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-show-XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0 began=$SECONDS
export ROUX_PROGRAM=$roux ROUX_BUILD=$build ROUX_SOURCE=$PWD

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

# judged COMMAND...: every line of its output that begins with pass (PASS), FAIL or skip is a line of ours, the others are shown below.
judged() {
    local verdict rest before=$((passed + failed))
    "$@" >"$work/judged" 2>&1
    while read -r verdict rest; do
        case $verdict in
        PASS) line pass "${rest%%: *}" "${rest#*: }" ;;
        pass | FAIL | skip) line "$verdict" "${rest%%: *}" "${rest#*: }" ;;
        *) echo "      $verdict $rest" ;;
        esac
    done <"$work/judged"
    [ $((passed + failed)) -gt $before ] || line FAIL "$*" "it judged nothing"
}

# steps RECIPE FOLDER OVERRIDES...: trains, and prints the seconds of every step.
steps() {
    local recipe=$1 folder=$2
    shift 2
    rm -rf "$folder"
    "$roux" train "$recipe" --quiet exp_manager.explicit_log_dir="$folder" "$@" 2>"$work/err" || cat "$work/err" >&2
    sed -n 's/.*"seconds":\([0-9.e-]*\),.*/\1/p' "$folder/metrics.jsonl"
}

median() { sort -g | awk '{ x[NR] = $1 } END { print NR == 0 ? "nan" : x[int((NR + 1) / 2)] }'; }

echo "commit $(git rev-parse --short HEAD), $(grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'), $(nproc) cores, $(date -u +%Y-%m-%d)"

# ---- what stood before still stands ----
start=$SECONDS
try "make test" 'tests passed|tests failed' ctest --test-dir "$build" -LE long -j 2
below "make test, all of it" $((SECONDS - start)) 300 s
for set in tests/golden ${GOLDEN:-}; do
    try "golden_models $set/models: 64, 32 and bf16" 'passed, ' "$build/tests/golden_models" "$set/models"
done
for family in scalar avx2 avx512; do
    if ROUX_ISA=$family "$build/bench/kernels" none >"$work/isa" 2>&1; then
        try "golden_models with ROUX_ISA=$family" 'passed, ' env ROUX_ISA=$family "$build/tests/golden_models" tests/golden/models
    else
        line skip "golden_models with ROUX_ISA=$family" "this processor has no such family"
    fi
done
for test in linear attention head rows embed exp update kernels; do
    try "kernels against the reference, guards, every family: tensor_$test" 'PASSED|FAILED' "$build/tests/tensor_$test"
done
grep -h 'never ran natively\|emulated' "$work/out" | sort -u | sed 's/^/      /'

# ---- kernels against their roofs ----
judged "$build/bench/kernels"
if ! "$build/bench/kernels" none | grep -q avx2 && grep -qw avx2 /proc/cpuinfo; then
    judged env ROUX_ISA=avx2 "$build/bench/kernels" linear # what most processors would take
fi

# ---- the whole step ----
for round in 1 2; do
    for threads in 1 2; do
        steps bench/configs/B.yaml "$work/threads" trainer.threads=$threads trainer.precision=bf16 trainer.max_steps=4 | sort -g | head -n 1 >>"$work/seconds$threads"
    done
done
best() { sort -g "$work/seconds$1" | head -n 1; }
above "step of B, two threads against one ($(best 1) and $(best 2) s)" "$(awk "BEGIN { printf \"%.2f\", $(best 1) / $(best 2) }")" 1.8 "times the speed"
if [ "${SHORT:-}" = 1 ]; then
    line skip "comparison with PyTorch" "SHORT=1"
else
    judged bench/pytorch.sh
fi

# ---- memory ----
try "no allocation in 20 steps, resident memory from step 3 to 200" 'resident|calls|skipped' bash tests/whole/memory.sh
sed 's/^/      /' "$work/out"
for precision in 32 bf16; do
    try "resident memory is what the plan says, $precision" 'plan' bash tests/tools/rss_plan.sh "$build" trainer.precision=$precision
done

# ---- time as planned ----
try "roux bench --calibrate" 'calibration|kept' "$roux" bench --calibrate
sed -e 's|: demo/|: '"$work"'/demo/|' examples/demo.yaml >"$work/demo.yaml"
for recipe in bench/configs/A.yaml bench/configs/B.yaml "$work/demo.yaml"; do
    for precision in 32 bf16; do
        words=(trainer.precision=$precision trainer.max_steps=12 model.data.use_synthetic_data=true trainer.limit_val_batches=0
            exp_manager.export_full_model.save_last=false exp_manager.checkpoint_callback_params.save_last=false)
        planned=$("$roux" plan "$recipe" --json "${words[@]}" 2>/dev/null | grep -o '"seconds_step": *[0-9.e-]*' | head -n 1 | sed 's/.*: *//')
        took=$(steps "$recipe" "$work/plan" "${words[@]}" | tail -n +3 | median)
        below "roux plan of $(basename "$recipe" .yaml), $precision: ${planned:-nothing} s a step, measured $took s, off by" \
            "$(awk "BEGIN { p = ${planned:-0}; t = $took; d = p - t; printf \"%.1f\", 100 * (d < 0 ? -d : d) / t }")" 30 %
    done
done

# ---- TensorBoard ----
reader=${GOLDEN:+$GOLDEN/tensorboard/check_tb.py}
[ -z "$reader" ] || reader=$(realpath "$reader")
export ROUX_TENSORBOARD_VENV=$cache/tensorboard-venv
try "TensorBoard's reader finds our tags, steps and values, of a resumed run too${reader:+, and so does check_tb.py}" 'values of|takes' \
    bash tests/interop/tensorboard.sh ${reader:+"$reader"}

below "this script" $((SECONDS - began)) 3600 s
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
