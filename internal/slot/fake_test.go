package slot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is a scripted server: what its generations do is said by func fields,
// which are set before the slot starts or under mu.
type server struct {
	mu    sync.Mutex
	dial  func(ctx context.Context, n int) error                               // the nth start; nil: it works immediately
	list  func(ctx context.Context, u *fake, n int) (*catalog.Catalog, error)  // the nth listing of all generations
	call  func(ctx context.Context, u *fake, c *upstream.Call) ([]byte, error) // nil: it answers immediately
	close func(ctx context.Context, u *fake) error
	ping  func(ctx context.Context, u *fake) error // nil: it is answered

	dials   []time.Time
	lists   []time.Time
	calls   int
	pings   []time.Time
	alive   int
	most    int // alive at the same time
	fakes   []*fake
	closed  []uint64
	catalog *catalog.Catalog
}

// A fake is one generation of a server.
type fake struct {
	srv   *server
	gen   uint64
	hooks Hooks
	once  sync.Once
	done  chan struct{}
	err   error
}

func newServer(tools ...string) *server { return &server{catalog: tools2catalog(tools...)} }

func tools2catalog(tools ...string) *catalog.Catalog {
	c := &catalog.Catalog{At: time.Now()}
	for _, t := range tools {
		c.Items[catalog.Tools] = append(c.Items[catalog.Tools], catalog.Item{Name: t, Raw: []byte(`{"name":"` + t + `"}`)})
	}
	return c
}

func (s *server) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) Dial(ctx context.Context, _ config.Server, gen uint64, h Hooks) (Upstream, error) {
	s.mu.Lock()
	s.dials = append(s.dials, time.Now())
	n, dial := len(s.dials), s.dial
	s.alive++
	s.most = max(s.most, s.alive)
	s.mu.Unlock()
	if dial != nil {
		if err := dial(ctx, n); err != nil {
			s.with(func() { s.alive-- })
			return nil, err
		}
	}
	u := &fake{srv: s, gen: gen, hooks: h, done: make(chan struct{})}
	s.with(func() { s.fakes = append(s.fakes, u) })
	return u, nil
}

// end ends the link, as the server's death would.
func (u *fake) end(err error) {
	u.once.Do(func() {
		u.err = err
		close(u.done)
	})
}

func (u *fake) List(ctx context.Context, old *catalog.Catalog, _ ...catalog.Kind) (*catalog.Catalog, error) {
	u.srv.mu.Lock()
	u.srv.lists = append(u.srv.lists, time.Now())
	n, list, cat := len(u.srv.lists), u.srv.list, u.srv.catalog
	u.srv.mu.Unlock()
	if list != nil {
		return list(ctx, u, n)
	}
	return cat, nil
}

func (u *fake) Call(ctx context.Context, c *upstream.Call) (upstream.Result, error) {
	u.srv.mu.Lock()
	u.srv.calls++
	call := u.srv.call
	u.srv.mu.Unlock()
	select {
	case <-u.done:
		return upstream.Result{}, &fault.Fault{Kind: fault.Closed, Op: c.Method, Outcome: fault.NotSent}
	default:
	}
	if call != nil {
		raw, err := call(ctx, u, c)
		return upstream.Result{Raw: raw}, err
	}
	return upstream.Result{Raw: []byte(`{}`)}, nil
}

func (u *fake) Ping(ctx context.Context) error {
	u.srv.mu.Lock()
	u.srv.pings = append(u.srv.pings, time.Now())
	ping := u.srv.ping
	u.srv.mu.Unlock()
	if ping != nil {
		return ping(ctx, u)
	}
	return nil
}

func (u *fake) Notify(context.Context, string, []byte) error { return nil }

func (u *fake) Done() <-chan struct{} { return u.done }
func (u *fake) Err() error            { return u.err }
func (u *fake) Info() upstream.Info   { return upstream.Info{} }

func (u *fake) Close(ctx context.Context) error {
	u.srv.mu.Lock()
	shut := u.srv.close
	u.srv.mu.Unlock()
	var err error
	if shut != nil {
		err = shut(ctx, u)
	}
	u.end(nil)
	u.srv.with(func() {
		u.srv.alive--
		u.srv.closed = append(u.srv.closed, u.gen)
	})
	return err
}

// fake returns the nth generation that came up.
func (s *server) fake(n int) *fake {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fakes[n-1]
}

func (s *server) gone() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.closed)
}

func (s *server) living() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

func (s *server) peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *server) count() (dials, lists, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dials), len(s.lists), s.calls
}

// A bench is a slot on a scripted server, in a synctest bubble.
type bench struct {
	*Slot
	t      *testing.T
	srv    *server
	t0     time.Time
	mu     sync.Mutex
	events []event.Event
	views  []*View
}

func (b *bench) said() []event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

func count[E event.Event](b *bench) int {
	n := 0
	for _, e := range b.said() {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

func lastOf[E event.Event](b *bench) E {
	b.t.Helper()
	for _, e := range slices.Backward(b.said()) {
		if e, ok := e.(E); ok {
			return e
		}
	}
	b.t.Fatalf("no %T was told", *new(E))
	panic("unreachable")
}

// spec is a server with the usual numbers.
func spec() config.Server {
	s := config.NewServer("db")
	s.Transport, s.Command = "stdio", "db-server"
	return s
}

// play runs a story on a slot in a bubble; chance is what Rand returns.
func play(t *testing.T, o Options, srv *server, chance float64, story func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, srv: srv, t0: time.Now()}
		if o.Server.Name == "" {
			o.Server = spec()
		}
		o.Dial = srv.Dial
		o.Rand = func() float64 { return chance }
		o.Emit = func(e event.Event) { b.mu.Lock(); defer b.mu.Unlock(); b.events = append(b.events, e) }
		var running atomic.Pointer[Slot]
		o.Published = func(v *View) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.views = append(b.views, v)
			if s := running.Load(); s != nil && s.View() != v {
				t.Error("Published was called before the view was out")
			}
		}
		b.Slot = New(o)
		running.Store(b.Slot)
		synctest.Wait()
		defer b.finish() // after a Fatal, too, or the bubble blames what is left
		story(b)
	})
}

func (b *bench) finish() {
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		b.t.Errorf("Close: %v", err)
	}
	b.srv.with(func() {
		if b.srv.alive != 0 {
			b.t.Errorf("%d generations are left after Close", b.srv.alive)
		}
	})
}

// at runs the clock to d after the start of the story.
func (b *bench) at(d time.Duration) {
	b.t.Helper()
	left := time.Until(b.t0.Add(d))
	if left < 0 {
		b.t.Fatalf("it is %s already, not %s", time.Since(b.t0), d)
	}
	time.Sleep(left) // the bubble's clock
	synctest.Wait()
}

func (b *bench) seen(want event.State) {
	b.t.Helper()
	synctest.Wait()
	if got := b.View().Seen(); got != want {
		b.t.Fatalf("at %s it is seen as %s, not %s (%+v)", time.Since(b.t0), got, want, b.View().State)
	}
}

func (b *bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// callNow sends a tools/call that may wait for a minute.
func (b *bench) callNow(replay bool) (*fault.Fault, time.Duration) {
	t := time.Now()
	_, err := b.Call(b.within(time.Minute), &upstream.Call{Method: "tools/call", Name: "q"}, replayIf(replay))
	return fault.From("", err), time.Since(t)
}

// replayIf is the policy under which every call may be repeated, or none.
func replayIf(yes bool) config.Replay {
	if yes {
		return config.ReplayAlways
	}
	return config.ReplayNever
}

func (b *bench) wantKind(f *fault.Fault, k fault.Kind, o fault.Outcome) {
	b.t.Helper()
	if f == nil || f.Kind != k || f.Outcome != o {
		b.t.Fatalf("got %s, want a fault of kind %s, outcome %s", describe(f), k, o)
	}
}

func describe(f *fault.Fault) string {
	if f == nil {
		return "no fault"
	}
	return fmt.Sprintf("%s/%s: %v", f.Kind, f.Outcome, f)
}

func toolsOf(v *View) []string {
	if v.Catalog == nil {
		return nil
	}
	var names []string
	for _, i := range v.Catalog.Items[catalog.Tools] {
		names = append(names, i.Name)
	}
	return names
}

func (b *bench) wantTools(want ...string) {
	b.t.Helper()
	synctest.Wait()
	if got := toolsOf(b.View()); !slices.Equal(got, want) {
		b.t.Fatalf("published tools are %v, want %v", got, want)
	}
}

func (b *bench) wantDials(want ...time.Duration) {
	b.t.Helper()
	synctest.Wait()
	b.srv.mu.Lock()
	defer b.srv.mu.Unlock()
	var got []time.Duration
	for _, d := range b.srv.dials {
		got = append(got, d.Sub(b.t0))
	}
	if !slices.Equal(got, want) {
		b.t.Fatalf("starts at %v, want %v", got, want)
	}
}

var (
	errRefused = &fault.Fault{Kind: fault.Dial, Op: "dial", Outcome: fault.NotSent}
	errDied    = &fault.Fault{Kind: fault.Exited, Op: "serve", Exit: "exit 1"}
	errSession = &fault.Fault{Kind: fault.SessionLost, Op: "tools/call", Outcome: fault.NotSent, Status: 404}
	errCut     = &fault.Fault{Kind: fault.Broken, Op: "tools/call"}
	errRPC     = &fault.Fault{Kind: fault.RPC, Op: "tools/call", Outcome: fault.Answered, RPC: &fault.RPCError{Code: -32603, Message: "internal"}}
	errTimeout = &fault.Fault{Kind: fault.Deadline, Op: "tools/list"}
)

type catalogT = catalog.Catalog
