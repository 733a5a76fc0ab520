#!/usr/bin/env bash
# The page in a browser: that what is committed is what ui builds, and what the page
# promises. Chromium is taken from Debian where it is missing. With IMAGES=1 the
# pictures of the docs are made anew.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/ui.sh "$work"
diff -rq "$work" internal/web/dist || { echo "internal/web/dist is not what ui builds: scripts/ui.sh" >&2; exit 1; }
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ]; then
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "no Chromium is installed: the page is not tested in a browser" >&2
    exit 0
  fi
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } >&2
  chromium=$(command -v chromium)
fi
if ! cmp -s ui/package-lock.json ui/node_modules/.installed; then
  (cd ui && npm ci --ignore-scripts --no-audit --no-fund && cp package-lock.json node_modules/.installed) >&2
fi
go build -trimpath -o "$work/everline" ./cmd/everline
EVERLINE=$work/everline CHROMIUM=$chromium UI_IMAGES=${IMAGES:+$PWD/docs/images} \
  node --test --test-reporter=spec --test-concurrency=1 "$@" ui/test/*.test.mjs
