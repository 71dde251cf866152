#!/usr/bin/env bash
# roux probe on two and four ranks, on every mesh of them, against one rank: loss and gradients in double.
set -euo pipefail
roux=$ROUX_PROGRAM
compare=$ROUX_BUILD/tests/compare_tensors
golden=$ROUX_SOURCE/tests/golden/models
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-probe-XXXXXX")
trap 'rm -rf "$work"' EXIT
command -v mpirun >/dev/null || { echo "skipped: mpirun is absent"; exit 77; }
[ -e "$(dirname "$roux")/roux-mpi.so" ] || { echo "skipped: roux-mpi.so is absent"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# case, ranks, tensor, shard: three rows do not divide by two or four, so some ranks get an empty one.
while read -r name ranks tensor shard; do
    model=$golden/$name
    whole=$work/$name
    out=$work/$name-$ranks-$tensor-$shard
    [ -e "$whole" ] || "$roux" probe --model "$model" --batch "$model/case.safetensors" --out "$whole" --precision 64 --quiet
    mpirun --oversubscribe -n "$ranks" "$roux" probe --model "$model" --batch "$model/case.safetensors" --out "$out" \
        --precision 64 --tensor "$tensor" --shard "$shard" >"$work/said" </dev/null
    grep -q "logits are written by one rank alone" "$work/said" || { echo "FAIL: nothing said of the logits"; exit 1; }
    "$compare" "$whole" "$out" --prefix grad. --tolerance 1e-13
    "$compare" "$whole" "$out" --prefix loss --tolerance 1e-14
done <<'END'
llama-llama3-tied 2 1 2
llama-llama3-tied 2 2 1
llama-packed 2 1 1
llama-llama3-tied 4 2 2
llama-llama3-tied 4 1 2
END

# A run that stops early ends the messages that are under way: the gather of the next layer, a sum of a gradient.
for node in layers.0.norm1 layers.0.norm1.dx; do
    timeout 60 mpirun --oversubscribe -n 2 "$roux" probe --model "$golden/llama-packed" --batch "$golden/llama-packed/case.safetensors" \
        --shard 2 --until $node --dump $node >"$work/said" </dev/null
    grep -q "^value      $node F32" "$work/said" || { cat "$work/said"; echo "FAIL: $node is not shown"; exit 1; }
done

# What does not fit is said once, with exit code 2.
code=0
mpirun --oversubscribe --quiet -n 2 "$roux" probe --model "$golden/llama-packed" --batch "$golden/llama-packed/case.safetensors" \
    --out "$work/out" --tensor 3 2>"$work/said" || code=$?
[ "$code" = 2 ] || { cat "$work/said"; echo "FAIL: exit code $code"; exit 1; }
[ "$(grep -c "roux: error: tensor degree 3 times shard degree 1 does not divide the 2 ranks" "$work/said")" = 1 ] || { cat "$work/said"; exit 1; }
[ ! -e "$work/out" ] || { echo "FAIL: a result was left"; exit 1; }
echo PASS
