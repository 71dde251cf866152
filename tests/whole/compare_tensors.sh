#!/usr/bin/env bash
# The tool that other tests lean on says no when it should.
set -euo pipefail
compare=$ROUX_BUILD/tests/compare_tensors
golden=$ROUX_SOURCE/tests/golden/models/kernels.safetensors
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-compare-XXXXXX")
trap 'rm -rf "$work"' EXIT

# expect CODE TEXT ARGUMENT...
expect() {
    local code=0 wanted=$1 text=$2 output
    shift 2
    output=$("$compare" "$@" 2>&1) || code=$?
    if [ "$code" -ne "$wanted" ] || ! grep -qF -- "$text" <<<"$output"; then
        printf 'compare_tensors %s: exit %s, expected %s and "%s"\n%s\n' "$*" "$code" "$wanted" "$text" "$output"
        exit 1
    fi
}

# file NAME HEADER BYTES: a safetensors file; the header's length must be below 256.
file() {
    # shellcheck disable=SC2059
    { printf "\\x$(printf %02x ${#2})\\0\\0\\0\\0\\0\\0\\0%s" "$2"; printf "$3"; } >"$work/$1"
}
pair='{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
file one "$pair" '\0\0\x80\x3f\0\0\0\x40'   # 1, 2
file near "$pair" '\0\0\x80\x3f\1\0\0\x40'  # 1, 2 + 2^-22
file nan "$pair" '\0\0\x80\x3f\0\0\xc0\x7f'
file minus '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' '\0\0\0\x80'
file zero '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' '\0\0\0\0'
file row '{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}' '\0\0\x80\x3f\0\0\0\x40'
file half '{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}' '\x80\x3f\0\x40'
file more '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}' \
    '\0\0\x80\x3f\0\0\0\x40'

expect 0 ' 0 failed' "$golden" "$golden" --bits
expect 0 ' 0 failed' "$golden" "$golden"
expect 0 'worst a: 1.19e-07 of its largest entry' "$work/one" "$work/near" --tolerance 1.2e-7
expect 1 'FAIL a: apart by 1.19e-07' "$work/one" "$work/near" --tolerance 1.1e-7
expect 1 'FAIL a' "$work/one" "$work/near"
expect 1 'FAIL a' "$work/one" "$work/near" --bits
expect 1 'FAIL a: apart by inf' "$work/one" "$work/nan" --tolerance 10
expect 1 'FAIL a: apart by inf' "$work/nan" "$work/one" --tolerance 10
expect 0 '1 compared, 0 failed' "$work/nan" "$work/nan"
expect 0 '1 compared, 0 failed' "$work/zero" "$work/minus"
expect 1 'FAIL a' "$work/zero" "$work/minus" --bits
expect 1 'FAIL a: differs in shape or type' "$work/one" "$work/row"
expect 1 'FAIL a: differs in shape or type' "$work/one" "$work/half" --bits
expect 0 '1 compared, 0 failed' "$work/one" "$work/half"
expect 1 "FAIL b: is in $work/more, but not in $work/one" "$work/one" "$work/more"
expect 1 "FAIL b: is in $work/more, but not in $work/one" "$work/more" "$work/one"
expect 0 '1 compared, 0 failed' "$work/more" "$work/one" --prefix a
expect 1 '0 compared, 0 failed' "$work/one" "$work/one" --prefix c
expect 2 'nothing' "$work/one" "$work/nothing"
expect 2 'usage' "$work/one"
expect 2 'usage' "$work/one" "$work/one" --tolerance x
expect 2 'usage' "$work/one" "$work/one" --tolerance -1
expect 2 'usage' "$work/one" "$work/one" --bitz
echo "compare_tensors: says yes and no as it should"
