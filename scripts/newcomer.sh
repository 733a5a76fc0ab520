#!/usr/bin/env bash
# What a newcomer does and reads, from a fresh clone to a call through a linked
# client, with the seconds that each step takes. FRESH=1 begins with empty
# caches of Go and npm, as on a new machine. It changes nothing outside of a
# temporary folder, which it removes.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
scripts/npm.sh >&2 # for the client at the end, which a newcomer has already
server=@modelcontextprotocol/server-everything@$(node -p 'require("./conformance/package.json").dependencies["@modelcontextprotocol/server-everything"]')
inspector=$source/conformance/node_modules/.bin/mcp-inspector

home=$(mktemp -d)
gateway=
finish() {
  if [ -n "$gateway" ]; then
    kill "$gateway" 2>/dev/null || true
    wait "$gateway" 2>/dev/null || true
  fi
  chmod -R u+w "$home" # the module cache is not
  rm -rf "$home"
}
trap finish EXIT
gocache=$(go env GOCACHE) gomodcache=$(go env GOMODCACHE) goproxy=$(go env GOPROXY) npmcache=$(npm config get cache)
export HOME=$home XDG_STATE_HOME=$home/.local/state XDG_CONFIG_HOME=$home/.config GOBIN=$home/bin PATH=$home/bin:$PATH GOPROXY=$goproxy
if [ "${FRESH:-}" = 1 ]; then
  export GOCACHE=$home/.cache/go-build GOMODCACHE=$home/go/pkg/mod npm_config_cache=$home/.npm
else
  export GOCACHE=$gocache GOMODCACHE=$gomodcache npm_config_cache=$npmcache
fi

table=
step() { # step TITLE COMMAND...: runs it, shows it as it is typed, and times it
  local title=$1 began=$EPOCHREALTIME seconds
  shift
  [ "$1" = start ] || printf '\n$ %s\n' "$*"
  "$@"
  seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  printf '[%s s]\n' "$seconds"
  table+=$(printf '%8s s  %s' "$seconds" "$title")$'\n'
}
start() { # the gateway, in the background, until its server is connected
  printf '\n$ everline serve &\n$ everline status --wait connected\n'
  everline serve --listen 127.0.0.1:0 2>"$home/serve.log" &
  gateway=$!
  everline status --wait connected --timeout 3m
}
begun=$EPOCHREALTIME

step "clone" git clone --quiet "$source" "$home/everline"
cd "$home/everline"
step "the proof: servers killed while every call is answered" go run ./cmd/everline demo --for 8s
step "install" go install ./cmd/everline
mkdir "$home/work"
cd "$home/work"
step "a configuration with a real npm server" everline add everything -- npx -y "$server"
step "the gateway, until the server is connected" start
echo "# meanwhile, on stderr:" && sed 's/^/    /' "$home/serve.log"
step "a client's own configuration" everline link claude-code
step "a call by a client that reads that configuration" \
  "$inspector" --cli --config "$home/.claude.json" --server everline --method tools/call --tool-name echo --tool-arg message=hello 2>/dev/null
step "the same, from the shell" everline call everything.echo message=hello
step "is all well?" everline doctor

printf '\n%s%8s s  in all\n' "$table" "$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')"
