#!/usr/bin/env bash
# How cost grows with servers, clients and sizes: measures, and draws the graphs
# of docs/reference. OUT is the file of the measurements.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./bench growth -make plain -targets direct,rawproxy,sdkproxy,everline -reps "${REPS:-3}" -each "${EACH:-2s}" \
  -out "${OUT:-$(mktemp -d)/growth.jsonl}" -svg docs/reference "$@"
