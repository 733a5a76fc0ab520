#!/usr/bin/env bash
# Fifty callers, for a minute, of a server that loses every session each 300 ms.
set -euo pipefail
cd "$(dirname "$0")/.."
go test -count=1 -timeout 5m -run '^TestStress' . -args -stress="${STRESS:-1m}"
