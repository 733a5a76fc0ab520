package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/transport/http"
	"github.com/everline/everline/internal/transport/stdio"
)

// heard collects what an upstream tells.
type heard struct {
	mu      sync.Mutex
	changed []catalog.Kind
	updated []string
	logs    []string
	news    chan struct{} // gets a token, as long as there is room, for each
}

func (h *heard) note(f func()) {
	h.mu.Lock()
	f()
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *heard) count(k catalog.Kind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, c := range h.changed {
		if c == k {
			n++
		}
	}
	return n
}

// await waits for a condition over what was heard.
func (h *heard) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		h.mu.Lock()
		done := ok()
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-h.news:
		case <-late.C:
			t.Fatalf("%s did not happen within 10 s", what)
		}
	}
}

// options are those of a test: the callbacks go to the heard that is returned.
func options(s config.Server) (Options, *heard) {
	h := &heard{news: make(chan struct{}, 1024)}
	if s.Name == "" {
		s.Name = "test"
	}
	if s.StartupTimeout == 0 {
		s.StartupTimeout = time.Minute
	}
	return Options{
		Server: s, Gen: 7, Name: "everline", Version: "1.2.3", Open: opener(s),
		Changed: func(k catalog.Kind) { h.note(func() { h.changed = append(h.changed, k) }) },
		Updated: func(uri string, _ []byte) { h.note(func() { h.updated = append(h.updated, uri) }) },
		Log:     func(p []byte) { h.note(func() { h.logs = append(h.logs, string(p)) }) },
	}, h
}

// opener opens the transports that s names, as the fleet does.
func opener(s config.Server) func(context.Context, transport.Kind, transport.Options) (transport.Conn, error) {
	return func(ctx context.Context, k transport.Kind, o transport.Options) (transport.Conn, error) {
		site := http.Spec{URL: s.URL, Headers: s.Headers, PostURL: s.MessageURL, IdleTimeout: s.StreamIdle}
		switch k {
		case transport.Stdio:
			return stdio.Open(ctx, stdio.Spec{Command: s.Command, Args: s.Args, Env: stdio.BaseEnv(s.Env), Dir: s.Cwd, StopGrace: s.StopGrace}, o)
		case transport.SSE:
			return http.OpenSSE(ctx, site, o)
		default:
			return http.Open(ctx, site, o)
		}
	}
}

// overWeb serves s over HTTP and returns the configuration to reach it.
func overWeb(t *testing.T, s *mcptest.Server) config.Server {
	t.Helper()
	return config.Server{Name: "test", Transport: "http", URL: mcptest.Web(t, s).URL + "/mcp"}
}

// start starts an upstream that the test's end closes.
func start(t *testing.T, opts Options) *Upstream {
	t.Helper()
	u, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { closeNow(t, u) })
	return u
}

func closeNow(t *testing.T, u *Upstream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := u.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// refused starts an upstream that must fail, and returns the failure.
func refused(t *testing.T, opts Options) *fault.Fault {
	t.Helper()
	u, err := Start(t.Context(), opts)
	if err == nil {
		closeNow(t, u)
		t.Fatal("Start succeeded")
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("Start: %T is no fault", err)
	}
	if f.Server != "test" || f.Gen != 7 {
		t.Errorf("the fault names %q gen %d", f.Server, f.Gen)
	}
	return f
}

func call(t *testing.T, u *Upstream, params string) string {
	t.Helper()
	result, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(params)})
	if err != nil {
		t.Fatalf("Call: %v", err)
	}
	return string(result.Raw)
}

func faultOf(t *testing.T, err error) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%v (%T) is no fault", err, err)
	}
	return f
}

// memory returns an Open that serves each link by the next of the given
// servers in memory, the last one for all further links.
func memory(servers ...*mcptest.Server) func(context.Context, transport.Kind, transport.Options) (transport.Conn, error) {
	n := 0
	return func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
		s := servers[min(n, len(servers)-1)]
		n++
		return mcptest.OpenMemory(s.ServeFrames, o), nil
	}
}

// inMemory starts an upstream on s.
func inMemory(t *testing.T, s *mcptest.Server, change ...func(*Options)) (*Upstream, *heard) {
	t.Helper()
	opts, h := options(config.Server{})
	opts.Open = memory(s)
	for _, c := range change {
		c(&opts)
	}
	return start(t, opts), h
}
