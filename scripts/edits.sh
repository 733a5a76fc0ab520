#!/usr/bin/env bash
# Changes the configuration EDITS (1,000) times at random (SEED) under load, and
# checks that servers which no change is about lose no call and no connection.
set -euo pipefail
cd "$(dirname "$0")/.."
go test . -race -count=1 -timeout 20m -run '^TestRandomChangesUnderLoad$' -v -args -config.edits="${EDITS:-1000}" -config.seed="${SEED:-1}" | grep -v '^=== RUN'
