#!/usr/bin/env bash
# The official conformance suite against everline, in both revisions and in
# front of three kinds of upstream.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/npm.sh
go test -tags conformance -count=1 -timeout 20m "$@" ./conformance
