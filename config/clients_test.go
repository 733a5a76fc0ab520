package config_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/conftest"
	"github.com/everline/everline/internal/conf/redact"
)

// parseAs reads a text of a format; env may be nil.
func parseAs(format, file string, data []byte, env func(string) (string, bool)) (*config.Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return config.Options{Format: format, Env: env}.Parse(file, data)
}

// clientOptions are for the files of testdata/clients.
func clientOptions() config.Options {
	o := config.Options{Workspace: "/home/u/project", Env: clientEnv}
	return o.WithSideFiles(func(_, path string) (string, error) {
		if path == "/secrets/token" {
			return "token-of-a-file", nil
		}
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	})
}

func clientEnv(name string) (string, bool) {
	if name == "HOME" {
		return "/home/u", true
	}
	if name == "EVERLINE_INPUT_API_KEY" {
		return "answer-to-the-question", true
	}
	return testEnv(name)
}

// TestClientGolden reads a file of each client as it is, and compares the
// format found, the effective configuration and the warnings.
func TestClientGolden(t *testing.T) {
	var seen []string
	for path, name := range conftest.ClientFiles(t, "testdata/clients") {
		t.Run(filepath.ToSlash(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			format, err := clients.Detect(name, data)
			if err != nil {
				t.Fatal(err)
			}
			folder := strings.Split(filepath.ToSlash(path), "/")[2]
			if !strings.HasPrefix(folder, format) {
				t.Errorf("read as %s", format)
			}
			seen = append(seen, format)
			got := append(fmt.Appendf(nil, "format %s\n", format), render(clientOptions().Parse(name, data))...)
			if *rewrite {
				if err := os.WriteFile(path+".golden", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	for _, format := range clients.Formats()[1:] {
		if !slices.Contains(seen, format) {
			t.Errorf("no golden file of %s", format)
		}
	}
}

// TestShapesAreToldApart has files of every shape where their names say nothing.
func TestShapesAreToldApart(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x"}}}`:                            clients.Everline,
		`{"everline": {}, "servers": {"a": {"command": "x"}}}`:               clients.Everline,
		`{"a": {"command": "x"}}`:                                            clients.Everline,
		`[]`:                                                                 clients.Everline,
		`{"mcpServers": {"a": {"httpUrl": "x"}}}`:                            clients.Gemini,
		`{"mcpServers": {"a": {"command": "x", "includeTools": []}}}`:        clients.Gemini,
		`{"mcpServers": {"a": {"serverUrl": "x"}}}`:                          clients.Windsurf,
		`{"inputs": [], "servers": {}}`:                                      clients.VSCode,
		`{"context_servers": {}}`:                                            clients.Zed,
		`{"mcp": {"a": {"type": "local", "command": ["x"]}}}`:                clients.Opencode,
		`{"mcp": {"servers": {}}}`:                                           clients.Opencode,
		`{"projects": {"/p": {"mcpServers": {}}}}`:                           clients.ClaudeCode,
		`{"extensions": {"a": {"type": "stdio", "cmd": "x"}}}`:               clients.Goose,
		`{"mcp_servers": {"a": {"command": "x"}}}`:                           clients.Codex,
		`{"everline": {}, "mcpServers": {"a": {"serverUrl": "not for us"}}}`: clients.Everline,
	} {
		if got, err := clients.Detect("file.json", []byte(text)); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestFormatIsChosen reads one text by the rules of two clients.
func TestFormatIsChosen(t *testing.T) {
	const text = `{"mcpServers": {"a": {"url": "http://h/x", "headers": {"K": "$TOKEN"}}}}`
	for format, want := range map[string]struct {
		transport config.Transport
		header    string
	}{
		"":             {"auto", "$TOKEN"},
		clients.Gemini: {"sse", "s3cret-token"},
		clients.Cursor: {"auto", "$TOKEN"},
	} {
		c, err := parseAs(format, "f.json", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Servers[0]; s.Transport != want.transport || s.Headers["K"] != want.header {
			t.Errorf("%q: %+v", format, s)
		}
	}
	if _, err := parseAs("cursorr", "f.json", []byte(text), nil); err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestClientSecretsAreHidden looks for what references put into arguments.
func TestClientSecretsAreHidden(t *testing.T) {
	for format, text := range map[string]string{
		clients.ClaudeCode: `{"mcpServers": {"a": {"command": "x", "args": ["${TOKEN}"]}}}`,
		clients.Cursor:     `{"mcpServers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		clients.VSCode:     `{"servers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		clients.Windsurf:   `{"mcpServers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		clients.Gemini:     `{"mcpServers": {"a": {"command": "x", "args": ["$TOKEN"]}}}`,
		clients.Opencode:   `{"mcp": {"a": {"type": "local", "command": ["x", "{env:TOKEN}"]}}}`,
	} {
		c, err := parseAs(format, "f.json", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Servers[0].Args[0]; got != "s3cret-token" {
			t.Errorf("%s: argument %q", format, got)
		}
		if got := c.Redacted().Servers[0].Args[0]; got != redact.Hidden {
			t.Errorf("%s: shown as %q", format, got)
		}
	}
}

// FuzzClients feeds any text to the reader of any client.
func FuzzClients(f *testing.F) {
	formats := clients.Formats()
	for path, name := range conftest.ClientFiles(f, "testdata/clients") {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for i := range formats {
			f.Add(uint8(i), strings.TrimPrefix(filepath.Ext(name), "."), data)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, ext string, data []byte) {
		if ext != "json" && ext != "yaml" && ext != "toml" {
			return
		}
		o := clientOptions()
		o.Format = formats[int(which)%len(formats)]
		cfg, err := o.Parse("/home/u/.cursor/f."+ext, data)
		if f := fault.From("", err); f != nil {
			if f.Kind != fault.Invalid || f.Remedy == "" {
				t.Fatalf("%+v", f)
			}
			return
		}
		for _, s := range cfg.Servers {
			if s.Name == "" || s.Origin.Line < 1 || !s.Equal(s) {
				t.Fatalf("%+v", s)
			}
			if s.Err == nil && (s.Command == "") == (s.URL == "") {
				t.Fatalf("usable, but how? %+v", s)
			}
		}
	})
}
