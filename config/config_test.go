package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("everline.json", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReloadMeaning is report O1: a reload restarts what changed in meaning,
// and nothing that was only written in another way.
func TestReloadMeaning(t *testing.T) {
	old := mustParse(t, `{"mcpServers": {
		"a": {"command": "x", "args": [], "env": {"K": "1", "L": "2"}},
		"b": {"url": "http://h/", "headers": {"H": "1"}},
		"c": {"command": "z"}, "d": {"command": "d"}}}`)
	next := mustParse(t, `{ // reordered, with comments and defaults written out
		"mcpServers": {
		"d": {"command": "d", "everline": {"callTimeout": "1m"}},
		"b": {"url": "http://h/", "headers": {"H": "2"}},
		"e": {"command": "new"},
		"a": {"env": {"L": "2", "K": "1"}, "command": "x", "everline": {"startupTimeout": 60, "lazy": false}}}}`)
	got := config.Diff(old, next)
	want := config.Plan{Add: []string{"e"}, Remove: []string{"c"}, Change: []string{"d", "b"}, Keep: []string{"a"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Diff = %+v, want %+v", got, want)
	}
	if same := config.Diff(old, old); len(same.Keep) != 4 || len(same.Add)+len(same.Remove)+len(same.Change) != 0 {
		t.Errorf("Diff of the same config = %+v", same)
	}
	revision := func(c *config.Config, name string) uint64 {
		s, ok := c.Server(name)
		if !ok {
			t.Fatalf("no server %q", name)
		}
		return s.Revision()
	}
	if revision(old, "d") != revision(next, "d") {
		t.Error("a setting that applies without a restart changed the revision")
	}
	if revision(old, "b") == revision(next, "b") {
		t.Error("another header left the revision as it was")
	}
}

// TestRevision changes each field of a server and expects another revision
// from those that a running life depends on, and from no other.
func TestRevision(t *testing.T) {
	base := config.NewServer("a")
	life := map[string]func(*config.Server){
		"transport": func(s *config.Server) { s.Transport = "http" },
		"command":   func(s *config.Server) { s.Command = "x" },
		"args":      func(s *config.Server) { s.Args = []string{""} },
		"env":       func(s *config.Server) { s.Env = map[string]string{"a": ""} },
		"cwd":       func(s *config.Server) { s.Cwd = "x" },
		"url":       func(s *config.Server) { s.URL = "x" },
		"headers":   func(s *config.Server) { s.Headers = map[string]string{"a": ""} },
		"err":       func(s *config.Server) { s.Err = fault.New(fault.Invalid, "", "x") },
	}
	seen := map[uint64]string{base.Revision(): "the base"}
	for name, change := range life {
		s := base
		change(&s)
		if other, twice := seen[s.Revision()]; twice {
			t.Errorf("%s has the revision of %s", name, other)
		}
		seen[s.Revision()] = name
		if s.Equal(base) {
			t.Errorf("%s: Equal", name)
		}
	}
	setting := base
	setting.Lazy, setting.CallTimeout, setting.Origin.Line = true, time.Second, 7
	if setting.Revision() != base.Revision() {
		t.Error("a setting changed the revision")
	}
	moved := base
	moved.Origin, moved.Args = config.Origin{"f", 9}, []string{}
	if !moved.Equal(base) {
		t.Error("a server that was only moved is not equal")
	}
}

func TestIdentity(t *testing.T) {
	a := config.NewServer("a")
	b := a
	b.Env, b.CallTimeout = map[string]string{"K": "1"}, 1
	c := a
	c.Args = []string{"x"}
	if a.Identity() != b.Identity() || a.Identity() == c.Identity() || len(a.Identity()) != 32 {
		t.Error(a.Identity(), b.Identity(), c.Identity())
	}
}

// TestSecretsAreHidden looks for every secret of a server in what Redacted
// leaves.
func TestSecretsAreHidden(t *testing.T) {
	c := mustParse(t, `{"mcpServers": {
		"a": {"command": "x", "args": ["--key=${TOKEN}"], "env": {"K": "hidden-value", "N": 1}},
		"b": {"url": "https://user:pass-word@h/${TOKEN}", "headers": {"Authorization": "Bearer abcdefgh"}}}}`)
	for _, s := range c.Redacted().Servers {
		for _, v := range append(append([]string{s.Command, s.URL}, s.Args...), s.Env["K"], s.Headers["Authorization"]) {
			for _, secret := range []string{"s3cret-token", "hidden-value", "pass-word", "abcdefgh"} {
				if strings.Contains(v, secret) {
					t.Errorf("%q is shown in %q", secret, v)
				}
			}
		}
	}
	if got, want := c.Servers[0].Secrets(), []string{"hidden-value", "s3cret-token"}; !slices.Equal(got, want) {
		t.Errorf("Secrets = %q, want %q", got, want)
	}
	if got, want := c.Servers[1].Secrets(), []string{"Bearer abcdefgh", "s3cret-token", "pass-word", "abcdefgh"}; !slices.Equal(got, want) {
		t.Errorf("Secrets = %q, want %q", got, want)
	}
	if c.Servers[0].Args[0] != "--key=s3cret-token" {
		t.Error("Redacted changed the config itself")
	}
	if got := c.Redacted().Servers[1].URL; got != "https://user:***@h/***" {
		t.Errorf("redacted URL %q", got)
	}
}

func TestLoadFirstWins(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.json"), filepath.Join(dir, "two.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one, `{"everline": {"listen": "127.0.0.1:1"}, "mcpServers": {"a": {"command": "first"}}}`)
	write(two, "everline: {listen: '127.0.0.1:2', maxName: 32}\nmcpServers:\n  a: {command: second}\n  b: {command: b}\n")
	c, err := config.Load(one, two)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:1" || c.MaxName != 32 || len(c.Servers) != 2 || c.Servers[0].Command != "first" {
		t.Errorf("config %+v", c)
	}
	if len(c.Warnings) != 2 || c.Warnings[0].Line != 1 || c.Warnings[1].Server != "" || c.Warnings[1].File != two || c.Warnings[1].Line != 3 {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.json"))
	if err == nil || fault.KindOf(err) != fault.Invalid || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
	if _, err := config.Load(); err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("no paths: err = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/golden/*")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && filepath.Ext(file) != ".golden" {
			f.Add(strings.TrimPrefix(filepath.Ext(file), "."), data)
		}
	}
	f.Fuzz(func(t *testing.T, ext string, data []byte) {
		if ext != "json" && ext != "yaml" && ext != "toml" {
			return
		}
		o := config.Options{Env: testEnv}.WithSideFiles(func(string, string) (string, error) { return "", errors.New("no files here") })
		cfg, err := o.Parse("f."+ext, data)
		if f := fault.From("", err); f != nil {
			if f.Kind != fault.Invalid || f.Remedy == "" {
				t.Fatalf("%+v", f)
			}
			return
		}
		for _, s := range cfg.Servers {
			if s.Name == "" && s.Err == nil || s.Origin.Line < 1 || !s.Equal(s) || s.Revision() != s.Revision() { //nolint:staticcheck // the same each time
				t.Fatalf("%+v", s)
			}
			if s.Err == nil && (s.Command == "") == (s.URL == "") {
				t.Fatalf("usable, but how? %+v", s)
			}
		}
		if p := config.Diff(cfg, cfg); len(p.Keep) != len(cfg.Servers) {
			t.Fatalf("%+v", p)
		}
	})
}
