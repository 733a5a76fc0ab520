#!/usr/bin/env bash
# Decides the parking of calls over CHECKS (100,000) drawn schedules.
set -euo pipefail
cd "$(dirname "$0")/.."
go test ./internal/slot -count=1 -run '^(TestParkingOverSchedules|TestMayWaitProperties)$' -v -args -rapid.checks="${CHECKS:-100000}"
