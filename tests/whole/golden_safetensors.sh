#!/usr/bin/env bash
# Every golden tensor file is read or refused as its library, or our stricter rule, has it.
set -euo pipefail
exec "$ROUX_BUILD/tests/golden_safetensors" "$ROUX_SOURCE/tests/golden/safetensors"
