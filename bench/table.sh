#!/bin/sh
# bench/table.sh <OUTPUT: the lines of bench/kernels, or of tests/show/speed.sh, as the table of docs/performance.md.
echo '| kernel | one thread | of the roof | all threads | of the roof | times as fast |'
echo '|---|--:|--:|--:|--:|--:|'
sed -nE 's/^(pass|FAIL) +([^:]+): +([0-9.]+ G[A-Z]+\/s) +one thread +([0-9]+ %), +([0-9.]+) on [0-9]+ +([0-9]+ %), ([0-9.]+) times.*/| \2 | \3 | \4 | \5 | \6 | \7 |/p'
