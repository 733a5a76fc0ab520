#!/usr/bin/env bash
# Installs what the package-lock.json of each folder pins, unless it is there
# already.
set -euo pipefail
cd "$(dirname "$0")/../conformance"
for folder in . clients; do
  if ! cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed"; then
    npm ci --no-audit --no-fund --prefix "$folder"
    cp "$folder/package-lock.json" "$folder/node_modules/.installed"
  fi
done
