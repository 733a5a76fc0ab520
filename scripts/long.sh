#!/usr/bin/env bash
# The proofs that take minutes, one by its name.
set -euo pipefail
cd "$(dirname "$0")/.."
whole=./internal/systest # the tests of the whole
run() { go test -count=1 -v "$@" | grep -v '^=== RUN'; }
case "${1:-}" in
crossing) # 10,000 calls of many clients at once over restarts, checked by content
  run $whole -race -timeout 20m -run '^TestFaultJ6' -args -crossing.calls="${CALLS:-10000}" ;;
edits) # 1,000 random changes of the configuration under load
  run $whole -race -timeout 20m -run '^TestRandomChangesUnderLoad$' -args -config.edits="${EDITS:-1000}" -config.seed="${SEED:-1}" ;;
history) # 200 rounds of random faults, every call history checked
  run $whole -race -timeout 30m -run '^TestHistor' -args -history.rounds="${ROUNDS:-200}" -history.seed="${SEED:-1}" ;;
kill) # kill -9 of everline and of random processes below it, 200 rounds each
  EVERLINE_KILL_ROUNDS="${ROUNDS:-200}" run ./cmd/everline -timeout 30m -run '^(TestKill|TestOrphans)'
  EVERLINE_PIPE_STRICT=1 run $whole -timeout 5m -run '^TestFaultF3' ;;
logins) # 30 minutes of one login in two processes that are killed each minute, with oidc-provider
  scripts/npm.sh
  EVERLINE_LOGINS="${FOR:-30m}" run ./conformance -tags interop,logins -timeout 60m -run '^TestLoginsOutliveKills$' ;;
mutants) # bugs planted in the lifecycle, which the tests must see
  go run ./internal/lifecycle/mutants ;;
parking) # the decision to wait for a server, over 100,000 schedules
  run ./internal/slot -timeout 20m -run '^(TestParkingOverSchedules|TestMayWaitProperties)$' -args -rapid.checks="${CHECKS:-100000}" ;;
restarts) # 50 restarts of everline under twelve clients, half of them kill -9
  scripts/npm.sh
  EVERLINE_RESTARTS="${RESTARTS:-50}" run ./conformance -tags interop -timeout 30m -run '^TestFaultU2RestartOfEverline$' ;;
sessions) # 10,000 sessions and 4,000 streams of clients, and the memory that they cost
  EVERLINE_SESSIONS="${SESSIONS:-10000}" run ./cmd/everline -timeout 10m -run '^TestSessionsAreCheap$' ;;
stress) # a minute of lost sessions under load
  run $whole -timeout 5m -run '^TestStress' -args -stress="${STRESS:-1m}" ;;
*)
  echo "usage: make long NAME=crossing|edits|history|kill|logins|mutants|parking|restarts|sessions|stress" >&2
  exit 2 ;;
esac
