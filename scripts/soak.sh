#!/usr/bin/env bash
# Load and faults on one everline for SOAK (1h); fails if memory, goroutines or
# descriptors grow, or if a call failed that may be repeated. OUT is the folder
# for the samples and the graphs (docs/reference keeps the graphs of an hour).
set -euo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-$(mktemp -d)}"
mkdir -p "$out"
echo "samples and graphs: $out" >&2
go run ./bench soak -for "${SOAK:-1h}" -out "$out/soak.jsonl" -svg "$out"
