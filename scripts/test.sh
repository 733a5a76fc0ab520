#!/usr/bin/env bash
# Everything: format and vet, all Go tests under the race detector, the page, real
# servers and clients, and the official suite. Needs Go, Node and npm.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check.sh --untested
go test -race -timeout 15m ./...
scripts/promtool.sh
scripts/browser.sh
scripts/interop.sh
scripts/conformance.sh
