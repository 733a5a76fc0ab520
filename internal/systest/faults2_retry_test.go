package systest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// patient has retries come so late that only what is watched, or a call, can
// bring a server back within a test.
func patient(server map[string]any, more map[string]any) map[string]any {
	retry := map[string]any{"firstDelay": "1h", "maxDelay": "1h", "slowProbe": "1h"}
	for k, v := range more {
		retry[k] = v
	}
	return with(server, map[string]any{"retry": retry})
}

// seenAs waits until a server is shown in a state.
func seenAs(t *testing.T, hub *everline.Hub, server string, state event.State) everline.Status {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); ; <-tick.C {
		st, _ := hub.Server(server)
		if st.State == state {
			return st
		}
		if time.Now().After(end) {
			t.Fatalf("%s is %s and not %s: %+v", server, st.State, state, st)
		}
	}
}

// missed has a call notice that a server is away. Its next attempt is due too
// late, so the call is refused at once.
func missed(t *testing.T, hub *everline.Hub, server string) {
	t.Helper()
	_, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Server: server, Name: "echo", Params: []byte(`{"name":"echo","arguments":{}}`)})
	if f := fault.From("", err); f == nil || f.Kind != fault.Unavailable || f.RetryAfter < 20*time.Minute {
		t.Errorf("%v", err)
	}
	seenAs(t, hub, server, "disconnected")
}

// S21: a port that refused is back before its next attempt is due. What is used
// is the port alone: the first request that the server gets is a handshake.
func TestFaultS21ClosedPort(t *testing.T) {
	for name, path := range map[string]string{"plain": "/mcp", "a key in the URL": "/mcp?key=s3cret-value-of-a-key"} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			var requests, handshakes atomic.Int64
			f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				s.Handler().ServeHTTP(w, r)
			}))
			web := f.web()
			web["url"] = strings.Replace(web["url"].(string), "/mcp", path, 1)
			hub := open(t, servers{"a": patient(web, nil)}, everline.Options{})
			st := ready(t, hub, "a", 0)
			handshakes.Store(int64(s.Count("initialize")))
			f.shut()
			s.DropSessions()
			missed(t, hub, "a")
			before := requests.Load()
			f.open()
			ready(t, hub, "a", st.Generation)
			if n := s.Count("initialize") - int(handshakes.Load()); n != 1 {
				t.Errorf("%d handshakes for one generation, %d requests", n, requests.Load()-before)
			}
			mustCall(t, hub, "work", `{}`)
		})
	}
}

// S21: many servers behind one port come back together.
func TestFaultS21ManyBehindOnePort(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, s.Handler())
	many := servers{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		many[name] = patient(f.web(), nil)
	}
	hub := open(t, many, everline.Options{})
	for name := range many {
		ready(t, hub, name, 0)
	}
	f.shut()
	s.DropSessions()
	for name := range many {
		missed(t, hub, name)
	}
	f.open()
	for name := range many {
		ready(t, hub, name, 1)
	}
}

// S21: with watchFor 0 nothing is looked at between attempts.
func TestFaultS21SwitchedOff(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, s.Handler())
	hub := open(t, servers{
		"a": patient(f.web(), nil), "off": patient(f.web(), map[string]any{"watchFor": 0}),
	}, everline.Options{})
	ready(t, hub, "a", 0)
	ready(t, hub, "off", 0)
	f.shut()
	s.DropSessions()
	missed(t, hub, "a")
	missed(t, hub, "off")
	f.open()
	ready(t, hub, "a", 1)
	if st, _ := hub.Server("off"); st.State != "disconnected" || st.Next.IsZero() {
		t.Errorf("%+v", st)
	}
}

// program puts the test's own program, which serves as a child, at a path.
func program(t *testing.T, path string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// S18: a command that is not there, cannot be run, or ends at its start is
// repaired. It is back without a call and long before the next attempt is due, in
// the fast time and after it.
func TestFaultS18Repaired(t *testing.T) {
	for name, c := range map[string]struct {
		broken string // what stands in its place; "" is nothing
		retry  map[string]any
		folder bool // its folder is what is missing
	}{
		"missing":               {"", nil, false},
		"its folder is missing": {"", nil, true},
		"ends at its start":     {"#!/bin/sh\nexit 1\n", nil, false},
		"is no program":         {"\x00\x01garbage", nil, false},
		"after the fast time":   {"#!/bin/sh\nexit 1\n", map[string]any{"fastFor": "1ms"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "srv")
			if runtime.GOOS == "windows" {
				path += ".exe"
			}
			if c.broken != "" {
				if err := os.WriteFile(path, []byte(c.broken), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			server := child(mcptest.Config{})
			server["command"] = path
			if c.folder {
				program(t, path)
				server["cwd"] = filepath.Join(filepath.Dir(path), "work")
			}
			hub := open(t, servers{"a": patient(server, c.retry)}, everline.Options{})
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			st, _ := hub.Server("a")
			for end := time.Now().Add(soon); st.Next.IsZero() && time.Now().Before(end); st, _ = hub.Server("a") {
				<-tick.C
			}
			if time.Until(st.Next) < 20*time.Minute {
				t.Fatalf("%+v", st)
			}
			if c.folder {
				if err := os.Mkdir(filepath.Join(filepath.Dir(path), "work"), 0o755); err != nil {
					t.Fatal(err)
				}
			} else {
				program(t, path)
			}
			ready(t, hub, "a", st.Generation)
		})
	}
}

// S18: in the slow phase a call brings an attempt forward, but not each call.
func TestFaultS18Call(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var broken atomic.Bool
	var starts atomic.Int64
	broken.Store(true)
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			starts.Add(1)
			http.Error(w, "not yet", http.StatusBadGateway)
			return
		}
		s.Handler().ServeHTTP(w, r)
	}))
	hub := open(t, servers{"a": patient(f.web(), map[string]any{"fastFor": "1ms", "firstDelay": "1ms", "wakeEvery": "300ms"})}, everline.Options{})
	seenAs(t, hub, "a", "failed")
	ask := func() *fault.Fault {
		_, err := hub.Call(within(t), &everline.Call{Method: "tools/call", Server: "a", Name: "work", Params: []byte(`{"name":"work"}`)})
		return fault.From("", err)
	}
	if f := ask(); f == nil || f.Outcome != fault.NotSent {
		t.Fatalf("%v", f)
	}
	before := starts.Load()
	var many sync.WaitGroup
	for range 50 {
		many.Go(func() {
			if f := ask(); f == nil || f.RetryAfter <= 0 || f.RetryAfter > 300*time.Millisecond {
				t.Errorf("%v", f)
			}
		})
	}
	many.Wait()
	perAttempt := before // of the handshakes so far, at most all of them were one attempt's
	if n := starts.Load() - before; n > 2*perAttempt {
		t.Errorf("fifty calls cost %d requests", n)
	}
	broken.Store(false)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); ask() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("calls do not bring it back")
		}
	}
}

// W3: the key of the earlier budget is named with the one that counts now, and
// nothing else of the file is lost.
func TestFaultW3OldKey(t *testing.T) {
	cfg, err := config.Parse("everline.json", []byte(`{"mcpServers":{"a":{"command":"x","everline":{"retry":{"fastTries":3,"firstDelay":"2s"}}},"u":{"url":"http://127.0.0.1:9/mcp"}}}`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].Text, `"fastFor"`) || cfg.Warnings[0].Server != "a" {
		t.Errorf("%+v", cfg.Warnings)
	}
	a, _ := cfg.Server("a")
	u, _ := cfg.Server("u")
	if a.Retry.FirstDelay != 2*time.Second || a.Retry.FastFor != 10*time.Minute || a.Retry.MaxDelay != 30*time.Second || u.Retry.MaxDelay != 10*time.Second {
		t.Errorf("%+v, %+v", a.Retry, u.Retry)
	}
}

// W3: a server over HTTP goes away, and nobody calls it. That is noticed by the
// stream that it had open, and it is back as soon as its port is.
func TestFaultW3NobodyCalls(t *testing.T) {
	for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: era})
			f := serveAt(t, s.Handler())
			hub := open(t, servers{"a": patient(f.web(), nil)}, everline.Options{})
			st := ready(t, hub, "a", 0)
			s.SetTools(safeTool)
			again := time.NewTicker(20 * time.Millisecond)
			defer again.Stop()
			for end := time.Now().Add(soon); !slices.Equal(toolNames(hub), []string{"safe"}); <-again.C {
				s.Notify("notifications/tools/list_changed", "") // heard once the stream is open
				if time.Now().After(end) {
					t.Fatal("it has no stream open")
				}
			}
			f.shut()
			s.DropSessions()
			away := seenAs(t, hub, "a", "disconnected")
			if away.Cause == nil || !fault.Refused(away.Cause) {
				t.Errorf("cause %v", away.Cause)
			}
			f.open()
			ready(t, hub, "a", st.Generation)
		})
	}
}
