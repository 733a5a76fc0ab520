#!/usr/bin/env bash
# Installs what the package-lock.json of each folder pins, unless it is there
# already.
set -euo pipefail
cd "$(dirname "$0")/../conformance"
missing() { ! cmp -s "$1/package-lock.json" "$1/node_modules/.installed"; }
if missing .; then
  npm ci --no-audit --no-fund
  cp package-lock.json node_modules/.installed
fi
if missing issuer; then
  npm ci --no-audit --no-fund --prefix issuer
  cp issuer/package-lock.json issuer/node_modules/.installed
fi
if missing clients; then
  # Not npm ci: it refuses a lock file that lacks an optional package which exists nowhere.
  npm install --no-save --omit=optional --no-audit --no-fund --prefix clients
  cp clients/package-lock.json clients/node_modules/.installed
fi
