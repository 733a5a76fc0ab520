package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
)

// A shot sends one request into the handler again and again, without a network.
type shot struct {
	h    http.Handler
	req  *http.Request
	body *bytes.Reader
	w    recorder
}

func newShot(g *Gateway, body string, headers ...string) *shot {
	s := &shot{h: g.Handler(), body: bytes.NewReader([]byte(body))}
	s.req, _ = http.NewRequest("POST", "http://localhost/mcp", nil)
	s.req.Body, s.req.ContentLength = io.NopCloser(s.body), int64(len(body))
	s.req.Header.Set("Content-Type", "application/json")
	s.req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		s.req.Header.Set(name, value)
	}
	return s
}

func (s *shot) fire() {
	_, _ = s.body.Seek(0, io.SeekStart)
	s.w = recorder{header: http.Header{}, body: s.w.body[:0]}
	s.h.ServeHTTP(&s.w, s.req)
}

func shots(tb testing.TB) map[string]*shot {
	h := newHub()
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}`)
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) { return result, nil }
	var tools []catalog.Item
	for i := range 200 {
		name := "tool-" + strconv.Itoa(i)
		tools = append(tools, item(name, `{"name":"`+name+`","description":"`+strings.Repeat("d", 200)+`","inputSchema":{"type":"object"}}`))
	}
	h.publish(tools...)
	g := New(h, Options{})
	tb.Cleanup(func() { _ = g.Close(context.Background()) })
	s := g.sessions.New("2025-11-25")
	g.sessions.Add(s)
	return map[string]*shot{
		"legacy call": newShot(g, call("1", "tool-1", ""), "Mcp-Session-Id: "+s.Key),
		"modern call": newShot(g, modernBody("1", "tools/call", `,"name":"tool-1","arguments":{}`), modernHeader, "Mcp-Method: tools/call", "Mcp-Name: tool-1"),
		"list of 200": newShot(g, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id: "+s.Key),
	}
}

func BenchmarkHandler(b *testing.B) {
	for name, s := range shots(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.fire()
			}
		})
	}
}

// TestAllocations bounds what one request costs. The numbers include the
// recorder's header map, and net/http's routing.
func TestAllocations(t *testing.T) {
	limits := map[string]float64{"legacy call": 40, "modern call": 45, "list of 200": 30}
	for name, s := range shots(t) {
		if n := testing.AllocsPerRun(200, s.fire); n > limits[name] {
			t.Errorf("%s: %.0f allocations, want at most %.0f", name, n, limits[name])
		} else {
			t.Logf("%s: %.0f allocations", name, n)
		}
	}
}

// TestIdleSessionsAreSmall: 10,000 of them must fit in a few megabytes, and
// cost no goroutine.
func TestIdleSessionsAreSmall(t *testing.T) {
	g := New(newHub(), Options{})
	defer g.Close(context.Background())
	before := memory()
	routines := runtime.NumGoroutine()
	const n = 10_000
	for range n {
		s := g.sessions.New(mcp.LatestLegacy)
		if !g.sessions.Add(s) {
			t.Fatal("the table is full")
		}
		g.sessions.Unpin(s)
	}
	if per := (memory() - before) / n; per > 1024 {
		t.Errorf("%d bytes per session", per)
	} else {
		t.Logf("%d bytes per session", per)
	}
	if extra := runtime.NumGoroutine() - routines; extra > 0 {
		t.Errorf("%d goroutines", extra)
	}
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkNetwork sends 16 calls at a time over loopback: through the gateway,
// and to a handler that only reads the body and writes the same answer, which
// is what net/http alone costs.
func BenchmarkNetwork(b *testing.B) {
	h := newHub()
	result := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}`)
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) { return result, nil }
	g := New(h, Options{})
	defer g.Close(context.Background())
	s := g.sessions.New(mcp.LatestLegacy)
	g.sessions.Add(s)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = jsonType
		_, _ = w.Write(result)
	})
	for name, handler := range map[string]http.Handler{"gateway": g.Handler(), "bare": bare} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(handler)
			defer srv.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			body := call("1", "echo", "")
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest("POST", srv.URL+"/mcp", strings.NewReader(body))
					req.Header["Content-Type"] = jsonType
					req.Header["Mcp-Session-Id"] = []string{s.Key}
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}
