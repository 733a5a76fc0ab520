#!/usr/bin/env bash
# Real npm servers behind everline, reached with clients of other makers, with
# the servers killed in between; and these clients let in by an authorization server.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/npm.sh
go test -tags interop -count=1 -timeout 15m "$@" ./conformance
