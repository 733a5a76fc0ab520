#!/usr/bin/env bash
# Kills everline, and random processes of the servers below it, 200 times each,
# and looks for what survived; then passes 32 MiB both ways. ROUNDS changes the
# number. The limits on times hold on a machine with nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
EVERLINE_KILL_ROUNDS="${ROUNDS:-200}" \
  go test ./cmd/everline -count=1 -timeout 30m -run '^(TestKill|TestLeftovers)' -v | grep -v '^=== RUN'
EVERLINE_PIPE_STRICT=1 go test . -count=1 -timeout 5m -run '^TestFaultF3' -v | grep -v '^=== RUN'
