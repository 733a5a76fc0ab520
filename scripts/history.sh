#!/usr/bin/env bash
# Records the calls of 200 rounds of random faults over all transports and eras,
# and has a linearizability checker look for one that ran twice, one that was
# not sent but ran, and an answer of an older life.
# ROUNDS and SEED change the size and the first seed.
set -euo pipefail
cd "$(dirname "$0")/.."
go test . -race -count=1 -timeout 30m -run '^TestHistor' -v -args -history.rounds="${ROUNDS:-200}" -history.seed="${SEED:-1}" |
  grep -v '^=== RUN'
