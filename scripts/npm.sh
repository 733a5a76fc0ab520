#!/usr/bin/env bash
# Installs what conformance/package-lock.json pins, unless it is there already.
set -euo pipefail
cd "$(dirname "$0")/../conformance"
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --no-audit --no-fund
  cp package-lock.json node_modules/.installed
fi
