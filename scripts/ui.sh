#!/usr/bin/env bash
# Builds the page from ui into internal/web/dist (or the folder that is named), with
# esbuild as a Go tool: no Node is needed.
set -euo pipefail
cd "$(dirname "$0")/../ui"
out=${1:-../internal/web/dist}
build() {
  go tool -modfile=../tools/go.mod esbuild "$@" --bundle --minify --target=es2022 --log-level=warning
}
build src/main.jsx --format=esm --jsx-factory=h --jsx-fragment=Fragment --charset=utf8 --legal-comments=none \
  --alias:preact=./vendor/preact.mjs --alias:preact/hooks=./vendor/hooks.mjs \
  --alias:@preact/signals-core=./vendor/signals-core.mjs --alias:@preact/signals=./vendor/signals.mjs \
  --banner:js='/*! Preact, (c) 2015-present Jason Miller; Preact Signals, (c) 2022-present Preact Team. MIT license, in ui/vendor. */' \
  --outfile="$out/app.js"
build app.css --outfile="$out/app.css"
cp index.html icon.svg "$out/"
