#!/usr/bin/env bash
# torch_stubs.sh TORCH_LIB_DIR: makes PyTorch's wheel load without the gigabytes of CUDA packages it asks for.
#
# The wheel of PyPI is built for CUDA and links its libraries, though nothing of them runs on a machine without such a device. Here each gets a stand-in in
# the wheel's own folder: the functions that PyTorch names, under the versions it names, all answering cudaErrorNoDevice (100).
# On the processor the wheel computes as it always does, and starts sooner than with the real ones.
set -euo pipefail
lib=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/roux-stubs-XXXXXX")
trap 'rm -rf "$work"' EXIT

for file in "$lib"/libtorch*.so "$lib"/libc10*.so "$lib"/libcaffe2*.so; do
    readelf -dW "$file" | sed -nE 's/.*NEEDED.*\[(lib(cu|nv|nccl).*)\]/\1/p' >>"$work/needed"
    # "File: libx.so.1" is followed by the names of the versions wanted from it.
    readelf -VW "$file" | awk '
        { for (i = 1; i < NF; i++) { if ($i == "File:") file = $(i + 1); if ($i == "Name:") print file, $(i + 1) } }' >>"$work/versions"
    nm -D --undefined-only "$file" | awk '{ print $NF }' >>"$work/names"
done
sort -u "$work/names" | grep -E '^(cu|nv|nccl|__cuda)[A-Za-z0-9_]*(@.*)?$' >"$work/wanted"

for name in $(sort -u "$work/needed"); do
    version=$(sort -u "$work/versions" | awk -v name="$name" '$1 == name { print $2 }')
    script=()
    if [ -n "$version" ]; then
        sed -n "s/@$version\$//p" "$work/wanted" >"$work/functions"
        echo "$version { global: *; };" >"$work/map"
        script=("-Wl,--version-script,$work/map")
    elif [ "$name" = libcufile.so.0 ]; then
        grep -v @ "$work/wanted" >"$work/functions" # those without a version, for all libraries that have none
    else
        : >"$work/functions"
    fi
    sed 's/.*/int &(void) { return 100; }/' "$work/functions" >"$work/stub.c"
    gcc -w -fno-builtin -shared -fPIC "-Wl,-soname,$name" "${script[@]}" -o "$lib/$name" "$work/stub.c"
done
