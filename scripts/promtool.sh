#!/usr/bin/env bash
# Checks the metrics, the alerts and the dashboard with Prometheus's own tool. Where
# promtool is not installed it is taken out of Debian's package, without its daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/everline-promtool
  promtool=$dir/usr/bin/promtool
  if [ ! -x "$promtool" ]; then
    mkdir -p "$dir"
    (cd "$dir" && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2
  fi
fi
PROMTOOL=$promtool go test -count=1 -run 'TestPromtool' ./internal/observe
