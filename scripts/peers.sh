#!/usr/bin/env bash
# Installs other gateways, in exact versions, into the user's cache folder, and
# describes them there for the benchmark. Nothing of it gets into the repository.
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
supergateway=4.0.0
mcp_proxy=6.7.19
cache="$(cd "$here" && go run ./bench peers)"
mkdir -p "$cache/bin" "$cache/npm"
cd "$cache/npm"
[ -f package.json ] || echo '{"private":true}' >package.json
npm install --no-audit --no-fund --save-exact "supergateway@$supergateway" "mcp-proxy@$mcp_proxy"
(cd "$here/bench/peers/mcpgo" && go build -o "$cache/bin/mcpgoproxy" .)
mcpgo="$(cd "$here/bench/peers/mcpgo" && go list -m -f '{{.Version}}' github.com/mark3labs/mcp-go)"
modules="$cache/npm/node_modules"
cat >"$cache/peers.json" <<JSON
[
 {"name": "mcpgoproxy", "version": "mark3labs/mcp-go $mcpgo", "kinds": ["stdio", "http"],
  "argv": ["$cache/bin/mcpgoproxy", "-listen", "127.0.0.1:{port}", "-config", "{config}"], "url": "http://127.0.0.1:{port}/mcp"},
 {"name": "mcp-proxy", "version": "npm mcp-proxy $mcp_proxy, node $(node --version)", "kinds": ["stdio"],
  "argv": ["node", "$modules/mcp-proxy/dist/bin/mcp-proxy.mjs", "--host", "127.0.0.1", "--port", "{port}", "--server", "stream", "--", "{argv}"],
  "url": "http://127.0.0.1:{port}/mcp"},
 {"name": "supergateway", "version": "npm supergateway $supergateway, node $(node --version)", "kinds": ["stdio"],
  "argv": ["node", "$modules/supergateway/dist/index.js", "--stdio", "{command}", "--outputTransport", "streamableHttp", "--stateful", "--port", "{port}", "--logLevel", "none"],
  "spawns": true, "url": "http://127.0.0.1:{port}/mcp"}
]
JSON
echo "$cache/peers.json"
