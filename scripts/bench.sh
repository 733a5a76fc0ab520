#!/usr/bin/env bash
# The Go benchmarks and a short load, in one table beside the last run on this
# machine. EACH is the time of one load, REPS how often each is put on.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./bench quick -targets direct,rawproxy,sdkproxy,everline -each "${EACH:-1s}" -reps "${REPS:-3}" "$@"
