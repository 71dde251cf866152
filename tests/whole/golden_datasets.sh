#!/usr/bin/env bash
# Every golden data set in JSON is read or refused as expected, with the place of the fault.
set -euo pipefail
exec "$ROUX_BUILD/tests/golden_datasets" "$ROUX_SOURCE/tests/golden/datasets"
