#!/usr/bin/env bash
# bench/pytorch.sh [--runs N] [--steps N] [--touch GIB] [--search] [A|B|RECIPE]...
#
# Trains the same model on the same cores with roux and with PyTorch, in turn, and says what each took: tokens/s, share of the
# processor's measured peaks, peak memory, start to end of the first step. Medians over --runs (default 5) of the median step.
# Ours is `roux train` of a recipe in bench/configs on synthetic rows, in bf16 unless precision 32 is over 5 % faster. PyTorch runs
# torch_llama.py in the fastest setting that was found for this processor: eager or compiled, fp32 or bf16, fused or foreach AdamW,
# with the allocator as it is or keeping its pages. The search is made once and kept in $XDG_CACHE_HOME/roux; --search repeats it.
# A setting that needs over 120 s for 3 steps is left out. Before each recipe --touch (default 12) GiB are touched and freed, so that
# neither pays for pages that the host had taken away. PyTorch itself is installed there, too, once.
#
# Ends with 1 if a line fails:
#   tokens/s         at least 1.5 times PyTorch's; on a processor with bf16 dot products at least 48 % of their peak instead
#   peak memory      at most 0.6 times PyTorch's
#   first step       at most 0.3 (A) or 0.5 (B) times PyTorch's
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=${ROUX_BUILD:-$root/build}
roux=${ROUX_PROGRAM:-$build/roux}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/roux
venv=$cache/torch-venv
python=$venv/bin/python
threads=$(nproc)
runs=5 steps=8 warm=3 search=no touch=12
recipes=()

while [ $# -gt 0 ]; do
    case $1 in
    --runs) runs=$2 && shift ;;
    --steps) steps=$2 && shift ;;
    --touch) touch=$2 && shift ;;
    --search) search=yes ;;
    A | B) recipes+=("$here/configs/$1.yaml") ;;
    *.yaml) recipes+=("$1") ;;
    *) sed -n '2,17s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
    shift
done
[ ${#recipes[@]} -gt 0 ] || recipes=("$here/configs/A.yaml" "$here/configs/B.yaml")
if [ ! -x "$roux" ] || [ ! -x "$build/bench/kernels" ]; then
    echo "$roux or $build/bench/kernels is not there: build first (make), or name the folder in ROUX_BUILD" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-pytorch-XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

calc() { awk "BEGIN { printf \"%.${2:-3}f\", $1 }"; }
median() { sort -g | awk '{ a[NR] = $1 } END { print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }
number() { sed -nE "s/^ *$2: *([0-9.]+) *\$/\1/p" "$1"; } # of a recipe

# verdict TEXT VALUE OPERATOR LIMIT
verdict() {
    if awk "BEGIN { exit !($2 $3 $4) }"; then echo "  PASS  $1: $2 ($3 $4)"; else
        echo "  FAIL  $1: $2 ($3 $4)"
        failed=1
    fi
}

install_torch() {
    if cmp -s "$here/torch.txt" "$venv/requirements.txt" && "$python" -c 'import torch' 2>/dev/null; then
        return
    fi
    echo "installing PyTorch into $venv (once)"
    mkdir -p "$cache"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/torch.txt"
    if ! "$python" -c 'import torch' 2>/dev/null; then
        "$here/torch_stubs.sh" "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch/lib"
    fi
    "$python" -c 'import torch'
    cp "$here/torch.txt" "$venv/requirements.txt" # last: an environment without it is not finished
}

# torch_run RECIPE STEPS MODE DTYPE ADAMW ALLOCATOR: leaves the program's lines in $work/torch, prints first-step seconds and MiB
torch_run() {
    local pages=()
    if [ "$6" = kept ]; then
        pages=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=68719476736 MALLOC_TOP_PAD_=268435456)
    fi
    env TORCHINDUCTOR_CACHE_DIR="$cache/inductor" "${pages[@]}" "$python" "$here/measure.py" '^step 1 ' "$work/torch" \
        "$python" "$here/torch_llama.py" "$1" --steps "$2" --threads "$threads" --mode "$3" --dtype "$4" --adamw "$5"
}
torch_step() { awk -v warm="$1" '/^step / && $2 > warm { print $3 }' "$work/torch" | median; }

# roux_run RECIPE STEPS PRECISION: the same for ours
roux_run() {
    rm -rf "$work/run"
    "$python" "$here/measure.py" 'step 1/' "$work/ours" "$roux" train "$1" trainer.max_steps="$2" trainer.precision="$3" \
        exp_manager.explicit_log_dir="$work/run"
}
roux_step() { sed -n 's/.*"seconds":\([0-9.e-]*\),.*/\1/p' "$work/run/metrics.jsonl" | tail -n "+$(($1 + 1))" | median; }

# try RECIPE MODE DTYPE ADAMW ALLOCATOR: seconds a step, and a line for the reader; a line in $work/tries if it ran.
try_setting() {
    local recipe=$1 code=0 seconds
    shift
    LIMIT=120 torch_run "$recipe" 3 "$@" >"$work/took" || code=$?
    if [ $code -eq 0 ]; then
        seconds=$(torch_step 1)
        echo "$seconds $*" >>"$work/tries"
        echo "  PyTorch $*: $seconds s a step, first done after $(cut -d' ' -f1 "$work/took") s"
    else
        echo "  PyTorch $*: left out, $(why_not $code)"
    fi
}
why_not() { if [ "$1" -eq 124 ]; then echo 'over 120 s for 3 steps'; else tail -n 1 "$work/torch"; fi; }
fastest() { sort -g "$work/tries" | head -n 1 | cut -d' ' -f2-; }

# The fastest setting by recipe, processor and program: mode and type first, then optimizer and allocator of the winner.
find_setting() {
    local recipe=$1 mode dtype best kept
    kept=$cache/torch-setting-$(processor)-$(cat "$recipe" "$here/torch_llama.py" "$here/torch.txt" | sha256sum | cut -c1-12)
    if [ $search = no ] && [ -s "$kept" ]; then
        setting=$(cat "$kept")
        return
    fi
    "$python" "$here/measure.py" --touch "$touch"
    : >"$work/tries"
    for mode in eager compiled; do
        for dtype in fp32 bf16; do
            try_setting "$recipe" $mode $dtype fused kept
        done
    done
    best=$(fastest)
    if [ -z "$best" ]; then
        echo "no setting of PyTorch does 3 steps in 120 s here" >&2
        exit 1
    fi
    read -r mode dtype _ <<<"$best"
    try_setting "$recipe" "$mode" "$dtype" foreach kept
    try_setting "$recipe" "$mode" "$dtype" fused stock
    setting=$(fastest)
    echo "$setting" >"$kept"
}
processor() {
    awk -F': *' '/^(vendor_id|cpu family|model|stepping)/ && !seen[$1]++ { printf "%s-", $2 }' /proc/cpuinfo
    echo "$threads"
}

# Model floating-point operations of a token: six for each weight of a product, and causal attention.
flops_of() {
    local D F L V S H G
    D=$(number "$1" hidden_size) F=$(number "$1" intermediate_size) L=$(number "$1" num_hidden_layers)
    V=$(number "$1" vocab_size) S=$(number "$1" max_context_width)
    H=$(number "$1" num_attention_heads) G=$(number "$1" num_key_value_heads)
    calc "6 * ($L * ($D * ($D + 2 * $D / $H * $G) + $D * $D + 3 * $D * $F) + $D * $V) + 6 * $L * $D * $S" 0
}

compare() {
    local recipe=$1 name precision i first mib tokens flops
    name=$(basename "$recipe" .yaml)
    tokens=$(($(number "$recipe" train_batch_size) * $(number "$recipe" max_context_width)))
    flops=$(flops_of "$recipe")
    echo "== $name: $tokens tokens a step, $(calc "$flops / 1e6" 1) million operations a token"
    find_setting "$recipe"
    for i in 32 bf16; do
        roux_run "$recipe" 5 $i >"$work/took" || { tail -n 5 "$work/ours" && exit 1; }
        roux_step 1 >"$work/try-$i"
        echo "  roux $i: $(cat "$work/try-$i") s a step"
    done
    precision=bf16
    if awk "BEGIN { exit !($(cat "$work/try-32") < 0.95 * $(cat "$work/try-bf16")) }"; then precision=32; fi
    echo "  PyTorch: $setting; ours: precision $precision; $runs runs in turn"
    "$python" "$here/measure.py" --touch "$touch"
    rm -f "$work"/*-seconds "$work"/*-first "$work"/*-mib
    for i in $(seq "$runs"); do
        roux_run "$recipe" "$steps" "$precision" >"$work/took" || { tail -n 5 "$work/ours" && exit 1; }
        read -r first mib <"$work/took"
        roux_step $warm >>"$work/ours-seconds" && echo "$first" >>"$work/ours-first" && echo "$mib" >>"$work/ours-mib"
        # shellcheck disable=SC2086 # four words
        torch_run "$recipe" "$steps" $setting >"$work/took" || { tail -n 5 "$work/torch" && exit 1; }
        read -r first mib <"$work/took"
        torch_step $warm >>"$work/torch-seconds" && echo "$first" >>"$work/torch-first" && echo "$mib" >>"$work/torch-mib"
        echo "  run $i: step $(tail -n 1 "$work/ours-seconds") and $(tail -n 1 "$work/torch-seconds") s"
    done
    report "$name" "$tokens" "$flops"
}

# median_of WHO WHAT
median_of() { median <"$work/$1-$2"; }

# The processor's peaks, measured before the first recipe and after each: other work on the machine only lowers them, so the largest
# counts.
peaks() { "$build/bench/kernels" --peaks; }
peak_of() { sed -n "s/^peak $1 $threads //p" "$work/peaks" | sort -g | tail -n 1; }

report() {
    local who rate ratio float pair limit
    peaks >>"$work/peaks"
    float=$(peak_of FMA)
    pair=$(peak_of bf16)
    for who in ours torch; do
        rate=$(calc "$2 / $(median_of $who seconds)" 1)
        echo "  $who: $rate tokens/s, $(calc "$rate * $3 / 1e9" 1) GFLOP/s: $(calc "$rate * $3 / $float / 1e7" 1) % of the fp32 peak${pair:+, $(calc "$rate * $3 / $pair / 1e7" 1) % of the bf16 peak}; $(median_of $who mib) MiB; first step done after $(median_of $who first) s"
    done
    ratio=$(calc "$(median_of torch seconds) / $(median_of ours seconds)" 2)
    if [ -n "$pair" ]; then
        echo "  tokens/s, ratio to PyTorch's: $ratio"
        verdict "$1: % of the measured bf16 peak" "$(calc "$2 * $3 / $(median_of ours seconds) / $pair / 1e7" 1)" '>=' 48
    else
        verdict "$1: tokens/s, ratio to PyTorch's" "$ratio" '>=' 1.5
    fi
    verdict "$1: peak memory, ratio to PyTorch's" "$(calc "$(median_of ours mib) / $(median_of torch mib)")" '<=' 0.6
    limit=0.5
    [ "$1" != A ] || limit=0.3
    verdict "$1: start to end of the first step, ratio to PyTorch's" "$(calc "$(median_of ours first) / $(median_of torch first)")" '<=' $limit
}

install_torch
peaks | tee "$work/peaks"
for recipe in "${recipes[@]}"; do
    compare "$recipe"
done
exit $failed
