#!/usr/bin/env bash
# Sends CALLS (10,000) calls of many clients at once, with clashing ids, over
# servers that are restarted all the time, and checks the content of every answer.
set -euo pipefail
cd "$(dirname "$0")/.."
go test . -race -count=1 -timeout 20m -run '^TestFaultJ6' -v -args -crossing.calls="${CALLS:-10000}" | grep -v '^=== RUN'
