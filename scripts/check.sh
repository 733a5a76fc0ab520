#!/usr/bin/env bash
# Format, vet for the three systems that everline builds on, and the quick tests;
# with --untested without these, for who runs them in another way.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  echo "not formatted, run gofmt -w on:" "$unformatted" >&2
  exit 1
fi
for os in linux darwin windows; do
  GOOS=$os go vet ./...
done
for tag in conformance interop interop,logins; do
  go vet -tags "$tag" ./conformance
done
[ "${1:-}" = --untested ] || go test ./...
