package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/echo"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/gateway"
)

// TestMain lets the test binary be started as what it measures, as main does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// A path is everline from the gateway's handler to a server that costs as
// little as can be, without a network in front.
type path struct {
	handler http.Handler
	session string
	token   string // that requests show; "" for none
}

// newPath makes one with a server of so many tools, reached over stdio or HTTP.
func newPath(tb testing.TB, kind string, tools int) *path {
	tb.Helper()
	p := newPathWith(tb, kind, tools, func(*config.Config) {}, func(*everline.Options, *gateway.Options) {})
	p.session = p.open(tb)
	return p
}

// newPathWith is newPath without a session, with something changed in the
// configuration and the options.
func newPathWith(tb testing.TB, kind string, tools int, change func(*config.Config), with func(*everline.Options, *gateway.Options)) *path {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	entry := map[string]any{}
	if kind == stdio {
		argv := echo.Argv(os.Args[0], echo.Options{Make: "plain", Tools: tools})
		entry["command"], entry["args"] = argv[0], argv[1:]
	} else {
		h, err := echo.Handler(echo.Options{Tools: tools})
		if err != nil {
			tb.Fatal(err)
		}
		site := httptest.NewServer(h)
		tb.Cleanup(site.Close)
		entry["type"], entry["url"] = "http", site.URL+"/mcp"
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"s": entry}})
	if err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Parse("bench.json", text, os.LookupEnv)
	if err != nil {
		tb.Fatal(err)
	}
	change(cfg)
	opts, ends := everline.Options{}, gateway.Options{MaxSessions: 20_000}
	with(&opts, &ends)
	hub, err := everline.Open(ctx, cfg, opts)
	if err != nil {
		tb.Fatal(err)
	}
	g := gateway.ForHub(hub, ends)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			tb.Error(err)
		}
		if err := hub.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	if st, err := hub.Await(ctx, "s", 0); err != nil {
		tb.Fatalf("the server is %s: %v", st.State, err)
	}
	return &path{handler: g.Handler()}
}

// open opens a session in the handler and returns its id.
func (p *path) open(tb testing.TB) string {
	tb.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, p.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"b","version":"1"}}`))
	id := w.Header().Get("Mcp-Session-Id")
	if id == "" {
		tb.Fatalf("no session: %d %s", w.Code, w.Body)
	}
	return id
}

func (p *path) request(method, params string) *http.Request {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	ctx := access.With(context.Background(), access.Local()) // as of a connection of this user
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		panic("bug: " + err.Error())
	}
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["Accept"] = []string{"application/json, text/event-stream"}
	if p.token != "" {
		r.Header["Authorization"] = []string{"Bearer " + p.token}
	}
	if p.session != "" {
		r.Header["Mcp-Session-Id"] = []string{p.session}
	}
	return r
}

// A sink takes an answer and remembers its length alone.
type sink struct {
	header http.Header
	status int
	length int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(code int)        { s.status = code }
func (s *sink) Write(b []byte) (int, error) { s.length += len(b); return len(b), nil }

// A shot is one request that is sent again and again.
type shot struct {
	p    *path
	req  *http.Request
	body *bytes.Reader
	at   int // bytes of an answer, at least
	w    sink
}

func (p *path) shot(tb testing.TB, method, params string, least int) *shot {
	tb.Helper()
	s := &shot{p: p, req: p.request(method, params), at: least, w: sink{header: http.Header{}}}
	raw, err := io.ReadAll(s.req.Body)
	if err != nil {
		tb.Fatal(err)
	}
	s.body = bytes.NewReader(raw)
	s.req.Body = io.NopCloser(s.body)
	return s
}

func (s *shot) fire(tb testing.TB) {
	if _, err := s.body.Seek(0, io.SeekStart); err != nil {
		tb.Error(err)
	}
	clear(s.w.header)
	s.w.length, s.w.status = 0, 0
	s.p.handler.ServeHTTP(&s.w, s.req)
	if s.w.length < s.at || s.w.status > 299 {
		tb.Errorf("an answer of %d bytes, status %d", s.w.length, s.w.status)
	}
}

const echoParams = `{"name":"echo","arguments":{"text":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}}`

func BenchmarkPath(b *testing.B) {
	for _, kind := range []string{stdio, overHTTP} {
		p := newPath(b, kind, 5)
		for _, c := range []struct {
			name, params string
			least        int
		}{
			{"call", echoParams, 100},
			{"result64KiB", `{"name":"blob","arguments":{"bytes":65536}}`, 65536},
			{"result16MiB", `{"name":"blob","arguments":{"bytes":16777216}}`, 16 << 20},
		} {
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				s := p.shot(b, "tools/call", c.params, c.least)
				b.ReportAllocs()
				for b.Loop() {
					s.fire(b)
				}
			})
		}
		b.Run(kind+"/call16", p.callsAtATime)
	}
}

// callsAtATime keeps 16 calls in flight.
func (p *path) callsAtATime(b *testing.B) {
	b.ReportAllocs()
	b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		s := p.shot(b, "tools/call", echoParams, 100)
		for pb.Next() {
			s.fire(b)
		}
	})
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{200, 1000} {
		p := newPath(b, overHTTP, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := p.shot(b, "tools/list", `{}`, n*100)
			b.ReportAllocs()
			for b.Loop() {
				s.fire(b)
			}
		})
	}
}

// TestPathAllocations bounds what one call costs from the gateway's handler to
// the server and back, whatever else is going on in everline included.
func TestPathAllocations(t *testing.T) {
	limits := map[string]float64{stdio: 70, overHTTP: 200}
	for kind, limit := range limits {
		s := newPath(t, kind, 5).shot(t, "tools/call", echoParams, 100)
		s.fire(t)
		if n := testing.AllocsPerRun(200, func() { s.fire(t) }); n > limit {
			t.Errorf("%s: %.0f allocations, want at most %.0f", kind, n, limit)
		} else {
			t.Logf("%s: %.0f allocations", kind, n)
		}
	}
}

// TestListAllocations: what a list costs does not depend on its length.
func TestListAllocations(t *testing.T) {
	var costs []float64
	for _, n := range []int{10, 1000} {
		s := newPath(t, overHTTP, n).shot(t, "tools/list", `{}`, n*100)
		s.fire(t)
		costs = append(costs, testing.AllocsPerRun(200, func() { s.fire(t) }))
	}
	if costs[1] > costs[0]+8 || costs[1] > 40 {
		t.Errorf("allocations of a list of 10 and of 1,000 tools: %v", costs)
	} else {
		t.Logf("allocations of a list of 10 and of 1,000 tools: %v", costs)
	}
}

// BenchmarkIdleSessions tells what a session without a stream holds.
func BenchmarkIdleSessions(b *testing.B) {
	p := newPath(b, overHTTP, 5)
	p.session = ""
	before, routines := heap(), runtime.NumGoroutine()
	for b.Loop() {
		p.open(b)
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/session")
	b.ReportMetric(float64(runtime.NumGoroutine()-routines)/float64(b.N), "goroutines/session")
}

// BenchmarkOpenStreams tells what an open stream holds, both ends of its
// connection and the client included.
func BenchmarkOpenStreams(b *testing.B) {
	p := newPath(b, overHTTP, 5)
	site := httptest.NewServer(p.handler)
	defer site.Close()
	client := drive.NewHTTP()
	var streams []io.Closer
	before, routines := heap(), runtime.NumGoroutine()
	for b.Loop() {
		if len(streams) >= 4000 { // descriptors are scarce
			continue
		}
		s, err := drive.Open(b.Context(), client, site.URL+"/mcp")
		if err != nil {
			b.Fatal(err)
		}
		stream, err := drive.Listen(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		streams = append(streams, stream)
	}
	b.ReportMetric(float64(heap()-before)/float64(len(streams)), "B/stream")
	b.ReportMetric(float64(runtime.NumGoroutine()-routines)/float64(len(streams)), "goroutines/stream")
	for _, s := range streams {
		s.Close()
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
