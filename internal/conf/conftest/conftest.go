// Package conftest has files and names for the tests of everything that reads
// or writes configurations. It is no part of the program.
package conftest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/internal/conf/clients"
)

// StrangeNames are keys that some client takes for a server's name.
var StrangeNames = []string{
	"github.com/acme/notes-mcp", "@scope/pkg@1.2", "a.b", ".", "..", "a b", " lead", "trail ", "日本語", "a:b", "-x", "--help", "_x", "x-ray", "$ref",
	"//", "a\tb", "a\nb", "a\x01b", "a\u007fb", "true", "null", "~", "12", "1.5", "a\"b", `a\b`, "a'b", "[a]", "{a}", "#a", "a#b", "a?b", "a%2Fb", "a: b",
	"everline", "mcpServers", strings.Repeat("n", 500),
}

// OneServerFiles have one server "NAME", as each format writes it.
var OneServerFiles = map[string]string{
	clients.Everline:      `everline.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.ClaudeDesktop: `claude_desktop_config.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.ClaudeCode:    `.mcp.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.Cursor:        `.cursor/mcp.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.VSCode:        `.vscode/mcp.json {"servers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.Windsurf:      `mcp_config.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.Zed:           `settings.json {"context_servers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.Gemini:        `.gemini/settings.json {"mcpServers": {%s: {"command": "x"}, "good": {"command": "x"}}}`,
	clients.Opencode:      `opencode.json {"mcp": {%s: {"type": "local", "command": ["x"]}, "good": {"type": "local", "command": ["x"]}}}`,
	clients.Codex:         "config.toml [mcp_servers]\n[mcp_servers.%s]\ncommand = \"x\"\n[mcp_servers.good]\ncommand = \"x\"\n",
	clients.Goose:         "config.yaml extensions:\n  %s:\n    type: stdio\n    cmd: x\n  good:\n    type: stdio\n    cmd: x\n",
}

// ClientFiles gives every file of a testdata/clients with the path that it has
// where the client keeps it: testdata/clients/CASE stands for /home/u.
func ClientFiles(t testing.TB, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".golden" {
			return err
		}
		_, inCase, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), folder+"/"), "/")
		files[path] = "/home/u/" + inCase
		return nil
	})
	if err != nil || len(files) < len(clients.Formats())-1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}
