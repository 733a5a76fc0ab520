package systest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

func sse(site *mcptest.Site) map[string]any {
	return map[string]any{"type": "sse", "url": site.URL + "/sse"}
}

// B1: a clean end of the stream of an HTTP+SSE server is a loss like any
// other. The catalog stays, and the next call waits for the new connection.
func TestFaultB1CleanEndOfTheStreamReconnects(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	hub := open(t, servers{"a": quick(sse(mcptest.Web(t, s)))}, everline.Options{})
	gen := ready(t, hub, "a", 0).Generation
	untilNames(t, hub, "echo", "work", "fail")
	for range 5 {
		s.CutStreams()
		s.Await(t, "a new stream", func() bool { return s.Listeners() == 1 })
		mustCall(t, hub, "echo", `{}`)
		gen = ready(t, hub, "a", gen).Generation
		if names := toolNames(hub); len(names) != 3 {
			t.Errorf("tools %v", names)
		}
	}
	if n := s.Count("initialize"); n != 6 {
		t.Errorf("%d initializes for 5 ends", n)
	}
}

// B2, B6, P3: whatever becomes of the optional standing stream, calls do not
// notice, and the session stays.
func TestFaultB2B6P3StandingStreamHarmsNoCall(t *testing.T) {
	const notice = `{"jsonrpc":"2.0","method":"notifications/x"}`
	html := map[string]string{"Content-Type": "text/html"}
	for name, rep := range map[string]mcptest.Reply{
		"hangs before its head (B6)": {Hang: true},
		"hangs after its head":       {Hang: true, SSE: true},
		"405 (C2)":                   {Status: 405},
		"400 (P3)":                   {Status: 400, Body: "no"},
		"404":                        {Status: 404},
		"204":                        {Status: 204},
		"500":                        {Status: 500},
		"a login page":               {Status: 302, Header: map[string]string{"Location": "/login"}},
		"a login elsewhere":          {Status: 302, Header: map[string]string{"Location": "http://127.0.0.1:1/login"}},
		"HTML":                       {Status: 200, Body: "<html>", Header: html},
		"JSON":                       {Status: 200, Body: "{}"},
		"ends at once":               {SSE: true, Raw: notice},
		"is cut":                     {Cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			s.On("GET", func(*mcptest.Request) *mcptest.Reply { return &rep })
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			begun := time.Now()
			st := ready(t, hub, "a", 0)
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("ready after %s", took)
			}
			s.Await(t, "the GET", func() bool { return s.Count("GET") > 0 })
			together(t, hub, 20, "beside the stream", s)
			now, _ := hub.Server("a")
			if now.Generation != st.Generation || now.State != "connected" || s.Count("initialize") != 1 {
				t.Errorf("%+v", now)
			}
			// Two attempts at most by then. A cut GET is repeated by net/http
			// itself on each further pooled connection, and each call may have
			// left one.
			most := 2
			if rep.Cut {
				most += 20
			}
			if n := s.Count("GET"); n > most {
				t.Errorf("%d GETs", n)
			}
		})
	}
}

// B3: a call whose answer stalls ends at its deadline, as unknown, and the
// server is told: by a notice, or by the end of the stream.
func TestFaultB3StalledCallEndsAtItsDeadline(t *testing.T) {
	for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{Era: era})
			s.Next("tools/call", 1, mcptest.Reply{Hang: true, SSE: true})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			begun := time.Now()
			_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "work", Params: []byte(`{"name":"work"}`)})
			f := fault.From("", err)
			if f == nil || f.Kind != fault.Deadline || f.Outcome != fault.Unknown || time.Since(begun) > 2*time.Second {
				t.Errorf("%v after %s", err, time.Since(begun))
			}
			s.Await(t, "the server is told", func() bool {
				return era == mcptest.Legacy && len(s.Cancelled()) == 1 || era == mcptest.Modern && s.Closings() > 0
			})
			together(t, hub, 5, "after it", s)
			if now, _ := hub.Server("a"); now.Generation != st.Generation {
				t.Errorf("generation %d, was %d", now.Generation, st.Generation)
			}
		})
	}
}

// B4: what changed while the standing stream was cut is found out when it is
// open again, in both eras.
func TestFaultB4R4ChangesInAGapAreFound(t *testing.T) {
	for name, era := range map[string]mcptest.Era{"GET": mcptest.Legacy, "listen": mcptest.Modern} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{Era: era})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			ready(t, hub, "a", 0)
			s.Await(t, "the stream", func() bool { return s.Listeners() == 1 })
			s.SetTools(safeTool)
			s.CutStreams()
			untilNames(t, hub, "safe")
			s.Await(t, "the stream again", func() bool { return s.Listeners() == 1 })
			s.SetTools(safeTool, `{"name":"more","inputSchema":{"type":"object"}}`)
			s.Notify("notifications/tools/list_changed", "")
			untilNames(t, hub, "safe", "more")
			if n := s.Count("initialize") + s.Count("server/discover"); n > 2 {
				t.Errorf("%d handshakes", n)
			}
		})
	}
}

// B5: a server that leaves answered streams open delays no call and no close.
func TestFaultB5StreamsLeftOpen(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			s.Handler().ServeHTTP(w, r)
			return
		}
		answer := &kept{ResponseWriter: w}
		s.Handler().ServeHTTP(answer, r)
		answer.finish(r.Context())
	}))
	hub := open(t, servers{"a": f.web()}, everline.Options{})
	ready(t, hub, "a", 0)
	begun := time.Now()
	for range 50 {
		mustCall(t, hub, "echo", `{}`)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("50 calls took %s", took)
	}
	begun = time.Now()
	if err := hub.Close(within(t)); err != nil || time.Since(begun) > 3*time.Second {
		t.Errorf("closing took %s: %v", time.Since(begun), err)
	}
}

// kept turns a JSON answer into an event stream that is never ended.
type kept struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (k *kept) WriteHeader(status int) { k.status = status }
func (k *kept) Write(p []byte) (int, error) {
	k.body = append(k.body, p...)
	return len(p), nil
}

func (k *kept) finish(ctx context.Context) {
	if k.status == 0 {
		k.status = http.StatusOK
	}
	if !strings.HasPrefix(k.Header().Get("Content-Type"), "application/json") || k.status != http.StatusOK {
		k.ResponseWriter.WriteHeader(k.status)
		_, _ = k.ResponseWriter.Write(k.body)
		return
	}
	k.Header().Set("Content-Type", "text/event-stream")
	k.ResponseWriter.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(k.ResponseWriter, "data: "+string(k.body)+"\n\n")
	_ = http.NewResponseController(k.ResponseWriter).Flush()
	<-ctx.Done()
}

// B7: a proxy that holds streams back until they end costs time and no call.
func TestFaultB7BufferingProxy(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffered := &held{ResponseWriter: w}
		s.Handler().ServeHTTP(buffered, r)
		buffered.release()
	}))
	hub := open(t, servers{"a": f.web()}, everline.Options{})
	ready(t, hub, "a", 0)
	var mu sync.Mutex
	var steps []string
	for range 3 {
		_, err := hub.Call(within(t), &everline.Call{
			Method: "tools/call", Name: "work",
			Params: []byte(`{"name":"work","arguments":{"id":"x","ms":30,"steps":3},"_meta":{"progressToken":"t"}}`),
			Progress: func(p []byte) {
				mu.Lock()
				defer mu.Unlock()
				steps = append(steps, string(p))
			},
		})
		if err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(steps) != 9 || !strings.Contains(steps[0], `"progress":1`) {
		t.Errorf("progress %v", steps)
	}
}

// held keeps everything back until release.
type held struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (h *held) WriteHeader(status int) { h.status = status }
func (h *held) Flush()                 {}
func (h *held) Write(p []byte) (int, error) {
	h.body = append(h.body, p...)
	return len(p), nil
}

func (h *held) release() {
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
	}
	_, _ = h.ResponseWriter.Write(h.body)
}

// C6: a rate limit on the handshake, on a listing or on a call pauses the
// server for the time that it names. Nothing else happens: no fallback, no new
// session, no strike.
func TestFaultC6RateLimitsAreObeyed(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"429": {Status: 429, Header: map[string]string{"Retry-After": "1"}},
		"503": {Status: 503, Header: map[string]string{"Retry-After": "1"}},
	} {
		for _, method := range []string{"initialize", "tools/list", "tools/call"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				s := mcptest.New(mcptest.Config{})
				s.Next(method, 1, rep)
				hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
				ready(t, hub, "a", 0)
				if method == "tools/call" {
					together(t, hub, 1, "the limited one", s)
				}
				together(t, hub, 10, "after it", s)
				if at := s.Requests(method); len(at) < 2 || at[1].At.Sub(at[0].At) < 950*time.Millisecond {
					t.Errorf("%d requests of %s, not a second apart", len(at), method)
				}
				wantInit := 1
				if method == "initialize" {
					wantInit = 2
				}
				if n := s.Count("initialize"); n != wantInit || s.Sessions() != 1 {
					t.Errorf("%d initializes, %d sessions", n, s.Sessions())
				}
			})
		}
	}
}

// C7: one bad answer of the network or of something in front of the server
// fails no harmless call and poisons nothing; any other call says that its
// outcome is unknown.
func TestFaultC7TransientErrorsPoisonNothing(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"500": {Status: 500}, "502": {Status: 502}, "503": {Status: 503}, "504": {Status: 504},
		"reset": {Cut: true}, "HTML": {Status: 200, Body: "<html>", Header: map[string]string{"Content-Type": "text/html"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			hub := open(t, servers{"a": web(mcptest.Web(t, s))}, everline.Options{})
			st := ready(t, hub, "a", 0)
			mustCall(t, hub, "echo", `{}`)
			s.Next("tools/call", 1, rep)
			mustCall(t, hub, "echo", `{"n":2}`)
			s.Next("tools/call", 1, rep)
			_, err := call(t, hub, "work", `{"id":"w"}`)
			if f := fault.From("", err); f == nil || f.Outcome != fault.Unknown || errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			mustCall(t, hub, "echo", `{"n":3}`)
			if now, _ := hub.Server("a"); now.Generation != st.Generation || s.Count("initialize") != 1 {
				t.Errorf("generation %d, was %d", now.Generation, st.Generation)
			}
			if s.Executions("w") != 0 {
				t.Error("the call was sent again")
			}
		})
	}
}

// C1, C2, C3: many reconnects, failing starts, calls and changes of the
// configuration at once: never more than one handshake at a time reaches the
// server, whoever asks for it, and no session is left behind. Where generations
// may overlap, a start that was given up may end beside the next one.
func TestFaultC3OneGateForEveryStart(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var mu sync.Mutex
	now, most, n := 0, 0, 0
	s.On("initialize", func(*mcptest.Request) *mcptest.Reply {
		mu.Lock()
		now++
		most = max(most, now)
		n++
		fails := n%3 == 0
		mu.Unlock()
		<-time.After(2 * time.Millisecond) // the handshake's own length, so that two would overlap
		mu.Lock()
		now--
		mu.Unlock()
		if fails {
			return &mcptest.Reply{Status: 500}
		}
		return nil
	})
	set := servers{"a": with(web(mcptest.Web(t, s)), map[string]any{
		"overlap": false, "retry": map[string]any{"firstDelay": "20ms", "maxDelay": "100ms"},
	})}
	hub := open(t, set, everline.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	churn := func(f func()) {
		all.Go(func() {
			for ctx.Err() == nil {
				f()
			}
		})
	}
	for i := range 4 {
		churn(func() { _ = hub.Reconnect(ctx, "a") })
		churn(func() { _ = once(hub, "work", `{"id":"x"}`) })
		if i == 0 {
			churn(func() { _, _ = hub.Disable(ctx, "a"), hub.Enable(ctx, "a") })
			churn(func() { s.DropSessions(); mustApply(t, hub, set) })
		}
	}
	all.Wait()
	if err := hub.Enable(within(t), "a"); err != nil { // the last one may have come too late
		t.Error(err)
	}
	ready(t, hub, "a", 0)
	together(t, hub, 5, "after the churn", s)
	if most != 1 {
		t.Errorf("%d handshakes at the same time", most)
	}
	s.Await(t, "one session is left", func() bool { return s.Sessions() == 1 })
}

// mustApply applies the set with another header each time: a new generation is due.
func mustApply(t *testing.T, hub *everline.Hub, set servers) {
	server := map[string]any{}
	for k, v := range set["a"] {
		server[k] = v
	}
	server["headers"] = map[string]string{"X-Turn": time.Now().String()}
	if _, err := hub.Apply(within(t), servers{"a": server}.config(t)); err != nil {
		t.Error(err)
	}
}

// D2: a server that takes the handshake and does not answer holds up neither
// the others nor the first list; when it comes, that is announced.
func TestFaultD2SilentServerHoldsNobodyUp(t *testing.T) {
	slow := mcptest.New(mcptest.Config{Tools: []string{safeTool}})
	release := make(chan struct{})
	f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			slow.Handler().ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	set := servers{"slow": f.web()}
	for _, name := range []string{"b", "c", "d"} {
		set[name] = web(mcptest.Web(t, mcptest.New(mcptest.Config{Tools: []string{safeTool}})))
	}
	hub := open(t, set, everline.Options{})
	begun := time.Now()
	gateway.ViewOf(hub, "").WaitFirst(within(t))
	if took := time.Since(begun); took > soon/2 { // until the test ends, if it waited for the silent one
		t.Errorf("the first list took %s", took)
	}
	names := toolNames(hub)
	slices.Sort(names)
	if !slices.Equal(names, []string{"b__safe", "c__safe", "d__safe"}) {
		t.Errorf("the first list has %v", names)
	}
	for _, name := range []string{"b__safe", "c__safe", "d__safe"} {
		mustCall(t, hub, name, `{}`)
	}
	told := make(chan struct{}, 16)
	defer hub.OnChange(func([]everline.Kind) { told <- struct{}{} })()
	close(release)
	ready(t, hub, "slow", 0)
	select {
	case <-told:
	case <-within(t).Done():
		t.Error("the late server was not announced")
	}
	mustCall(t, hub, "slow__safe", `{}`)
}

// D5: a server whose port opens later is found without anybody asking.
func TestFaultD5ServerThatComesLater(t *testing.T) {
	s := mcptest.New(mcptest.Config{Tools: []string{safeTool}})
	f := serveAt(t, s.Handler())
	f.shut()
	hub := open(t, servers{"a": with(f.web(), map[string]any{"retry": map[string]any{
		"fastFor": "20ms", "firstDelay": "10ms", "slowProbe": "200ms",
	}})}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.State != "failed" || st.Next.IsZero() || st.Cause == nil || st.Cause.Kind != fault.Dial {
		t.Errorf("%+v, %v", st, err)
	}
	f.open()
	untilNames(t, hub, "safe")
	mustCall(t, hub, "safe", `{}`)
}
