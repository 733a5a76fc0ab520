package systest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

// kindIs wants a fault of a kind, not sent, whose text has all of parts.
func kindIs(t *testing.T, what string, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	f := (*fault.Fault)(nil)
	if !errors.As(err, &f) || f.Kind != kind {
		t.Errorf("%s: %v, want kind %s", what, err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(f.Error(), part) {
			t.Errorf("%s: %q lacks %q", what, f, part)
		}
	}
}

// W13: what is no JSON object is refused at once, and goes to no server.
func TestFaultW13BrokenParamsAreInvalid(t *testing.T) {
	srv := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, srv))}, everline.Options{})
	ready(t, hub, "a", 0)
	for _, bad := range []string{
		"", `{"name":"echo"`, `{"name":}`, `{"name":"echo"} x`, `{"name":"echo"}{}`, `[]`, `"text"`, `null`, `1`, ` `, "{\"name\":\"\xff\"}", "{\"name\":\"a\nb\"}",
	} {
		call := &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(bad)}
		_, err := hub.Call(within(t), call)
		kindIs(t, "params "+bad, err, fault.Invalid, "params")
		_, err = gateway.ViewOf(hub, "").Do(within(t), call)
		kindIs(t, "params of a view "+bad, err, fault.Invalid, "params")
		_, err = hub.Call(within(t), &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`), Capabilities: []byte(bad)})
		kindIs(t, "capabilities "+bad, err, fault.Invalid, "capabilities")
		_, err = hub.Call(within(t), &everline.Call{Method: "x/y", Server: "nowhere", Params: []byte(bad)})
		kindIs(t, "params for a server that is not there "+bad, err, fault.Invalid)
	}
	_, err := hub.Call(within(t), &everline.Call{Name: "echo"})
	kindIs(t, "no method", err, fault.Invalid, "method")
	if n := srv.Count("tools/call"); n != 0 {
		t.Errorf("the server got %d calls", n)
	}
	for _, good := range []string{`{"name":"echo"}`, " {\n\"name\":\"echo\"}\n"} {
		if _, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(good)}); err != nil {
			t.Errorf("params %q: %v", good, err)
		}
	}
}

// W14: a state folder has one hub, over all processes and within one.
func TestFaultW14AStateFolderHasOneHub(t *testing.T) {
	dir := t.TempDir()
	first, err := everline.Open(within(t), config.New(), everline.Options{StateDir: dir, Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(context.Background())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, same := range []string{dir, dir + "/.", link} {
		_, err := everline.Open(within(t), config.New(), everline.Options{StateDir: same})
		kindIs(t, same, err, fault.Conflict, "first", strconv.Itoa(os.Getpid()))
	}
	for _, other := range []string{"", filepath.Join(dir, "deeper"), t.TempDir()} {
		hub, err := everline.Open(within(t), config.New(), everline.Options{StateDir: other})
		if err != nil {
			t.Fatalf("%q: %v", other, err)
		}
		if err := hub.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := first.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
	again, err := everline.Open(within(t), config.New(), everline.Options{StateDir: dir})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	_ = first.Close(within(t)) // a late one takes nothing away
	_, err = everline.Open(within(t), config.New(), everline.Options{StateDir: dir})
	kindIs(t, "while the next one has it", err, fault.Conflict)
	if err := again.Close(within(t)); err != nil {
		t.Error(err)
	}
}

// A folder that cannot be locked is no reason not to run; somebody hears of it.
func TestFaultW14AFolderWithoutALockIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var warned []string
	hub, err := everline.Open(within(t), config.New(), everline.Options{StateDir: filepath.Join(file, "state"), Warn: func(_, text string) { warned = append(warned, text) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Close(within(t)); err != nil {
		t.Error(err)
	}
	if len(warned) == 0 || !strings.Contains(warned[0], "not locked") {
		t.Errorf("warned of %q", warned)
	}
}

// W15: a hub that is closed says so, whatever it is asked.
func TestFaultW15AClosedHubSaysSo(t *testing.T) {
	srv := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": web(mcptest.Web(t, srv))}, everline.Options{})
	ready(t, hub, "a", 0)
	view := gateway.ViewOf(hub, "")
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	call := &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`)}
	for what, do := range map[string]func() error{
		"Call":    func() error { _, err := hub.Call(within(t), call); return err },
		"View.Do": func() error { _, err := view.Do(within(t), call); return err },
		"Call unknown": func() error {
			_, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Name: "none"})
			return err
		},
		"CallTool":  func() error { _, err := hub.CallTool(within(t), "echo", nil); return err },
		"Subscribe": func() error { _, err := hub.Subscribe(within(t), "r://1", func([]byte) {}); return err },
		"WatchTask": func() error { _, err := view.WatchTask(within(t), nil, "a", "t", func([]byte) {}); return err },
		"Enable":    func() error { return hub.Enable(within(t), "a") },
		"Disable":   func() error { return hub.Disable(within(t), "a") },
		"Reconnect": func() error { return hub.Reconnect(within(t), "a") },
		"Await":     func() error { _, err := hub.Await(within(t), "a", 0); return err },
		"Connected": func() error { return hub.Connected(within(t), "a") },
		"Ping":      func() error { return hub.Ping(within(t), "a") },
		"Apply":     func() error { _, err := hub.Apply(within(t), config.New()); return err },
		"Add":       func() error { return hub.Add(within(t), config.NewServer("b")) },
		"Remove":    func() error { return hub.Remove(within(t), "a") },
	} {
		f := (*fault.Fault)(nil)
		if err := do(); !errors.As(err, &f) || f.Kind != fault.Closed {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// W15: what a program puts together is checked like a file, and names what is
// wrong.
func TestFaultW15AConfigFromCodeIsChecked(t *testing.T) {
	server := func(name string, change func(*config.Server)) config.Server {
		s := config.NewServer(name)
		s.Command, s.Disabled = "true", true
		if change != nil {
			change(&s)
		}
		return s
	}
	group := func(names ...string) (all []config.Group) {
		for _, n := range names {
			all = append(all, config.Group{Name: n})
		}
		return all
	}
	for what, c := range map[string]struct {
		change func(*config.Config)
		says   []string
	}{
		"two of one name": {func(c *config.Config) { c.Servers = append(c.Servers, server("a", nil)) }, []string{`"a"`}},
		"no name":         {func(c *config.Config) { c.Servers = append(c.Servers, server("", nil)) }, []string{"server 2", "name"}},
		"Transport":       {func(c *config.Config) { c.Servers[0].Transport = "stdioo" }, []string{`"stdioo"`, "stdio, http, sse, auto"}},
		"Isolation":       {func(c *config.Config) { c.Servers[0].Isolation = "sesion" }, []string{`"sesion"`, "shared, session"}},
		"Restart":         {func(c *config.Config) { c.Servers[0].Retry.Restart = "Always" }, []string{`"Always"`, "always, on-failure, never"}},
		"Replay":          {func(c *config.Config) { c.Servers[0].Replay = 9 }, []string{"9", "ReplaySafe"}},
		"a tool's Replay": {func(c *config.Config) { c.Servers[0].Tools.Replay = map[string]config.Replay{"x": 9, "y": 0} }, []string{`"x"`, "9"}},
		"Outage":          {func(c *config.Config) { c.Outage = "hidden" }, []string{`"hidden"`, "keep, hide"}},
		"Pins":            {func(c *config.Config) { c.Pins = "on" }, []string{`"on"`, "off, warn, enforce"}},
		"Expose":          {func(c *config.Config) { c.Expose = "find" }, []string{`"find"`, "all, search"}},
		"a group's":       {func(c *config.Config) { c.Groups = group("g"); c.Groups[0].Expose = "find" }, []string{`"g"`, `"find"`}},
		"two groups":      {func(c *config.Config) { c.Groups = group("g", "g") }, []string{`"g"`}},
	} {
		bad := config.New()
		bad.Servers = []config.Server{server("a", nil)}
		c.change(bad)
		hub, err := everline.Open(within(t), bad, everline.Options{})
		kindIs(t, what, err, fault.Invalid, c.says...)
		if err == nil {
			_ = hub.Close(within(t))
		}
		good := config.New()
		good.Servers = []config.Server{server("a", nil)}
		hub = open(t, servers{}, everline.Options{})
		_, err = hub.Apply(within(t), bad)
		kindIs(t, what+" applied", err, fault.Invalid, c.says...)
		if _, err := hub.Apply(within(t), good); err != nil {
			t.Errorf("%s: then a good one: %v", what, err)
		}
	}
	hub := open(t, servers{}, everline.Options{})
	kindIs(t, "added", hub.Add(within(t), server("b", func(s *config.Server) { s.Transport = "stdioo" })), fault.Invalid, `"stdioo"`)
	if err := hub.Add(within(t), config.Server{Name: "zero", Command: "true", Disabled: true}); err != nil {
		t.Errorf("zero values are the defaults: %v", err)
	}
}
