package config_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/conf/settings"
)

// TestFaultV13 has secrets in every place of an entry, and looks for them in
// what is shown of it and in texts that repeat them in some form.
func TestFaultV13(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("joe:B4sic/pw+d"))
	for name, c := range map[string]struct {
		entry   string
		secrets []string
		texts   []string // that must be left without any
	}{
		"query":            {`"url": "https://h/mcp?profile=tinypr&key=q+1&region=eu"`, []string{"tinypr", "q+1", "q 1", "region=eu"}, []string{`Get "https://h/mcp?profile=tinypr&key=q+1&region=eu": EOF`}},
		"socket":           {`"url": "unix:///run/s.sock#/mcp?token=tok-123456"`, []string{"tok-123456"}, nil},
		"userinfo":         {`"url": "https://joe:B4sic%2Fpw%2Bd@h/mcp"`, []string{"B4sic/pw+d", "B4sic%2Fpw%2Bd", basic}, []string{"Authorization: Basic " + basic}},
		"basic":            {`"url": "https://h/", "headers": {"Authorization": "Basic ` + basic + `"}`, []string{basic, "B4sic/pw+d", "joe:B4sic/pw+d"}, []string{"user joe, password B4sic/pw+d"}},
		"path":             {`"url": "https://h/api/s/Zk3xT0pQw9vLm2Nb7RcYd4Ef/mcp"`, []string{"Zk3xT0pQw9vLm2Nb7RcYd4Ef"}, []string{`Post "https://h/api/s/Zk3xT0pQw9vLm2Nb7RcYd4Ef/mcp": EOF`}},
		"uuid":             {`"url": "https://h/@a/0f8fad5b-d9cb-469f-a165-70867728950e"`, []string{"0f8fad5b-d9cb-469f-a165-70867728950e"}, nil},
		"words":            {`"command": "x", "env": {"DB_PASS": "pw9", "MY_PIN": "8421"}`, []string{"pw9", "8421"}, []string{"pw9 is wrong", "PIN 8421", "[pw9, 8421]"}},
		"short header":     {`"url": "https://h/", "headers": {"X-Api-Key": "k3y"}`, []string{"k3y"}, []string{"bad key k3y.", `"k3y"`}},
		"dsn":              {`"command": "x", "args": ["postgres://u:p@h/db", "--dsn=mysql://root:s3cr@t/x@h:3306/db?ssl=1"]`, []string{":p@", "s3cr@t", "s3cr"}, []string{"cannot connect to postgres://u:p@h/db", "mysql://root:s3cr@t/x@h:3306/db"}},
		"dsn in env":       {`"command": "x", "env": {"DATABASE_URL": "postgres://u:longpassw0rd@h/db", "GO": "root:tcppassw0rd@tcp(h:3306)/db"}`, []string{"longpassw0rd", "tcppassw0rd"}, []string{"password longpassw0rd refused for u", "using password tcppassw0rd"}},
		"libpq":            {`"command": "x", "args": ["host=h user=u password=libpqpw dbname=d", "Server=h;Pwd='ado pw';Database=d"]`, []string{"libpqpw", "ado pw"}, []string{"login with libpqpw failed"}},
		"flags":            {`"command": "x", "args": ["--api-key", "abc123xyz", "--token=t0ken-9", "-p", "80", "--password", "pw1"]`, []string{"abc123xyz", "t0ken-9", "pw1"}, []string{"the key abc123xyz is wrong", "pw1 is wrong"}},
		"docker":           {`"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN=ghp_0123456789abcdef", "img", "--header", "Authorization: Bearer hdr-secret-1"]`, []string{"ghp_0123456789abcdef", "hdr-secret-1"}, []string{"bad credentials hdr-secret-1"}},
		"json in env":      {`"command": "x", "env": {"HEADERS": "{\"Authorization\": \"Bearer ntn_insidejson\"}"}`, []string{"ntn_insidejson"}, []string{"token ntn_insidejson expired"}},
		"short env":        {`"command": "x", "env": {"DB_PASSWORD": "abc", "LEVEL": "info"}`, []string{"abc"}, []string{"password is abc", "abc: wrong", "(abc)"}},
		"escaped":          {`"command": "x", "env": {"API_KEY": "a/b c\"d<é&f"}`, []string{`a/b c"d<é&f`}, nil},
		"several lines":    {`"command": "x", "env": {"PEM": "-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----"}`, []string{"MIIEvQIBADANBg"}, []string{"at MIIEvQIBADANBg"}},
		"from a variable":  {`"command": "x", "args": ["${TOKEN}"]`, []string{"s3cret-token"}, []string{"s3cret-token"}},
		"encoded variable": {`"url": "http://h/${TOKEN}/?a=b c${TOKEN}"`, []string{"s3cret-token"}, nil},
	} {
		cfg := mustParse(t, `{"mcpServers": {"a": {`+c.entry+`}}}`)
		s := cfg.Servers[0]
		if s.Err != nil {
			t.Errorf("%s: %v", name, s.Err)
		}
		shown := string(settings.Effective(cfg, true)) + fmt.Sprint(s.Redacted())
		for _, secret := range c.secrets {
			if len(secret) > 3 && strings.Contains(shown, secret) || strings.Contains(strings.Join(s.Redacted().Args, " "), secret) {
				t.Errorf("%s: %q is shown in\n%s", name, secret, shown)
			}
		}
		for _, hide := range []func(string) string{cfg.Hider(), s.Hider()} {
			for _, text := range c.texts {
				for _, secret := range c.secrets {
					if got := hide(text); strings.Contains(got, secret) || !strings.Contains(got, redact.Hidden) {
						t.Errorf("%s: %q is told as %q", name, text, got)
					}
				}
			}
			for _, secret := range c.secrets {
				if len(secret) < 6 || name == "query" || name == "dsn" {
					continue
				}
				marshalled, _ := json.Marshal(secret)
				for form, text := range map[string]string{
					"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": regexp.MustCompile(`%[0-9A-F]{2}`).ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower), "json": string(marshalled), "go": strconv.Quote(secret),
					"base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64url": base64.URLEncoding.EncodeToString([]byte(secret)), "behind": base64.StdEncoding.EncodeToString([]byte("someone:" + secret)),
				} {
					inCode := form == "behind" || strings.HasPrefix(form, "base64")
					if inCode && (len(secret) < 10 || secret == basic || name == "several lines") {
						continue
					}
					if got := hide("the text " + text + " of it"); !strings.Contains(got, redact.Hidden) {
						t.Errorf("%s: the %s form of %q is told as %q", name, form, secret, got)
					}
				}
			}
		}
	}
}

// TestFaultV13Sparing has texts in which nothing is secret.
func TestFaultV13Sparing(t *testing.T) {
	hide := mustParse(t, `{"mcpServers": {"a": {"command": "x", "args": ["--max-tokens", "100", "--token-file", "/etc/tok", "npx:@scope/pkg@1.2"],
		"env": {"DEBUG": "1", "DB_PASSWORD": "abc", "USE_TOKEN": "true"}}}}`).Hider()
	for _, text := range []string{
		"after 100 ms", "/etc/tok is missing", "1 call", "abcde is no abc_d", "it is true", "https://github.com/@scope/pkg@1.2", "see http://h/page?x=1&y=2", "https://h/a-long-name-of-a-server-2025/mcp", "bypass the passage", "npm error https://registry/@a/b", "file:///tmp/a@b:c",
	} {
		if got := hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	s := mustParse(t, `{"mcpServers": {"a": {"command": "x", "args": ["--max-tokens", "100", "--key", "abc", "k=v"]}}}`).Servers[0]
	if got := s.Redacted().Args; !slices.Equal(got, []string{"--max-tokens", "100", "--key", redact.Hidden, "k=v"}) {
		t.Errorf("%q", got)
	}
}

// TestFaultU10 imports entries with and without a secret in plain text.
func TestFaultU10(t *testing.T) {
	for entry, want := range map[string]string{
		`"command": "x", "env": {"GITHUB_TOKEN": "ghp_secret", "LEVEL": "debug"}`:                    "env GITHUB_TOKEN|${GITHUB_TOKEN}",
		`"command": "x", "env": {"OPAQUE": "sk-0123456789abcdef"}`:                                   "env OPAQUE|${OPAQUE}",
		`"command": "x", "env": {"DATABASE_URL": "postgres://u:secret@h/d"}`:                         "env DATABASE_URL",
		`"url": "https://h/mcp", "headers": {"Authorization": "Bearer secret"}`:                      "headers Authorization|${GIT_HUB_TOKEN}",
		`"url": "https://h/mcp?api_key=secret"`:                                                      "url",
		`"command": "x", "args": ["--api-key", "secret"]`:                                            "args[1]",
		`"command": "x", "args": ["-v", "postgres://u:secret@h/d"]`:                                  "args[1]",
		`"command": "x", "env": {"GITHUB_TOKEN": "${env:TOKEN}", "A": "b"}`:                          "",
		`"url": "https://h/mcp?key=${env:TOKEN}", "headers": {"Authorization": "Bearer ${env:TOK}"}`: "",
		`"command": "x", "args": ["--api-key", "${env:TOKEN}", "--max-tokens", "100"]`:               "",
		`"command": "npx", "args": ["-y", "@scope/pkg"], "env": {"NODE_ENV": "production"}`:          "",
	} {
		text := []byte(`{"mcpServers": {"git.hub": {` + entry + `}}}`)
		all, warnings, err := settings.Import(config.Options{Format: clients.Cursor, Env: testEnv}, "/p/mcp.json", text)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v %v %v", entry, all, warnings, err)
		}
		if want == "" {
			if len(warnings) != 0 {
				t.Errorf("%s: %v", entry, warnings)
			}
			continue
		}
		if len(warnings) != 1 || warnings[0].Server != "git.hub" || warnings[0].Line != 1 || !strings.Contains(warnings[0].Text, "${file:") || strings.Contains(warnings[0].Text, "secret@") || strings.Contains(warnings[0].Text, "ghp_") {
			t.Errorf("%s: %v", entry, warnings)
			continue
		}
		for word := range strings.SplitSeq(want, "|") {
			if !strings.Contains(warnings[0].Text, word) {
				t.Errorf("%s: %q does not name %s", entry, warnings[0].Text, word)
			}
		}
	}
	cfg, err := config.Options{References: config.AsWritten}.Parse("everline.json", []byte(`{"mcpServers": {"a": {"url": "http://h/?key=${KEY}"}, "b": {"command": "x", "env": {"API_KEY": "abc"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if w, ok := cfg.Servers[0].PlainWarning("it is told"); ok {
		t.Errorf("%v", w)
	}
	if _, ok := cfg.Servers[1].PlainWarning("it is told"); !ok {
		t.Error("nothing is said of a secret in plain text")
	}
}

// TestFaultV15 finds the arguments that give a secret away, wherever it came from.
func TestFaultV15(t *testing.T) {
	for args, want := range map[string]string{
		`"--api-key", "abc"`:                    "args[1]",
		`"--token=${TOKEN}"`:                    "args[0]",
		`"-H", "Authorization: Bearer abcdefg"`: "args[1]",
		`"postgres://u:p@h/db"`:                 "args[0]",
		`"-e", "API_KEY=abc", "img"`:            "args[1]",
		`"ghp_0123456789abcdef"`:                "args[0]",
		`"-y", "pkg", "/tmp", "--port", "80"`:   "",
		`"--token-file", "/run/secrets/tok"`:    "",
		`"-e", "API_KEY", "img"`:                "",
	} {
		s := mustParse(t, `{"mcpServers": {"a": {"command": "x", "args": [`+args+`]}}}`).Servers[0]
		if got := strings.Join(s.ExposedArgs(), ","); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
