package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/conf/tree"
)

func clientEnv(name string) (string, bool) {
	if name == "HOME" {
		return "/home/u", true
	}
	if name == "EVERLINE_INPUT_API_KEY" {
		return "answer-to-the-question", true
	}
	return testEnv(name)
}

func clientBuilder() *builder {
	b := newBuilder(clientEnv)
	b.workspace = "/home/u/project"
	b.readFile = func(_, path string) (string, error) {
		if path == "/secrets/token" {
			return "token-of-a-file", nil
		}
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return b
}

// clientFiles gives every file of testdata/clients with the path that it has
// where the client keeps it: testdata/clients/CASE stands for /home/u.
func clientFiles(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("testdata/clients", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".golden" {
			return err
		}
		_, inCase, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), "testdata/clients/"), "/")
		files[path] = "/home/u/" + inCase
		return nil
	})
	if err != nil || len(files) < len(clients) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// TestClientGolden reads a file of each client as it is, and compares the
// format found, the effective configuration and the warnings.
func TestClientGolden(t *testing.T) {
	var seen []string
	for path, name := range clientFiles(t) {
		t.Run(filepath.ToSlash(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			format, err := Detect(name, data)
			if err != nil {
				t.Fatal(err)
			}
			folder := strings.Split(filepath.ToSlash(path), "/")[2]
			if !strings.HasPrefix(folder, format) {
				t.Errorf("read as %s", format)
			}
			seen = append(seen, format)
			b := clientBuilder()
			var failed error
			if f := b.add(name, data); f != nil {
				failed = f
			}
			got := append(fmt.Appendf(nil, "format %s\n", format), render(b.cfg, failed)...)
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
	for _, format := range Formats()[1:] {
		if !slices.Contains(seen, format) {
			t.Errorf("no golden file of %s", format)
		}
	}
}

// TestShapesAreToldApart has files of every shape where their names say nothing.
func TestShapesAreToldApart(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x"}}}`:                            FormatEverline,
		`{"everline": {}, "servers": {"a": {"command": "x"}}}`:               FormatEverline,
		`{"a": {"command": "x"}}`:                                            FormatEverline,
		`[]`:                                                                 FormatEverline,
		`{"mcpServers": {"a": {"httpUrl": "x"}}}`:                            FormatGemini,
		`{"mcpServers": {"a": {"command": "x", "includeTools": []}}}`:        FormatGemini,
		`{"mcpServers": {"a": {"serverUrl": "x"}}}`:                          FormatWindsurf,
		`{"inputs": [], "servers": {}}`:                                      FormatVSCode,
		`{"context_servers": {}}`:                                            FormatZed,
		`{"mcp": {"a": {"type": "local", "command": ["x"]}}}`:                FormatOpencode,
		`{"mcp": {"servers": {}}}`:                                           FormatOpencode,
		`{"projects": {"/p": {"mcpServers": {}}}}`:                           FormatClaudeCode,
		`{"extensions": {"a": {"type": "stdio", "cmd": "x"}}}`:               FormatGoose,
		`{"mcp_servers": {"a": {"command": "x"}}}`:                           FormatCodex,
		`{"everline": {}, "mcpServers": {"a": {"serverUrl": "not for us"}}}`: FormatEverline,
	} {
		if got, err := Detect("file.json", []byte(text)); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestFormatIsChosen reads one text by the rules of two clients.
func TestFormatIsChosen(t *testing.T) {
	const text = `{"mcpServers": {"a": {"url": "http://h/x", "headers": {"K": "$TOKEN"}}}}`
	for format, want := range map[string]struct{ transport, header string }{
		"":           {"auto", "$TOKEN"},
		FormatGemini: {"sse", "s3cret-token"},
		FormatCursor: {"auto", "$TOKEN"},
	} {
		c, err := ParseAs(format, "f.json", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Servers[0]; s.Transport != want.transport || s.Headers["K"] != want.header {
			t.Errorf("%q: %+v", format, s)
		}
	}
	if _, err := ParseAs("cursorr", "f.json", []byte(text), nil); err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestClientSecretsAreHidden looks for what references put into arguments.
func TestClientSecretsAreHidden(t *testing.T) {
	for format, text := range map[string]string{
		FormatClaudeCode: `{"mcpServers": {"a": {"command": "x", "args": ["${TOKEN}"]}}}`,
		FormatCursor:     `{"mcpServers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		FormatVSCode:     `{"servers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		FormatWindsurf:   `{"mcpServers": {"a": {"command": "x", "args": ["${env:TOKEN}"]}}}`,
		FormatGemini:     `{"mcpServers": {"a": {"command": "x", "args": ["$TOKEN"]}}}`,
		FormatOpencode:   `{"mcp": {"a": {"type": "local", "command": ["x", "{env:TOKEN}"]}}}`,
	} {
		c, err := ParseAs(format, "f.json", []byte(text), testEnv)
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
	formats := Formats()
	for path, name := range clientFiles(f) {
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
		b := clientBuilder()
		b.format = formats[int(which)%len(formats)]
		if err := b.add("/home/u/.cursor/f."+ext, data); err != nil {
			if err.Kind != fault.Invalid || err.Remedy == "" {
				t.Fatalf("%+v", err)
			}
			return
		}
		for _, s := range b.cfg.Servers {
			if s.Name == "" || s.Origin.Line < 1 || !s.Equal(s) {
				t.Fatalf("%+v", s)
			}
			if s.Err == nil && (s.Command == "") == (s.URL == "") {
				t.Fatalf("usable, but how? %+v", s)
			}
		}
	})
}

// FuzzDialects expands any text by the rules of each client.
func FuzzDialects(f *testing.F) {
	for _, s := range []string{"${A}", "$A$B", "{env:TOKEN}", "${env:TOKEN}", "${TOKEN:-x}", "${file:x}", "a${", "}${input:x}", "{file:}", "${/}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i := range clients {
			c := &clients[i]
			if c.dialect == nil {
				continue
			}
			r := &reader{builder: clientBuilder(), file: "/home/u/f.json", client: c}
			r.builder.readFile = func(string, string) (string, error) { return "", errors.New("no files here") }
			got, err := c.dialect.expand(r, &tree.Node{Kind: tree.String, Text: text}, nil)
			if err == nil && !strings.ContainsAny(text, "${") && got != text {
				t.Fatalf("%s: %q became %q", c.name, text, got)
			}
		}
	})
}
