#!/usr/bin/env bash
# lint.sh BUILD     layout (.clang-format), .clang-tidy and the direction of includes; BUILD is a configured folder
# lint.sh --format  lays out every file instead
set -euo pipefail
cd "$(dirname "$0")/.."

folders=()
for folder in src tests fuzz bench; do
    if [ -d "$folder" ]; then
        folders+=("$folder")
    fi
done
files() {
    find "${folders[@]}" -type f \( "$@" \) -print0 | sort -z
}

if [ "$1" = --format ]; then
    files -name '*.c' -o -name '*.h' | xargs -0 clang-format -i
    exit 0
fi
bad=0
files -name '*.c' -o -name '*.h' | xargs -0 clang-format --dry-run -Werror || bad=1
bash tests/lint/includes.sh || bad=1
# A file of kernels has six commands; one of them is enough here.
python=$(command -v python3 || true)
database=$1
if [ -n "$python" ]; then
    database=$(mktemp -d)
    trap 'rm -rf "$database"' EXIT
    "$python" - "$1/compile_commands.json" "$database/compile_commands.json" <<'END'
import json, sys
first = {}
for command in json.load(open(sys.argv[1])):
    first.setdefault(command["file"], command)
json.dump(list(first.values()), open(sys.argv[2], "w"))
END
fi
files -name '*.c' | xargs -0 -n 4 -P 2 clang-tidy -p "$database" --quiet --extra-arg=-Wno-error 2>/dev/null || bad=1
if [ "$bad" -ne 0 ]; then
    echo "lint: something is left to do (layout: make format)"
    exit 1
fi
echo "lint: clean"
