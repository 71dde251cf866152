#!/usr/bin/env bash
# Everything that tests/golden/models holds of families that are built, to its tolerance; and the tool itself must see a
# rate, a gradient and a token that are wrong.
set -euo pipefail
tool=$ROUX_BUILD/tests/golden_models
golden=$ROUX_SOURCE/tests/golden/models
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-golden-XXXXXX")
trap 'rm -rf "$work"' EXIT

"$tool" "$golden"

mkdir "$work/wrong"
cp -r "$golden/llama-bias" "$golden/kernels.json" "$golden/kernels.safetensors" "$work/wrong"
sed 's/"rate": \[0.0001,/"rate": [0.000100000001,/; s/"rate": \[ 0.0001,/"rate": [ 0.000100000001,/' "$golden/schedule.json" >"$work/wrong/schedule.json"
echo '{"cases": {"llama-bias": {"family": "llama"}}}' >"$work/wrong/index.json"
sed -i '0,/"tokens": \[ [0-9]*/s//"tokens": [ 0/' "$work/wrong/llama-bias/generate.json"
sed -i 's/"rms_norm_eps": [0-9.e-]*/"rms_norm_eps": 1.01e-3/' "$work/wrong/llama-bias/config.json"
if "$tool" "$work/wrong" >"$work/said"; then
    echo "FAIL: wrong data passed"
    exit 1
fi
for line in 'FAIL schedule set 0' 'FAIL llama-bias 64: logits' 'FAIL llama-bias 64: gradients' 'FAIL llama-bias 64: greedy tokens 0' \
    'FAIL llama-bias 64: loss of a step' 'FAIL llama-bias 64: config.older.json'; do
    grep -q "^$line" "$work/said" || { cat "$work/said"; echo "FAIL: the tool did not say: $line"; exit 1; }
done
echo "the tool sees what is wrong"
