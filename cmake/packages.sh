#!/usr/bin/env bash
# packages.sh NAME...: installs the Debian packages that are missing; touches nothing if none is.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
    echo "packages.sh: no Debian here; what is needed: $* (docs/dependencies.md says what for)"
    exit 0
fi
missing=()
for name in "$@"; do
    if ! dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q ' installed$'; then
        missing+=("$name")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi
echo "installing: ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
if ! "${install[@]}" "${missing[@]}"; then
    "${as_root[@]}" apt-get update -q
    "${install[@]}" "${missing[@]}"
fi
