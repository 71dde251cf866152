#!/usr/bin/env bash
# tests/interop/run.sh [--export] DIR...
#
# Shows for each model folder that others read what roux writes, and that both mean the same: transformers loads the folder
# without a missing or unexpected tensor, safetensors reads every file, and logits, loss and all gradients of transformers
# are those of `roux probe`, in float32 and in double. With --export the folders are models of others: each is exported by
# us first (one file, several files, bfloat16), and the exports are what is shown to transformers.
#
# Not part of `make test`: it installs torch and transformers (2 GB and more) at pinned versions, once, into
# $ROUX_BUILD/interop/venv (ROUX_BUILD is build/ if it is not set; ROUX_INTEROP_VENV names another environment).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${ROUX_BUILD:-$root/build}
roux=${ROUX_PROGRAM:-$build/roux}
cache=$build/interop
venv=${ROUX_INTEROP_VENV:-$cache/venv}

exports=false
if [ "${1-}" = --export ]; then
    exports=true
    shift
fi
if [ $# -eq 0 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
fi
if [ ! -x "$roux" ]; then
    echo "$roux is not there: build first (make), or name it in ROUX_PROGRAM" >&2
    exit 2
fi

mkdir -p "$cache"
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/requirements.txt" # last: an environment without it is not finished
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/roux-interop-XXXXXX")
trap 'rm -rf "$work"' EXIT
folders=("$@")
if $exports; then
    folders=()
    for folder in "$@"; do
        name=$(basename "$folder")
        "$build/tests/export_model" "$folder" "$work/$name"
        "$build/tests/export_model" "$folder" "$work/$name.files" --limit 40000 --precision 64
        "$build/tests/export_model" "$folder" "$work/$name.bf16" --dtype bfloat16
        # Nothing is lost on the way: an export of float32 weights holds their very bytes.
        for same in "$work/$name" "$work/$name.files"; do
            "$build/tests/compare_tensors" "$folder" "$same" --bits
        done
        folders+=("$work/$name" "$work/$name.files" "$work/$name.bf16")
    done
fi
# Nothing is fetched: a folder that is not complete must fail, not be completed.
HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 "$venv/bin/python" "$here/check.py" \
    --roux "$roux" --work "$work" "${folders[@]}"
