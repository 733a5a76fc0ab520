package config_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
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

// TestClientsOAuth: what each client's file says of a login is what is done here, in
// the words of that client. What none of them has is reported.
func TestClientsOAuth(t *testing.T) {
	plain := func(change func(*config.Auth)) config.Auth {
		a := config.NewServer("").Auth
		change(&a)
		return a
	}
	for _, c := range []struct {
		format, file, text string
		want               config.Auth
		warns              string // "" for no warning
	}{
		{
			clients.Cursor, "mcp.json", `{"mcpServers": {"a": {"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "s", "scopes": ["r", "w"]}}}}`,
			plain(func(a *config.Auth) { a.ClientID, a.ClientSecret, a.Scopes = "id", "s", []string{"r", "w"} }), "",
		},
		{
			clients.ClaudeCode, ".mcp.json", `{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "oauth": {"clientId": "i", "callbackPort": 8080, "scopes": "r w", "authServerMetadataUrl": "https://as.example/m"}}}}`,
			plain(func(a *config.Auth) {
				a.ClientID, a.CallbackPort, a.Scopes, a.MetadataURL = "i", 8080, []string{"r", "w"}, "https://as.example/m"
			}), "",
		},
		{
			clients.ClaudeCode, ".mcp.json", `{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "headersHelper": "get-headers --for ${ID}"}}}`,
			plain(func(a *config.Auth) {
				a.Type, a.Command, a.Args = config.AuthCommand, "sh", []string{"-c", "get-headers --for id"}
			}), "only Authorization is used",
		},
		{
			clients.VSCode, "mcp.json", `{"servers": {"a": {"type": "http", "url": "https://a.example/mcp", "oauth": {"clientId": "i"}}}}`,
			plain(func(a *config.Auth) { a.ClientID = "i" }), "",
		},
		{
			clients.Zed, "settings.json", `{"context_servers": {"a": {"url": "https://a.example/mcp", "oauth": {"client_id": "i", "client_secret": "s"}}}}`,
			plain(func(a *config.Auth) { a.ClientID, a.ClientSecret = "i", "s" }), "",
		},
		{
			clients.Codex, "config.toml", "[mcp_servers.a]\nurl = \"https://a.example/mcp\"\nscopes = [\"r\"]\noauth_resource = \"https://a.example\"\noauth = { client_id = \"i\" }\n",
			plain(func(a *config.Auth) { a.ClientID, a.Scopes, a.Resource = "i", []string{"r"}, "https://a.example" }), "",
		},
		{
			clients.Gemini, "settings.json", `{"mcpServers": {"a": {"httpUrl": "https://a.example/mcp", "oauth": {"enabled": true, "clientId": "i", "clientSecret": "$ID", "scopes": ["r"], "redirectUri": "http://localhost:7777/cb", "tokenUrl": "https://t"}}}}`,
			plain(func(a *config.Auth) {
				a.ClientID, a.ClientSecret, a.Scopes, a.RedirectURI = "i", "id", []string{"r"}, "http://localhost:7777/cb"
			}), `"tokenUrl" is not used here`,
		},
		{
			clients.Gemini, "settings.json", `{"mcpServers": {"a": {"httpUrl": "https://a.example/mcp", "authProviderType": "google_credentials"}}}`,
			plain(func(*config.Auth) {}), `a token of google_credentials comes from a program`,
		},
		{
			clients.Opencode, "opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://a.example/mcp", "oauth": {"clientId": "{env:ID}", "clientSecret": "s", "scope": "r w", "redirectUri": "http://127.0.0.1:1/cb"}}}}`,
			plain(func(a *config.Auth) {
				a.ClientID, a.ClientSecret, a.Scopes, a.RedirectURI = "id", "s", []string{"r", "w"}, "http://127.0.0.1:1/cb"
			}), "",
		},
		{
			clients.Opencode, "opencode.json", `{"mcp": {"a": {"type": "remote", "url": "https://a.example/mcp", "oauth": false}}}`,
			plain(func(a *config.Auth) { a.Type = config.AuthNone }), "",
		},
		{
			clients.Windsurf, "mcp_config.json", `{"mcpServers": {"a": {"serverUrl": "https://a.example/mcp", "oauth": {"clientId": "i"}}}}`,
			plain(func(*config.Auth) {}), `unknown key "oauth"`,
		},
		{
			clients.Goose, "config.yaml", "extensions:\n  a: {type: streamable_http, uri: \"https://a.example/mcp\", oauth: {clientId: i}}\n",
			plain(func(*config.Auth) {}), `unknown key "oauth"`,
		},
		{
			clients.ClaudeDesktop, "claude_desktop_config.json", `{"mcpServers": {"a": {"type": "http", "url": "https://a.example/mcp", "oauth": {"clientId": "i"}}}}`,
			plain(func(*config.Auth) {}), `unknown key "oauth"`,
		},
		{
			clients.Cursor, "mcp.json", `{"mcpServers": {"a": {"url": "https://a.example/mcp", "auth": {"CLIENT_IDD": "i"}}}}`,
			plain(func(*config.Auth) {}), `unknown key "CLIENT_IDD" in "auth"`,
		},
	} {
		o := config.Options{Format: c.format, Env: func(name string) (string, bool) { return "id", name == "ID" }}
		cfg, err := o.Parse("/p/"+c.file, []byte(c.text))
		if err != nil || len(cfg.Servers) != 1 || cfg.Servers[0].Err != nil {
			t.Errorf("%s: %v, %+v", c.format, err, cfg)
			continue
		}
		if got := cfg.Servers[0].Auth; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s\nis  %+v\nnot %+v", c.format, c.text, got, c.want)
		}
		warned := ""
		for _, w := range cfg.Warnings {
			warned += w.Text + "\n"
		}
		if (warned == "") != (c.warns == "") && c.format != clients.ClaudeDesktop || !strings.Contains(warned, c.warns) {
			t.Errorf("%s: warned of %q, want %q", c.format, warned, c.warns)
		}
	}
}
