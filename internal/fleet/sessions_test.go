package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// A motel has a new server in memory for every generation; each counts its calls.
type motel struct {
	*park
	lives []*mcptest.Server // in the order of their starts
	ended map[*mcptest.Server]bool
}

func newMotel() *motel { return &motel{park: newPark(), ended: map[*mcptest.Server]bool{}} }

func (m *motel) options() Options {
	o := m.park.options()
	o.Start = m.start
	return o
}

func (m *motel) start(ctx context.Context, o upstream.Options) (slot.Upstream, error) {
	srv := mcptest.New(mcptest.Config{
		Tools:     []string{tool("count", "counts")},
		Resources: []string{`{"uri":"file:///r","name":"r"}`},
	})
	count := 0
	srv.On("tools/call", func(*mcptest.Request) *mcptest.Reply {
		count++
		return &mcptest.Reply{Result: fmt.Sprintf(`{"content":[],"count":%d}`, count)}
	})
	m.mu.Lock()
	m.lives = append(m.lives, srv)
	m.mu.Unlock()
	o.Open = func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
		return mcptest.OpenMemory(func(ctx context.Context, in <-chan []byte, out func([]byte)) {
			defer m.over(srv)
			srv.ServeFrames(ctx, in, out)
		}, o), nil
	}
	return opened(upstream.Start(ctx, o))
}

func (m *motel) over(s *mcptest.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[s] = true
}

// gone tells whether a generation has ended.
func (m *motel) gone(i int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended[m.lives[i]]
}

func (m *motel) life(i int) *mcptest.Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives[i]
}

func (m *motel) started() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.lives)
}

// A guest is the client of a session.
type guest struct {
	id uint64

	mu    sync.Mutex
	asked []string
	told  []string
}

func (g *guest) ID() uint64 { return g.id }

func (g *guest) Ask(_ context.Context, method string, _ []byte) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, method)
	return []byte(`{"roots":[]}`), nil
}

func (g *guest) Notify(method string, params []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = append(g.told, method+" "+string(params))
}

func (g *guest) heard() (asked, told string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.asked, ","), strings.Join(g.told, ",")
}

func newSession() (*Session, *guest) {
	g := &guest{id: door.NewClientID()}
	return &Session{Client: g, Capabilities: func() []byte { return []byte(`{"roots":{}}`) }}, g
}

func isolated(change func(*config.Server)) *config.Config {
	cfg := configOf("srv")
	cfg.Servers[0].Isolation = config.IsolationSession
	if change != nil {
		change(&cfg.Servers[0])
	}
	return cfg
}

// count calls the tool for a session; nil is nobody in particular.
func count(t *testing.T, f *Fleet, s *Session) (string, error) {
	t.Helper()
	sl, release, err := f.At(t.Context(), "srv", s)
	if err != nil {
		return "", err
	}
	if release != nil {
		defer release()
	}
	out, err := sl.Call(t.Context(), &upstream.Call{Method: "tools/call", Name: "count", Params: []byte(`{"name":"count"}`)}, config.ReplaySafe)
	return strings.TrimSuffix(strings.TrimPrefix(string(out.Raw), `{"content":[],"count":`), "}"), err
}

func wantCount(t *testing.T, f *Fleet, s *Session, want string) {
	t.Helper()
	if got, err := count(t, f, s); err != nil || got != want {
		t.Errorf("the call counted %q (%v), want %s", got, err, want)
	}
}

func TestFaultN3EverySessionHasALifeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(nil), m.options())
		defer stop(t, f)
		a, _ := newSession()
		b, _ := newSession()
		defer b.End()
		wantCount(t, f, a, "1")
		wantCount(t, f, a, "2")
		wantCount(t, f, b, "1")
		wantCount(t, f, nil, "1")
		if n := m.started(); n != 3 {
			t.Fatalf("%d lives were started, want the shared one and two", n)
		}
		if got := listed(f); len(got) != 1 || got[0] != "count" {
			t.Errorf("published: %v", got)
		}
		a.End()
		a.End()
		synctest.Wait()
		if !m.gone(1) || len(f.SessionSlots("srv")) != 1 {
			t.Error("the life of a session that ended goes on")
		}
		if _, err := count(t, f, a); fault.KindOf(err) != fault.Closed {
			t.Errorf("a session that ended called again: %v", err)
		}
		wantCount(t, f, b, "2")
	})
}

func TestOneSessionsReconnectLeavesTheOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(nil), m.options())
		defer stop(t, f)
		a, _ := newSession()
		b, _ := newSession()
		defer a.End()
		defer b.End()
		wantCount(t, f, a, "1")
		wantCount(t, f, b, "1")
		m.life(1).Close()
		time.Sleep(time.Minute)
		wantCount(t, f, a, "1")
		wantCount(t, f, b, "2")
		of := func(c uint64) func(event.Event) bool {
			return func(e event.Event) bool { _, ok := e.(event.Connected); return ok && e.About().Session == c }
		}
		if m.count(of(a.Client.ID())) != 2 || m.count(of(b.Client.ID())) != 1 || m.count(of(0)) != 1 {
			t.Error("the lives that connected are not two of the first session and one each of the other and the shared")
		}
	})
}

func TestOwnLivesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(func(s *config.Server) { s.MaxSessions = 2 }), m.options())
		defer stop(t, f)
		var all []*Session
		for range 2 {
			s, _ := newSession()
			defer s.End()
			all = append(all, s)
			wantCount(t, f, s, "1")
		}
		late, _ := newSession()
		defer late.End()
		_, err := count(t, f, late)
		got := fault.From("", err)
		if got == nil || got.Kind != fault.Unavailable || got.Outcome != fault.NotSent || !strings.Contains(got.Reason(), "maxSessions") {
			t.Fatalf("one more than maxSessions: %v", err)
		}
		all[0].End()
		wantCount(t, f, late, "1")
	})
}

func TestAnOwnLifeEndsWhenItIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(func(s *config.Server) { s.SessionIdle = 10 * time.Minute }), m.options())
		defer stop(t, f)
		a, _ := newSession()
		b, _ := newSession()
		defer a.End()
		defer b.End()
		wantCount(t, f, a, "1")
		if _, err := f.Subscribe(t.Context(), b, "srv", "file:///r", func([]byte) {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Minute)
		wantCount(t, f, a, "2")
		time.Sleep(9 * time.Minute)
		wantCount(t, f, a, "3")
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if own := f.SessionSlots("srv"); len(own) != 1 || own[0].Client != b.Client.ID() {
			t.Fatalf("after 10 minutes without a call there is %v, want the one that is listened to", own)
		}
		wantCount(t, f, a, "1")
		if gen := f.SessionSlots("srv")[0].Slot.View().State.Gen; gen != 2 {
			t.Errorf("the session's second life is generation %d", gen)
		}
	})
}

func TestAnOwnLifeSpeaksToItsClientAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(nil), m.options())
		defer stop(t, f)
		a, ga := newSession()
		b, gb := newSession()
		defer a.End()
		defer b.End()
		wantCount(t, f, a, "1")
		wantCount(t, f, b, "1")
		updates := map[*Session]*atomic.Int32{a: {}, b: {}}
		for s, n := range updates {
			if _, err := f.Subscribe(t.Context(), s, "srv", "file:///r", func([]byte) { n.Add(1) }); err != nil {
				t.Fatal(err)
			}
		}
		m.life(1).SendAll(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)
		m.life(1).Notify("notifications/message", `{"level":"error","data":"mine"}`)
		m.life(1).Notify("notifications/resources/updated", `{"uri":"file:///r"}`)
		synctest.Wait()
		if asked, told := ga.heard(); asked != "roots/list" || told != `notifications/message {"level":"error","data":"mine"}` || updates[a].Load() != 1 {
			t.Errorf("the client was asked %q and told %q, with %d updates", asked, told, updates[a].Load())
		}
		if asked, told := gb.heard(); asked+told != "" || updates[b].Load() != 0 {
			t.Errorf("the other client was asked %q and told %q, with %d updates", asked, told, updates[b].Load())
		}
		if hello := m.life(1).Requests("initialize"); !strings.Contains(string(hello[0].Params), `"capabilities":{"roots":{}}`) {
			t.Errorf("initialize declared %s", hello[0].Params)
		}
		m.life(1).Close()
		time.Sleep(time.Minute)
		if updates[a].Load() != 2 {
			t.Errorf("%d updates after the life was replaced, want one to catch up", updates[a].Load())
		}
	})
}

func TestOwnLivesFollowTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(nil), m.options())
		defer stop(t, f)
		a, _ := newSession()
		defer a.End()
		do := func(op func(*slot.Slot, context.Context) error) {
			t.Helper()
			if err := f.Do(t.Context(), "srv", func(ctx context.Context, s *slot.Slot) error { return op(s, ctx) }); err != nil {
				t.Fatal(err)
			}
		}
		wantCount(t, f, a, "1")
		do((*slot.Slot).Reconnect)
		time.Sleep(time.Minute)
		wantCount(t, f, a, "1") // of a new generation
		do((*slot.Slot).Disable)
		if _, err := count(t, f, a); fault.KindOf(err) != fault.Disabled {
			t.Errorf("a call to a disabled server: %v", err)
		}
		synctest.Wait()
		if len(f.SessionSlots("srv")) != 0 {
			t.Error("a life of a disabled server goes on")
		}
		do((*slot.Slot).Enable)
		wantCount(t, f, a, "1")
		if _, err := f.Apply(t.Context(), isolated(func(s *config.Server) { s.Env = map[string]string{"A": "1"} })); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantCount(t, f, a, "1") // of a generation with the new environment
		if _, err := f.Apply(t.Context(), isolated(func(s *config.Server) { s.Isolation = config.IsolationShared })); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(f.SessionSlots("srv")) != 0 {
			t.Error("a life of one client goes on where all share one")
		}
		n := m.started()
		wantCount(t, f, a, "1")
		wantCount(t, f, nil, "2")
		if m.started() != n {
			t.Error("a life was started for a client of a shared server")
		}
		if _, err := f.Apply(t.Context(), config.New()); err != nil {
			t.Fatal(err)
		}
		if _, err := count(t, f, a); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a call to a server that was removed: %v", err)
		}
	})
}

func TestCloseEndsOwnLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, isolated(nil), m.options())
		a, _ := newSession()
		wantCount(t, f, a, "1")
		stop(t, f)
		for i := range m.started() {
			if !m.gone(i) {
				t.Errorf("life %d goes on", i)
			}
		}
		if _, err := count(t, f, a); !errors.Is(err, &fault.Fault{Kind: fault.Closed}) {
			t.Errorf("a call behind the end: %v", err)
		}
		a.End()
	})
}

func TestACallForALifeThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		f := start(t, configOf("srv"), m.options())
		defer stop(t, f)
		ask := func(gen uint64) error {
			_, err := f.Slot("srv").CallGen(t.Context(), gen, &upstream.Call{Method: "tasks/get", Name: "x", Params: []byte(`{"taskId":"x"}`)}, config.ReplaySafe, slot.Waited{}, nil)
			return err
		}
		if err := ask(1); fault.KindOf(err) != fault.RPC {
			t.Errorf("a call for the life that serves: %v", err)
		}
		m.life(0).Close()
		time.Sleep(time.Minute)
		err := fault.From("", ask(1))
		if err == nil || err.Kind != fault.NotFound || err.Outcome != fault.NotSent || m.life(1).Count("tasks/get") != 0 {
			t.Errorf("a call for the life before: %v, sent %d times", err, m.life(1).Count("tasks/get"))
		}
		if got := f.Slot("srv").Counts().Out; got != 0 {
			t.Errorf("%d leases are out", got)
		}
	})
}

// Whether a session has a generation of its own follows from whether the server runs,
// not from what the configuration says of its start.
func TestOwnLivesOfAServerThatAnOperatorEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMotel()
		cfg := func(most int) *config.Config {
			return isolated(func(s *config.Server) { s.Disabled, s.MaxWaiting = true, most })
		}
		f := start(t, cfg(1), m.options())
		defer stop(t, f)
		if err := f.Do(t.Context(), "srv", func(ctx context.Context, s *slot.Slot) error { return s.Enable(ctx) }); err != nil {
			t.Fatal(err)
		}
		s, _ := newSession()
		defer s.End()
		wantCount(t, f, s, "1")
		if _, err := f.Apply(t.Context(), cfg(2)); err != nil {
			t.Fatal(err)
		}
		wantCount(t, f, s, "2") // an operator's word stands, and so does the generation
	})
}

// What happens between a look at the roster and the making of a session's slot:
// the server is disabled, removed or another one by then.
func TestNoOwnLifeBeginsBehindTheOperator(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, f *Fleet) error{
		"disabled": func(ctx context.Context, f *Fleet) error {
			return f.Do(ctx, "srv", func(ctx context.Context, s *slot.Slot) error { return s.Disable(ctx) })
		},
		"removed": func(ctx context.Context, f *Fleet) error { _, err := f.Apply(ctx, configOf()); return err },
		"shared":  func(ctx context.Context, f *Fleet) error { _, err := f.Apply(ctx, configOf("srv")); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMotel()
			f := start(t, isolated(nil), m.options())
			defer stop(t, f)
			seen := f.roster.Load().byName["srv"] // a call looks, and is overtaken
			if err := change(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			s, _ := newSession()
			defer s.End()
			o, err := f.sessions.hold(seen, s)
			if o != nil || err != nil {
				t.Errorf("%s: a slot is held, %v", name, err)
			}
			time.Sleep(time.Minute)
			if n := len(f.SessionSlots("srv")); n != 0 || s.slots["srv"] != nil {
				t.Errorf("%s: %d lives of single clients", name, n)
			}
		})
	}
}
