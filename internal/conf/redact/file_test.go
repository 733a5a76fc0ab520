package redact

import (
	"strings"
	"testing"
)

// TestHideIn shows a file of each syntax without what is secret in any part of it.
func TestHideIn(t *testing.T) {
	for file, text := range map[string]string{
		"a.json": `{"projects": {"/p": {"mcpServers": {"x": {"command": 1, "env": {"K": "sk-secret-1", "R": "${TOKEN}", "S": "a\"sk-secret"}}}}},
			"mcpServers": {"y": {"url": "https://h/?api_key=sk-secret-2", "headers": {"Authorization": "Bearer sk-secret-3"}}}, "oauthToken": "sk-secret-4"}`,
		"b.yaml": "extensions:\n  x:\n    envs:\n      K: sk-secret-1\n      L: |\n        sk-secret-2\n        more-sk-secret\n      R: ${TOKEN}\n",
		"c.toml": "[mcp_servers.x]\nenv = {K = 'sk-secret-1', R = \"${TOKEN}\"}\n[mcp_servers.x.http_headers]\nA = \"sk-secret-2\"\n",
	} {
		got := InFile(file, nil, []byte(text))(text)
		if strings.Contains(got, "secret") || !strings.Contains(got, "${TOKEN}") || !strings.Contains(got, Hidden) {
			t.Errorf("%s:\n%s", file, got)
		}
	}
}
