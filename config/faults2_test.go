package config_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/conftest"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/conf/tree"
)

// envOf knows the variables of a map.
func envOf(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// TestFaultS6 has every name in every format, and an entry that is none.
func TestFaultS6(t *testing.T) {
	if len(conftest.OneServerFiles) != len(clients.Formats()) {
		t.Fatalf("%d of %d formats", len(conftest.OneServerFiles), len(clients.Formats()))
	}
	for format, file := range conftest.OneServerFiles {
		path, text, _ := strings.Cut(file, " ")
		for _, name := range conftest.StrangeNames {
			key := tree.Quoted(name)
			if format == clients.Codex {
				key = strings.ReplaceAll(tree.Quoted(name), "\x7f", `\u007f`)
			}
			data := []byte(fmt.Sprintf(text, key))
			c, err := parseAs(format, path, data, testEnv)
			if err != nil {
				t.Errorf("%s, %q: the file is refused: %v", format, name, err)
				continue
			}
			s, ok := c.Server(name)
			if !ok || s.Err != nil || s.Command != "x" || len(c.Servers) != 2 {
				t.Errorf("%s, %q: %+v, of %d", format, name, s, len(c.Servers))
			}
			all, _, err := settings.Import(config.Options{Format: format, Env: testEnv}, path, data)
			if err != nil || len(all) != 2 || all[0].Name != name {
				t.Errorf("%s, %q: imported %+v, %v", format, name, all, err)
			}
		}
		for _, bad := range []string{"", "  ", strings.Repeat("n", config.MaxServerName+1)} {
			c, err := parseAs(format, path, []byte(fmt.Sprintf(text, tree.Quoted(bad))), testEnv)
			if err != nil {
				t.Errorf("%s: %.20q refuses the file: %v", format, bad, err)
				continue
			}
			s, _ := c.Server(bad)
			if good, ok := c.Server("good"); !ok || good.Err != nil || s.Err == nil || !strings.Contains(s.Err.Error(), path+":") || s.Err.Remedy == "" {
				t.Errorf("%s, %.20q: %v, good %v", format, bad, s.Err, ok)
			}
		}
	}
}

// TestFaultS6Comments has keys that look like comments, and are some.
func TestFaultS6Comments(t *testing.T) {
	c := mustParse(t, `{"mcpServers": {"_note": "text", "//": ["text"], "x-base": {"env": {"A": "b"}}, "$schema": "x", "a": {"command": "x"}}}`)
	if len(c.Servers) != 1 || len(c.Warnings) != 0 {
		t.Errorf("%+v", c)
	}
}

// TestFaultS6Groups has groups of servers with such names.
func TestFaultS6Groups(t *testing.T) {
	for _, name := range conftest.StrangeNames {
		c := mustParse(t, `{"everline": {"groups": {"g": [`+tree.Quoted(name)+`]}}, "mcpServers": {`+tree.Quoted(name)+`: {"command": "x"}}}`)
		if g, ok := c.Group("g"); !ok || !slices.Equal(g.Servers, []string{name}) || len(c.Warnings) != 0 {
			t.Errorf("%q: %+v %v", name, g, c.Warnings)
		}
	}
}

// TestFaultS9 has headers that are the transport's own.
func TestFaultS9(t *testing.T) {
	for _, name := range []string{
		"Accept-Encoding", "accept-encoding", "ACCEPT", "Content-Type", "content-length", "Connection", "Transfer-Encoding", "Mcp-Session-Id", "mcp-protocol-version", "Mcp-Anything", "TE",
	} {
		c := mustParse(t, `{"mcpServers": {"a": {"url": "http://h/", "headers": {"`+name+`": "gzip, br", "X-Kept": "1", "Host": "other"}}}}`)
		s := c.Servers[0]
		if s.Err != nil || len(s.Headers) != 2 || s.Headers["X-Kept"] != "1" {
			t.Errorf("%s: %v %v", name, s.Headers, s.Err)
		}
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Text, name) || c.Warnings[0].Server != "a" || c.Warnings[0].Line != 1 {
			t.Errorf("%s: warnings %v", name, c.Warnings)
		}
	}
	c := mustParse(t, `{"mcpServers": {"a": {"url": "http://h/", "headers": {"authorization": "first", "Authorization": "second"}}}}`)
	if s := c.Servers[0]; len(s.Headers) != 1 || s.Headers["authorization"] != "first" || len(c.Warnings) != 1 {
		t.Errorf("one header twice: %v %v", s.Headers, c.Warnings)
	}
}

// TestFaultS10 has values with what programs put around them, from files,
// variables and the configuration.
func TestFaultS10(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"bom": "\ufefftok", "lf": "tok\n", "crlf": "\ufefftok\r\n\r\n", "utf16le": "\xff\xfet\x00o\x00k\x00\r\x00\n\x00", "utf16be": "\xfe\xff\x00t\x00o\x00k", "bell": "to\ak", "nul": "to\x00k", "lines": "a\nb",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := envOf(map[string]string{"BOM": "\ufefftok", "LF": "tok\n", "CRLF": "tok\r\n", "BELL": "to\ak", "DEL": "to\u007fk", "LINES": "a\nb", "NUL": "a\x00b"})
	parse := func(entry string) (*config.Config, config.Server) {
		t.Helper()
		c, err := config.Parse(filepath.Join(dir, "everline.json"), []byte("{\"mcpServers\": {\n\"a\": {\n"+entry+"}}}"), env)
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Servers[0]
	}
	for _, ref := range []string{"${file:bom}", "${file:lf}", "${file:crlf}", "${file:utf16le}", "${file:utf16be}", "${BOM}", "${LF}", "${CRLF}", "\\ufefftok"} {
		if _, s := parse(`"url": "http://h/", "headers": {"A": "` + ref + `", "B": "Bearer ` + ref + `"}`); s.Err != nil || s.Headers["A"] != "tok" || s.Headers["B"] != "Bearer tok" && ref != "\\ufefftok" {
			t.Errorf("%s in a header: %q %v", ref, s.Headers, s.Err)
		}
		if _, s := parse(`"command": "x", "args": ["` + ref + `"], "env": {"K": "` + ref + `"}`); s.Err != nil || s.Args[0] != "tok" || s.Env["K"] != "tok" {
			t.Errorf("%s: %q %q %v", ref, s.Args, s.Env, s.Err)
		}
	}
	for _, bad := range []string{
		`"url": "http://h/", "headers": {"X": "a\u0007b"}`, `"url": "http://h/", "headers": {"X": "${BELL}"}`, `"url": "http://h/", "headers": {"X": "Bearer ${file:bell}"}`,
		`"url": "http://h/", "headers": {"X": "${DEL}"}`, `"url": "http://h/", "headers": {"X": "${LINES}"}`, `"url": "http://h/", "headers": {"X": "${file:lines}"}`, `"url": "http://h/", "headers": {"X": "a\nb"}`,
		`"command": "x", "args": ["${NUL}"]`, `"command": "x", "args": ["${file:nul}"]`, `"command": "x", "env": {"K": "${NUL}"}`, `"command": "${NUL}"`, `"command": "x", "cwd": "${NUL}"`,
	} {
		_, s := parse(bad)
		if s.Err == nil || s.Err.Kind != fault.Invalid || s.Err.Remedy == "" || !strings.Contains(s.Err.Error(), "everline.json:3:") {
			t.Errorf("%s: %v", bad, s.Err)
		} else if strings.ContainsAny(s.Err.Error(), "\a\x00\u007f\n") {
			t.Errorf("%s: the value is in the text: %q", bad, s.Err)
		}
	}
	if c, s := parse(`"url": "http://h/", "headers": {"X": "a\tb", "Y": "  padded\n", "Z": "ünïcode"}`); s.Err != nil || s.Headers["Y"] != "padded" || len(c.Warnings) != 0 {
		t.Errorf("%v %v", s.Headers, s.Err)
	}
	c, err := parseAs(clients.Codex, "config.toml", []byte("[mcp_servers.a]\nurl = \"http://h/\"\nbearer_token_env_var = \"CRLF\"\n[mcp_servers.b]\nurl = \"http://h/\"\nbearer_token_env_var = \"BELL\"\n"), env)
	if err != nil || c.Servers[0].Headers["Authorization"] != "Bearer tok" || c.Servers[1].Err == nil {
		t.Errorf("Codex: %+v %v", c, err)
	}
}

// TestFaultS13 puts values into every part of a URL.
func TestFaultS13(t *testing.T) {
	values := map[string]string{
		"SPACE": "a b", "HASH": "a#b", "AMP": "a&b=c", "PERCENT": "a%41b", "PLUS": "a+b/c==", "QUOTE": `a"<b>`, "UMLAUT": "ä", "PASSWORD": "p@s/s:w#", "BOTH": "me:p@ss", "LINES": "a\nb",
		"BASE": "https://h:8443/base", "HOST": "h:8443", "PARAMS": "a=1&b=2%203", "TENANT": "a b/c?d",
	}
	get := func(format, text string) config.Server {
		t.Helper()
		c, err := parseAs(format, "mcp.json", []byte(`{"mcpServers": {"a": {"url": `+tree.Quoted(text)+`}}}`), envOf(values))
		if err != nil {
			t.Fatal(err)
		}
		return c.Servers[0]
	}
	for _, name := range []string{"SPACE", "HASH", "AMP", "PERCENT", "PLUS", "QUOTE", "UMLAUT", "PASSWORD", "LINES"} {
		for format, ref := range map[string]string{clients.Everline: "${" + name + "}", clients.Cursor: "${env:" + name + "}", clients.ClaudeCode: "${" + name + "}", clients.Gemini: "$" + name} {
			s := get(format, "http://h/mcp?key="+ref+"&z=1")
			u, err := url.Parse(s.URL)
			if err != nil || s.Err != nil {
				t.Errorf("%s, %s: %v %v", format, name, err, s.Err)
				continue
			}
			if q := u.Query(); q.Get("key") != values[name] || q.Get("z") != "1" || len(q) != 2 || u.Fragment != "" || strings.ContainsAny(s.URL, " \n\"<") {
				t.Errorf("%s, %s: %s", format, name, s.URL)
			}
		}
	}
	for text, want := range map[string]string{
		"http://h/a b?c=d e":                      "http://h/a%20b?c=d%20e",
		"http://h/a%20b?c=%2F&d=100%&e=%zz":       "http://h/a%20b?c=%2F&d=100%25&e=%25zz",
		"http://h/mcp?a=[1]&b=x|y&c=ä":            "http://h/mcp?a=[1]&b=x%7Cy&c=%C3%A4",
		"${BASE}/mcp?key=${HASH}":                 "https://h:8443/base/mcp?key=a%23b",
		"https://${HOST}/mcp":                     "https://h:8443/mcp",
		"https://h/mcp?${PARAMS}":                 "https://h/mcp?a=1&b=2%203",
		"https://h/mcp?x=${AMP}&${PARAMS}":        "https://h/mcp?x=a%26b%3Dc&a=1&b=2%203",
		"https://h/${TENANT}/mcp":                 "https://h/a%20b/c%3Fd/mcp",
		"https://h/${PERCENT}":                    "https://h/a%2541b",
		"https://u:${PASSWORD}@h/":                "https://u:p%40s%2Fs%3Aw%23@h/",
		"https://${BOTH}@h/":                      "https://me:p%40ss@h/",
		"https://h/mcp?k=${NONE:-a%20b}":          "https://h/mcp?k=a%20b",
		"https://h/mcp?k=${NONE:-${HASH}}":        "https://h/mcp?k=a%23b",
		" https://h/mcp\n":                        "https://h/mcp",
		"unix:///run/s.sock#/mcp?key=${HASH}&b=c": "unix:///run/s.sock#/mcp?key=a%23b&b=c",
		"https://h/mcp?k=$$x#frag":                "https://h/mcp?k=$x#frag",
	} {
		if s := get(clients.Everline, text); s.URL != want || s.Err != nil {
			t.Errorf("%s became %s, want %s (%v)", text, s.URL, want, s.Err)
		}
	}
	if s := get(clients.Everline, "http://h/a\nb"); s.Err == nil {
		t.Errorf("a line end in the URL: %q", s.URL)
	}
	c := mustParse(t, `{"mcpServers": {"a": {"url": "http://h/sse", "everline": {"messageUrl": "/m?k=${TOKEN} x"}}}}`)
	if got := c.Servers[0].MessageURL; got != "/m?k=s3cret-token%20x" {
		t.Errorf("messageUrl %s", got)
	}
	all, _, err := settings.Import(config.Options{Format: clients.Cursor, Env: testEnv}, "mcp.json", []byte(`{"mcpServers": {"a": {"url": "http://h/mcp?key=${env:HASH}"}}}`))
	if err != nil || all[0].Entry[0].Value != "http://h/mcp?key=${HASH}" {
		t.Errorf("imported %+v %v", all, err)
	}
}

// TestFaultS15 has "~" where paths begin.
func TestFaultS15(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "vars"), []byte("A=b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(entry string, vars map[string]string) (*config.Config, config.Server) {
		t.Helper()
		c, err := config.Parse(filepath.Join("etc", "everline.json"), []byte(`{"mcpServers": {"a": {`+entry+`}}}`), envOf(vars))
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Servers[0]
	}
	vars := map[string]string{"HOME": home, "BIN": "~/bin"}
	for text, want := range map[string]string{"~/bin/srv": filepath.Join(home, "bin", "srv"), "${BIN}/srv": filepath.Join(home, "bin", "srv"), "~srv": "~srv", "srv~": "srv~", "./~/x": "./~/x"} {
		if _, s := get(`"command": "`+text+`"`, vars); s.Command != want || s.Err != nil {
			t.Errorf("%s became %s (%v)", text, s.Command, s.Err)
		}
	}
	_, s := get(`"command": "x", "cwd": "~", "envFile": "~/vars", "env": {"F": "${file:~/vars}"}`, vars)
	if s.Err != nil || s.Cwd != home || s.Env["A"] != "b" || s.Env["F"] != "A=b" {
		t.Errorf("%+v", s)
	}
	if _, s := get(`"command": "x", "cwd": "~/w"`, vars); s.Cwd != filepath.Join(home, "w") {
		t.Errorf("cwd %s", s.Cwd)
	}
	for _, entry := range []string{`"command": "~joe/bin/srv"`, `"command": "x", "cwd": "~joe/w"`, `"command": "x", "envFile": "~joe/v"`} {
		if _, s := get(entry, vars); s.Err == nil || s.Err.Remedy == "" {
			t.Errorf("%s: %+v", entry, s)
		}
	}
	if _, s := get(`"command": "~/x"`, nil); s.Err == nil || !strings.Contains(s.Err.Error(), "HOME") {
		t.Errorf("without HOME: %+v", s)
	}
	if c, s := get(`"command": "x", "args": ["--dir", "~/notes"]`, vars); s.Args[1] != "~/notes" || len(c.Warnings) != 1 {
		t.Errorf("args %q, warnings %v", s.Args, c.Warnings)
	}
	all, _, err := settings.Import(config.Options{Format: clients.Cursor, Env: envOf(vars)}, "/p/.cursor/mcp.json", []byte(`{"mcpServers": {"a": {"command": "~/bin/srv", "cwd": "~/w", "envFile": "~/v", "env": {"A": "x"}}}}`))
	if text, _ := json.Marshal(all); err != nil || !strings.Contains(string(text), `"~/bin/srv"`) || !strings.Contains(string(text), `"~/w"`) || !strings.Contains(string(text), `"~/v"`) {
		t.Errorf("imported %s %v", text, err)
	}
	c, err := config.Options{References: config.AsWritten}.Parse("/p/everline.json", []byte(`{"mcpServers": {"a": {"command": "~/bin/srv", "cwd": "~/w"}}}`))
	if err != nil || c.Servers[0].Command != "~/bin/srv" || c.Servers[0].Cwd != "~/w" {
		t.Errorf("written: %+v %v", c, err)
	}
}

// TestFaultU8 has a file below the user's folder in the words of opencode, and
// of others that read files.
func TestFaultU8(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "x"), []byte("tok\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, text := range map[string]string{
		clients.Opencode: `{"mcp": {"a": {"type": "local", "command": ["x"], "environment": {"K": "{file:~/x}"}}}}`,
		clients.Windsurf: `{"mcpServers": {"a": {"command": "x", "env": {"K": "${file:~/x}"}}}}`,
		clients.Everline: `{"mcpServers": {"a": {"command": "x", "env": {"K": "${file:~/x}"}}}}`,
	} {
		c, err := parseAs(format, filepath.Join(t.TempDir(), "f.json"), []byte(text), envOf(map[string]string{"HOME": home}))
		if err != nil || c.Servers[0].Env["K"] != "tok" {
			t.Errorf("%s: %v %v", format, c.Servers, err)
			continue
		}
		if side := c.SideFiles(); len(side) != 1 || side[0].Named != filepath.Join(home, "x") {
			t.Errorf("%s: %v", format, side)
		}
		all, _, err := settings.Import(config.Options{Format: format, Env: envOf(map[string]string{"HOME": home})}, "/p/f.json", []byte(text))
		if out, _ := json.Marshal(all); err != nil || !strings.Contains(string(out), "${file:~/x}") {
			t.Errorf("%s imported: %s %v", format, out, err)
		}
	}
}

// TestFaultU17 has settings that cannot work, whatever runs.
func TestFaultU17(t *testing.T) {
	for _, listen := range []string{"127.0.0.1", "localhost", "", ":", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:http", "http://127.0.0.1:7433", "[::1]", "a b:1"} {
		_, err := config.Parse("everline.json", []byte(`{"everline": {"listen": "`+listen+`"}, "mcpServers": {}}`), nil)
		if f := fault.From("", err); err == nil || f.Kind != fault.Invalid || f.Remedy == "" || !strings.Contains(f.Error(), "everline.json:1:") || !strings.Contains(f.Error(), "listen") {
			t.Errorf("listen %q: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:7433", "127.0.0.1:0", ":7433", "[::1]:7433", "localhost:1"} {
		if _, err := config.Parse("everline.json", []byte(`{"everline": {"listen": "`+listen+`"}, "mcpServers": {}}`), nil); err != nil {
			t.Errorf("listen %q: %v", listen, err)
		}
	}
	for entry, word := range map[string]string{
		`"url": "http://h:99999/mcp"`:                            "99999",
		`"url": "https://h:0/mcp"`:                               "port",
		`"url": "http://:8080/mcp"`:                              "host",
		`"command": "npx -y pkg"`:                                `"args"`,
		`"command": "npx -y pkg", "args": ["x"]`:                 `"args"`,
		`"command": "node server.js"`:                            `"args"`,
		`"command": "docker run -i --rm img"`:                    `"args"`,
		`"type": "http", "url": "http://h:65536"`:                "65536",
		`"url": "http://[::1]:70000/"`:                           "70000",
		`"command": "https://h/mcp"`:                             `URL`,
		`"command": "uvx  pkg", "env": {"A": "b"}`:               `"args"`,
		`"command": "x", "args": ["a"], "url": "http://h:99999"`: "both",
	} {
		c := mustParse(t, `{"mcpServers": {"a": {`+entry+`}, "good": {"command": "x"}}}`)
		if s := c.Servers[0]; s.Err == nil || !strings.Contains(s.Err.Error(), word) || s.Err.Remedy == "" || c.Servers[1].Err != nil {
			t.Errorf("%s: %v", entry, s.Err)
		}
	}
	for entry, warnings := range map[string]int{`"command": "My Server"`: 1, `"command": "/opt/My Server/bin"`: 0, `"command": "/usr/bin/npx -y pkg"`: 1, `"url": "http://h:65535/"`: 0, `"url": "http://h:/"`: 0} {
		if c := mustParse(t, `{"mcpServers": {"a": {`+entry+`}}}`); c.Servers[0].Err != nil || len(c.Warnings) != warnings {
			t.Errorf("%s: %v %v", entry, c.Servers[0].Err, c.Warnings)
		}
	}
}

// TLS of a server: its files are seen from the file's folder, half of a pair or a
// URL without TLS is that server's error.
func TestTLSOfAServer(t *testing.T) {
	read := func(entry string) config.Server {
		t.Helper()
		c, err := config.Options{Env: func(string) (string, bool) { return "", false }}.Parse("/etc/mcp/everline.json", []byte(`{"mcpServers": {"a": {`+entry+`}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return c.Servers[0]
	}
	s := read(`"url": "https://a.example/mcp", "everline": {"tls": {"caFile": "ca.pem", "certFile": "/k/c.pem", "keyFile": "k.pem", "serverName": "b"}}`)
	if want := (config.ServerTLS{CAFile: "/etc/mcp/ca.pem", CertFile: "/k/c.pem", KeyFile: "/etc/mcp/k.pem", ServerName: "b"}); s.Err != nil || s.TLS != want {
		t.Errorf("%v, %+v", s.Err, s.TLS)
	}
	if plain := read(`"url": "https://a.example/mcp"`); plain.Revision() == s.Revision() {
		t.Error("a generation goes on with the old files")
	}
	for entry, want := range map[string]string{
		`"url": "http://a.example/mcp", "everline": {"tls": {"caFile": "c"}}`:    `"tls" means nothing to a URL of http`,
		`"url": "unix:///run/s#/mcp", "everline": {"tls": {"serverName": "c"}}`:  `"tls" means nothing to a URL of unix`,
		`"url": "https://a.example/mcp", "everline": {"tls": {"certFile": "c"}}`: "a certificate without its key",
	} {
		if s := read(entry); s.Err == nil || !strings.Contains(s.Err.Error(), want) || s.Err.Remedy == "" {
			t.Errorf("%s: %v", entry, s.Err)
		}
	}
}
