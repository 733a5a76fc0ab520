#!/usr/bin/env bash
# Opens 10,000 idle sessions of clients, and then 4,000 standing streams, and
# holds the memory of the binary to its limits. SESSIONS changes the number.
set -euo pipefail
cd "$(dirname "$0")/.."
EVERLINE_SESSIONS="${SESSIONS:-10000}" \
  go test ./cmd/everline -count=1 -timeout 10m -run '^TestSessionsAreCheap$' -v | grep -v '^=== RUN'
