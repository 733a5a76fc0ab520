package fleet

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

const servesForms = `{"elicitation":{"form":{}}}`

// older is a client of an older revision that serves what declared says.
func older(declared string) (*Session, *guest) {
	s, g := newSession()
	s.Capabilities = func() []byte { return []byte(declared) }
	s.Older = s.Capabilities
	return s, g
}

// dual is a fleet with one server that speaks both eras, over a pipe in memory: a
// new one for each generation, as a process is.
type dual struct {
	*Fleet
	t      *testing.T
	mu     sync.Mutex
	lives  []*mcptest.Server
	alive  int
	events []event.Event
}

func newDual(t *testing.T, tools []string, change func(*config.Server)) *dual {
	return newDualAt(t, "", tools, change)
}

// newDualAt is newDual with a state folder.
func newDualAt(t *testing.T, dir string, tools []string, change func(*config.Server)) *dual {
	d := &dual{t: t}
	o := newPark().options()
	o.StateDir = dir
	o.Emit = func(e event.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}
	o.Start = d.start(tools)
	cfg := configOf("srv")
	if change != nil {
		change(&cfg.Servers[0])
	}
	d.Fleet = New(cfg, o)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	synctest.Wait()
	return d
}

// start starts a server whose tools tell the era in which they were called, and
// ask or fail as a server of the official SDK does.
func (d *dual) start(tools []string) func(context.Context, upstream.Options) (slot.Upstream, error) {
	return func(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
		srv := mcptest.New(mcptest.Config{Era: mcptest.Dual, Tools: tools})
		srv.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
			modern := strings.Contains(string(r.Params), "protocolVersion")
			switch {
			case !strings.Contains(string(r.Params), `"ask`):
			case modern && strings.Contains(string(r.Params), `"asks"`):
				r.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
			case modern:
				return &mcptest.Reply{Result: `{"isError":true,"content":[{"type":"text","text":"\"elicitation/create\" cannot be sent"}]}`}
			default:
				r.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
				srv.Await(d.t, "the answer", func() bool { return len(srv.Answers()) > 0 })
				return &mcptest.Reply{Result: `{"content":[],"era":"legacy","got":` + string(srv.Answers()[0]) + `}`}
			}
			if modern {
				return &mcptest.Reply{Result: `{"content":[],"era":"modern"}`}
			}
			return &mcptest.Reply{Result: `{"content":[],"era":"legacy"}`}
		})
		d.mu.Lock()
		d.lives = append(d.lives, srv)
		d.alive++
		d.mu.Unlock()
		o.Open = func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
			return mcptest.OpenMemory(func(ctx context.Context, in <-chan []byte, out func([]byte)) {
				defer func() {
					d.mu.Lock()
					defer d.mu.Unlock()
					d.alive--
				}()
				srv.ServeFrames(ctx, in, out)
			}, o), nil
		}
		return opened(upstream.Start(ctx, o))
	}
}

func (d *dual) processes() (started, alive int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lives), d.alive
}

func (d *dual) wanted() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if _, ok := e.(event.OlderWanted); ok {
			n++
		}
	}
	return n
}

// use calls a tool for a session, as a hub does.
func (d *dual) use(s *Session, tool string) string {
	d.t.Helper()
	sl, release, err := d.At(d.t.Context(), "srv", s)
	if err != nil {
		return err.Error()
	}
	c := &upstream.Call{Method: "tools/call", Name: tool, Params: []byte(`{"name":"` + tool + `"}`)}
	if s != nil {
		c.Client = s.Client
	}
	out, err := sl.Call(d.t.Context(), c, config.ReplaySafe)
	if release == nil && s != nil {
		d.Asked("srv", s, &out, err)
	} else if release != nil {
		release()
	}
	if err != nil {
		return err.Error()
	}
	return string(out.Raw)
}

func (d *dual) wantEra(s *Session, tool, era string) {
	d.t.Helper()
	if got := d.use(s, tool); !strings.Contains(got, `"era":"`+era+`"`) {
		d.t.Errorf("got %s, which is not of the era %s", got, era)
	}
}

func (d *dual) wantProcesses(what string, started, alive int) {
	d.t.Helper()
	synctest.Wait()
	if s, a := d.processes(); s != started || a != alive {
		d.t.Errorf("%s: %d started, %d alive; want %d, %d", what, s, a, started, alive)
	}
}

// A process is started for the other era only after the server was seen to want
// it, only for clients that need it, and none is left when the last has gone.
func TestAProcessOfTheOtherEraOnlyWhenItIsNeeded(t *testing.T) {
	for _, how := range []string{"ask", "asks"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDual(t, []string{tool(how, ""), tool("plain", "")}, nil)
			ann, _ := older(servesForms)
			bob, _ := older(servesForms)
			mute, _ := newSession()
			mute.Older = func() []byte { return nil } // it serves nothing
			modern, _ := newSession()
			for _, s := range []*Session{nil, mute, modern, ann, bob} {
				d.wantEra(s, "plain", "modern")
			}
			d.wantEra(nil, "plain", "modern")
			d.use(mute, how)
			d.wantProcesses("nobody has needed it", 1, 1)
			if how == "ask" { // which only its own words show, and only to whom it is for
				d.use(ann, how)
			}
			d.wantProcesses("the tool has failed for one", 1, 1)
			if n := d.wanted(); n != 1 {
				t.Errorf("%d events", n)
			}
			if got := d.use(ann, how); !strings.Contains(got, `"era":"legacy"`) || !strings.Contains(got, `"roots":[]`) {
				t.Errorf("ann's tool: %s", got)
			}
			d.wantEra(ann, "plain", "legacy")
			d.wantEra(mute, "plain", "modern")
			d.wantEra(modern, "plain", "modern")
			d.wantProcesses("ann", 2, 2)
			d.wantEra(bob, "plain", "legacy")
			d.wantProcesses("bob", 3, 3)
			ann.End()
			d.wantProcesses("ann has gone", 3, 2)
			bob.End()
			time.Sleep(time.Minute)
			d.wantProcesses("both have gone", 3, 1)
			if n := d.wanted(); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// That a server asks is found out once for ever: an everline that is killed after that, or
// whose settings change, has its tools succeed the first time.
func TestWhatAServerAsksIsRemembered(t *testing.T) {
	dir, tools := t.TempDir(), []string{tool("ask", ""), tool("plain", "")}
	synctest.Test(t, func(t *testing.T) {
		d := newDualAt(t, dir, tools, nil)
		ann, _ := older(servesForms)
		if got := d.use(ann, "ask"); !strings.Contains(got, "cannot be sent") {
			t.Errorf("the first call: %s", got)
		}
		synctest.Wait() // what is in memory alone now dies with the process
		killed, slower := newDualAt(t, copied(t, dir), tools, nil), func(s *config.Server) { s.CallTimeout = time.Hour }
		for _, next := range []*dual{killed, newDualAt(t, copied(t, dir), tools, slower)} {
			bob, _ := older(servesForms)
			if got := next.use(bob, "ask"); !strings.Contains(got, `"era":"legacy"`) {
				t.Errorf("after a restart: %s", got)
			}
			if n := next.wanted(); n != 0 {
				t.Errorf("found out again: %d events", n)
			}
			bob.End()
			next.wantProcesses("bob has gone", 2, 1)
		}
		ann.End()
	})
}

// copied is what an everline leaves that is killed now.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestErasAreConfigured(t *testing.T) {
	for eras, want := range map[config.Eras]struct{ plain, older string }{
		config.ErasBoth: {"modern", "legacy"}, config.ErasModern: {"modern", "modern"}, config.ErasLegacy: {"legacy", "legacy"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDual(t, []string{tool("plain", "")}, func(s *config.Server) { s.Eras = eras })
			ann, _ := older(servesForms)
			d.wantEra(nil, "plain", want.plain)
			d.wantEra(ann, "plain", want.older)
		})
	}
}

// With isolation "session" each client's own generation is of its era.
func TestALifeOfItsOwnIsOfTheClientsEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDual(t, []string{tool("plain", "")}, func(s *config.Server) { s.Isolation = config.IsolationSession })
		ann, _ := older(servesForms)
		bob, _ := newSession()
		d.wantEra(ann, "plain", "legacy")
		d.wantEra(bob, "plain", "modern")
		d.wantProcesses("two clients", 3, 3)
	})
}

// web is a fleet with a dual server at a URL.
func web(t *testing.T, cfg mcptest.Config) (*Fleet, *mcptest.Server) {
	srv := mcptest.New(cfg)
	at := httptest.NewServer(srv.Handler())
	t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
	c := config.New()
	s := config.NewServer("srv")
	s.Transport, s.URL = config.TransportHTTP, at.URL+"/mcp"
	c.Servers = []config.Server{s}
	f := New(c, Options{Name: "everline", Version: "1"})
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	sl, _, err := f.At(t.Context(), "srv", nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := sl.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lease.Release(nil)
	return f, srv
}

func echo(t *testing.T, f *Fleet, s *Session) {
	t.Helper()
	sl, release, err := f.At(t.Context(), "srv", s)
	if err != nil {
		t.Fatal(err)
	}
	if release != nil {
		defer release()
	}
	if _, err = sl.Call(t.Context(), &upstream.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`), Client: s.Client}, config.ReplaySafe); err != nil {
		t.Error(err)
	}
}

// At a URL those who have declared the same share one session, which says what they
// have declared; it ends with the last of them.
func TestClientsOfTheOtherEraShareASession(t *testing.T) {
	f, srv := web(t, mcptest.Config{Era: mcptest.Dual})
	var declared []string
	var mu sync.Mutex
	srv.On("initialize", func(r *mcptest.Request) *mcptest.Reply {
		mu.Lock()
		defer mu.Unlock()
		declared = append(declared, string(r.Params))
		return nil
	})
	ann, _ := older(servesForms)
	bob, _ := older(servesForms)
	eve, _ := older(`{"roots":{}}`)
	none, _ := newSession()
	for range 2 {
		for _, s := range []*Session{none, ann, bob, eve} {
			echo(t, f, s)
		}
	}
	if n := srv.Count("initialize"); n != 2 || srv.Sessions() != 2 {
		t.Fatalf("%d handshakes, %d sessions", n, srv.Sessions())
	}
	if !strings.Contains(declared[0], `"capabilities":`+servesForms) || !strings.Contains(declared[1], `"capabilities":{"roots":{}}`) {
		t.Errorf("declared %v", declared)
	}
	all := f.SessionSlots("srv")
	if len(all) != 2 || all[0].Clients+all[1].Clients != 3 || all[0].Client != 0 || !all[0].Older {
		t.Errorf("status %+v", all)
	}
	ann.End()
	echo(t, f, bob)
	if srv.Sessions() != 2 {
		t.Errorf("%d sessions while one has gone", srv.Sessions())
	}
	bob.End()
	eve.End()
	srv.Await(t, "the end of the sessions", func() bool { return srv.Sessions() == 0 })
	f.sessions.mu.Lock()
	defer f.sessions.mu.Unlock()
	if len(f.sessions.lanes) != 0 {
		t.Errorf("%d lanes are kept", len(f.sessions.lanes))
	}
}

// A server that says it speaks older versions and refuses them, or keeps no session
// over which it could ask, serves all in the modern era, after one try.
func TestAServerThatRefusesTheOtherEra(t *testing.T) {
	for name, cfg := range map[string]mcptest.Config{"refuses": {Era: mcptest.Dual}, "has no sessions": {Era: mcptest.Dual, Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			f, srv := web(t, cfg)
			if !cfg.Stateless {
				srv.On("initialize", func(*mcptest.Request) *mcptest.Reply {
					return &mcptest.Reply{Error: `{"code":-32601,"message":"no such method"}`}
				})
			}
			ann, _ := older(servesForms)
			defer ann.End()
			for range 3 {
				echo(t, f, ann)
			}
			if n := srv.Count("initialize"); n != 1 || len(f.SessionSlots("srv")) != 0 {
				t.Errorf("%d handshakes, %d slots", n, len(f.SessionSlots("srv")))
			}
		})
	}
}
