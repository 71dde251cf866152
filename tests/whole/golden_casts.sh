#!/usr/bin/env bash
# The 16-bit floats are cast bit for bit as the golden vectors have it.
set -euo pipefail
exec "$ROUX_BUILD/tests/golden_casts" "$ROUX_SOURCE/tests/golden/finetune"
