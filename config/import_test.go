package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/internal/conf/clients"
)

// TestImportKeepsReferences copies every golden file of a client into our own
// format, and reads both: the servers are the same, and no secret was written.
func TestImportKeepsReferences(t *testing.T) {
	for path, name := range clientFiles(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		servers, _, err := Import("", name, data, "/home/u/project", clientEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var text []byte
		for _, s := range servers {
			if text, err = SetServer(clients.Everline, "/home/u/everline.json", text, s.Name, s.Entry); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, secret := range []string{"s3cret-token", "token-of-a-file", "answer-to-the-question"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s: a secret was written:\n%s", name, text)
			}
		}
		compareImport(t, name, data, text)
	}
}

func compareImport(t *testing.T, name string, data, text []byte) {
	t.Helper()
	original, copied := clientBuilder(), clientBuilder()
	if err := original.add(name, data); err != nil {
		t.Fatal(err)
	}
	if err := copied.add("/home/u/everline.json", text); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	for _, want := range original.cfg.Servers {
		lost := slices.ContainsFunc(original.cfg.Warnings, func(w Warning) bool { return w.Server == want.Name })
		if want.Err != nil || lost { // with a variable that is not set, which both tell in their own way
			continue
		}
		if got, _ := copied.cfg.Server(want.Name); !got.Equal(want) {
			t.Errorf("%s: %s is\n%+v, was\n%+v\n%s", name, want.Name, got, want, text)
		}
	}
}

// TestImportLosesNothing has what a copy could leave out without a word: the
// file of variables, a server that is broken, and what is empty where it is unset.
func TestImportLosesNothing(t *testing.T) {
	for _, c := range []struct{ name, file, text, want, warning string }{
		{
			"an envFile", "/home/u/project/.cursor/mcp.json",
			`{"mcpServers": {"a": {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"K": "v"}}}}`, `"envFile": "/home/u/project/.env"`, "",
		},
		{
			"an envFile at a place that varies", "/home/u/.vscode/mcp.json",
			`{"servers": {"a": {"command": "x", "envFile": "${env:DIR}/.env", "cwd": "${env:DIR}"}}}`, `"envFile": "${DIR}/.env"`, "",
		},
		{
			"a folder that varies", "/home/u/.vscode/mcp.json",
			`{"servers": {"a": {"command": "x", "cwd": "${env:DIR}/x"}}}`, `"cwd": "${DIR}/x"`, "",
		},
		{
			"a bad env", "/home/u/.cursor/mcp.json",
			`{"mcpServers": {"a": {"command": "x", "env": {"K": ["v"]}}}}`, "", "a: is left out: ",
		},
		{
			"a bad time", "/home/u/.gemini/settings.json",
			`{"mcpServers": {"a": {"command": "x", "timeout": "soon"}}}`, "", "a: is left out: ",
		},
		{
			"unset in Gemini", "/home/u/.gemini/settings.json",
			`{"mcpServers": {"a": {"command": "x", "args": ["${NOPE}", "$NOPE"]}}}`, `["${NOPE:-}", "${NOPE:-}"]`, "",
		},
		{
			"unset in Codex", "/home/u/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"NOPE\"]\n", `"NOPE": "${NOPE:-}"`, "",
		},
		{
			"a URL that varies", "/home/u/.cursor/mcp.json", `{"mcpServers": {"a": {"url": "${env:URL}"}}}`, `"url": "${URL}"`, "",
		},
	} {
		servers, warnings, err := Import("", c.file, []byte(c.text), "", clientEnv)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var text []byte
		for _, s := range servers {
			if text, err = SetServer(clients.Everline, "/home/u/everline.json", text, s.Name, s.Entry); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		told := ""
		for _, w := range warnings {
			told += w.String() + "\n"
		}
		if !strings.Contains(string(text), c.want) || (c.want == "") != (len(servers) == 0) || !strings.Contains(told, c.warning) {
			t.Errorf("%s: %s\nwarnings: %s", c.name, text, told)
		}
	}
}
