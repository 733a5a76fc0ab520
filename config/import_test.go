package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/conftest"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/settings"
)

// TestImportKeepsReferences copies every golden file of a client into our own
// format, and reads both: the servers are the same, and no secret was written.
func TestImportKeepsReferences(t *testing.T) {
	for path, name := range conftest.ClientFiles(t, "testdata/clients") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		servers, _, err := settings.Import(config.Options{Workspace: "/home/u/project", Env: clientEnv}, name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var text []byte
		for _, s := range servers {
			if text, err = edit.SetServer(clients.Everline, "/home/u/everline.json", text, s.Name, s.Entry); err != nil {
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
	original, err := clientOptions().Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := clientOptions().Parse("/home/u/everline.json", text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	for _, want := range original.Servers {
		lost := slices.ContainsFunc(original.Warnings, func(w config.Warning) bool { return w.Server == want.Name })
		if want.Err != nil || lost { // with a variable that is not set, which both tell in their own way
			continue
		}
		if got, _ := copied.Server(want.Name); !got.Equal(want) {
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
		servers, warnings, err := settings.Import(config.Options{Env: clientEnv}, c.file, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var text []byte
		for _, s := range servers {
			if text, err = edit.SetServer(clients.Everline, "/home/u/everline.json", text, s.Name, s.Entry); err != nil {
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
