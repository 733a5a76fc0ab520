#!/usr/bin/env bash
# Rewrites golden files and transcripts from what the code does now; read the diff.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rl --include='*_test.go' '"rewrite"' . | xargs -n1 dirname | sort -u | while read -r dir; do
  go test "$dir" -count=1 -rewrite
done
