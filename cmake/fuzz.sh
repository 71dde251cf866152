#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: runs every program of BUILD/fuzz for SECONDS, seeded from tests/golden. What it learns stays
# in BUILD/corpus/NAME; what breaks a program is left in BUILD/found.
set -euo pipefail
build=$1
seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)

seeds=$build/seeds
rm -rf "$seeds"
mkdir -p "$seeds" "$build/found"
if [ -d "$root/tests/golden" ]; then
    number=0
    while IFS= read -r -d '' file; do
        number=$((number + 1))
        cp "$file" "$seeds/$number-$(basename "$file")"
    done < <(find "$root/tests/golden" -type f -size -64k -print0 | sort -z)
fi

bad=0
for program in "$build"/fuzz/*; do
    if [ ! -x "$program" ] || [ ! -f "$program" ]; then
        continue
    fi
    name=$(basename "$program")
    log=$build/fuzz-$name.log
    mkdir -p "$build/corpus/$name"
    if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$build/found/$name-" "$build/corpus/$name" "$seeds" >"$log" 2>&1; then
        echo "$name: FAILED"
        tail -n 40 "$log"
        bad=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2)
    echo "$name: ${executions:-0} executions, ${edges:-0} edges"
done
exit $bad
