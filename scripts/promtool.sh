#!/usr/bin/env bash
# Checks the metrics, the alerts and the dashboard with Prometheus's own tool. Where
# promtool is not installed it is taken out of Debian's package, without its daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
  if ! command -v apt-get >/dev/null; then
    echo "promtool is not installed: alerts and dashboard are not checked" >&2
    exit 0
  fi
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/everline-promtool
  promtool=$dir/usr/bin/promtool
  if [ ! -x "$promtool" ]; then
    mkdir -p "$dir"
    (cd "$dir" && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2
  fi
fi
PROMTOOL=$promtool go test -count=1 -run 'TestPromtool' ./internal/observe
