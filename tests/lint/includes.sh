#!/usr/bin/env bash
# Reads the #include lines of src against the table of rooms: a file may include headers of its own room, and the doors
# of the rooms that its room may use. A header that is not listed as a door is its room's own business.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "${1:-$root}/src"

# room: the rooms it may use, as in ARCHITECTURE.md
declare -A may_use=(
    [base]=""
    [recipe]="base"
    [tensor]="base"
    [comm]="base"
    [store]="base"
    [program]="base tensor comm"
    [data]="base store"
    [checkpoint]="base store comm"
    [model]="base tensor comm store program"
    [train]="base recipe tensor comm store program data checkpoint model"
    [infer]="base recipe tensor comm store program data checkpoint model"
    [launch]="base recipe store"
    [cli]="base recipe tensor comm store program data checkpoint model train infer launch"
)
declare -A doors=(
    [base]="arena clock digest dtype exact file log map memory philox status text threads"
    [recipe]="recipe struct"
    [tensor]="kernels peak row_tree shape"
    [comm]="comm mesh"
    [store]="event_file json_scan safetensors"
    [program]="device place program watch"
    [data]="batch corpus tokenize"
    [checkpoint]="checkpoint"
    [model]="model family hf spec"
    [train]="bench calibration estimate train"
    [infer]="infer"
    [launch]="launch"
    [cli]=""
)

bad=0
complain() {
    echo "$1"
    bad=1
}

while IFS= read -r -d '' file; do
    room=${file#./}
    room=${room%%/*}
    if [ -z "${may_use[$room]+known}" ]; then
        complain "src/${file#./}: $room is not a room of the table in tests/lint/includes.sh"
        continue
    fi
    while IFS=: read -r line header; do
        target=${header%%/*}
        here="src/${file#./}:$line"
        if [ ! -f "$header" ]; then
            complain "$here: \"$header\" is no file below src; write includes as \"room/name.h\""
        elif [ "$target" != "$room" ]; then
            case " ${may_use[$room]} " in
            *" $target "*) ;;
            *) complain "$here: $room may not use $target (\"$header\"); it may use: ${may_use[$room]:-nothing}" ;;
            esac
            name=${header#*/}
            case " ${doors[$target]-} " in
            *" ${name%.h} "*) ;;
            *) complain "$here: \"$header\" is no door of $target; its doors: ${doors[$target]-}" ;;
            esac
        fi
    done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$file" \
        | sed -E 's/^([0-9]+):[^"]*"([^"]*)".*/\1:\2/')
done < <(find . -name '*.[ch]' -print0 | sort -z)
if [ "$bad" -eq 0 ]; then
    echo "includes: every arrow points down"
fi
exit "$bad"
