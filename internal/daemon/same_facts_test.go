package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/observe"
)

// A place is a server that is reached without a network, in one of few conditions.
type place struct {
	srv *mcptest.Server

	mu   sync.Mutex // guards cond and cut
	cond string     // up, away or login
	cut  context.CancelFunc
	all  context.Context // ended by cut
}

func newPlace(cond string) *place {
	p := &place{srv: mcptest.New(mcptest.Config{Era: mcptest.Modern, Tools: toolsOf(0)}), cond: cond}
	p.all, p.cut = context.WithCancel(context.Background())
	return p
}

// toolsOf is what a server lists; another n is another definition.
func toolsOf(n int) []string {
	return []string{
		fmt.Sprintf(`{"name":"t","description":"%d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, n),
		`{"name":"u","inputSchema":{"type":"object"}}`,
	}
}

// become changes the condition; what is under way in the old one breaks.
func (p *place) become(cond string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	p.cond = cond
	p.all, p.cut = context.WithCancel(context.Background())
}

// RoundTrip implements http.RoundTripper.
func (p *place) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	cond, all := p.cond, p.all
	p.mu.Unlock()
	if cond == "away" {
		return nil, errors.New("nobody is there")
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	context.AfterFunc(all, func() { cancel(errors.New("cut")) })
	body, w := io.Pipe()
	out := &answerTo{head: http.Header{}, w: w, written: make(chan int, 1)}
	go func() { // ends with the handler, whose context ends with the place
		if cond == "login" {
			out.head.Set("WWW-Authenticate", "Bearer")
			out.WriteHeader(http.StatusUnauthorized)
		} else {
			p.srv.Handler().ServeHTTP(out, r.Clone(ctx))
		}
		out.WriteHeader(http.StatusOK)
		_ = w.CloseWithError(context.Cause(ctx))
	}()
	context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) })
	select {
	case code := <-out.written:
		return &http.Response{StatusCode: code, Header: out.head.Clone(), Body: body, Request: r, ContentLength: -1, ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// An answerTo writes the response to one request.
type answerTo struct {
	head    http.Header
	w       *io.PipeWriter
	once    sync.Once
	written chan int
}

func (a *answerTo) Header() http.Header  { return a.head }
func (a *answerTo) WriteHeader(code int) { a.once.Do(func() { a.written <- code }) }
func (a *answerTo) Flush()               { a.WriteHeader(http.StatusOK) }
func (a *answerTo) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.w.Write(b)
}

// A scene is a daemon without listeners, its servers and its clients.
type scene struct {
	t      *testing.T
	r      *rand.Rand
	d      *daemon
	places map[string]*place
	names  []string

	mu      sync.Mutex
	events  []event.Event
	results [event.CallResults]uint64 // as the clients saw them
	calls   sync.WaitGroup
}

func newScene(t *testing.T, seed uint64) *scene {
	s := &scene{t: t, r: rand.New(rand.NewPCG(seed, 12)), places: map[string]*place{}}
	cfg := config.New()
	cfg.Pins, cfg.PinsFile = config.PinsEnforce, filepath.Join(t.TempDir(), "pins.json")
	for i, cond := range []string{"up", "up", "up", "away", "login"} {
		name := "abcde"[i : i+1]
		s.names = append(s.names, name)
		s.places[name] = newPlace(cond)
		server := config.NewServer(name)
		server.Transport, server.URL, server.Required = config.TransportHTTP, "http://"+name+".test/mcp", i < 2
		server.Retry.FastFor, server.Retry.SlowProbe = 20*time.Second, time.Minute
		server.Lazy, server.IdleTimeout = i == 2, time.Minute
		server.DrainTimeout = time.Second
		server.Headers = map[string]string{"Authorization": "Bearer x"} // so that a login is looked for nowhere
		cfg.Servers = append(cfg.Servers, server)
	}
	off := config.NewServer("off")
	off.Command, off.Disabled = "x", true
	cfg.Servers = append(cfg.Servers, off)
	s.names = append(s.names, "off")
	s.d = &daemon{journal: admin.NewJournal(), clients: meter.NewEndpoint()}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{
		Emit: s.emit, RoundTripper: func(server string, _ http.RoundTripper) http.RoundTripper { return s.places[server] },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.d.hub = hub
	s.d.api = admin.New(admin.Options{Hub: hub, Journal: s.d.journal})
	return s
}

func (s *scene) emit(e event.Event) {
	s.d.journal.Record(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *scene) end() {
	s.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.d.hub.Close(ctx); err != nil {
		s.t.Error(err)
	}
	for _, p := range s.places {
		p.become("away")
		p.srv.Close()
	}
	synctest.Wait()
}

// step is one thing that happens; it says which.
func (s *scene) step() string {
	name := s.names[s.r.IntN(len(s.names))]
	p, ctx := s.places[name], context.Background()
	switch n := s.r.IntN(12); {
	case n < 5:
		tool := []string{name + "__t", name + "__u", name + "__none", "none"}[s.r.IntN(4)]
		delay, limit := time.Duration(s.r.IntN(4))*time.Second, time.Duration(1+s.r.IntN(20))*time.Second
		s.calls.Go(func() { s.call(tool, delay, limit) })
		return "call " + tool
	case n < 7 && p != nil:
		cond := []string{"up", "up", "away", "login"}[s.r.IntN(4)]
		p.become(cond)
		return name + " is " + cond
	case n == 7 && p != nil:
		n := s.r.IntN(3)
		p.srv.SetTools(toolsOf(n)...)
		return fmt.Sprint(name, " changes to ", n)
	case n == 8:
		_ = s.d.hub.Disable(ctx, name)
		return "disable " + name
	case n == 9 && name != "off":
		_ = s.d.hub.Enable(ctx, name)
		return "enable " + name
	case n == 10:
		_, _ = s.d.hub.Approve(ctx, name, "")
		return "approve " + name
	default:
		_ = s.d.hub.Reconnect(ctx, name)
		return "reconnect " + name
	}
}

func (s *scene) call(tool string, delay, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := s.d.hub.Call(ctx, &everline.Call{
		Method: "tools/call", Name: tool, Params: fmt.Appendf(nil, `{"name":%q,"arguments":{"delay":%d}}`, tool, delay.Milliseconds()),
	})
	f := fault.From("", err)
	result := event.CallAnswered
	if f != nil {
		result = event.ResultOf(f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[result]++
}

// series are the samples of a scrape, by name and labels.
func (s *scene) series() map[string]float64 {
	w := httptest.NewRecorder()
	observe.Handler(s.d.metrics()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	all := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "everline_") {
			i := strings.LastIndexByte(line, ' ')
			v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			all[line[:i]] = v
		}
	}
	return all
}

func (s *scene) ask(path string, to any) {
	w := httptest.NewRecorder()
	s.d.api.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
		s.t.Fatal(err)
	}
}

// facts are what status, pins and events say, as the metrics would.
type facts map[string]float64

func (f facts) put(v float64, name string, labels ...string) {
	var b strings.Builder
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(&b, ",%s=%q", labels[i], labels[i+1])
	}
	if b.Len() > 0 {
		name += "{" + b.String()[1:] + "}"
	}
	f["everline_"+name] += v
}

func (f facts) at(t *time.Time, name, server string) {
	if t != nil {
		f.put(float64(t.UnixMilli())/1000, name, "server", server)
	}
}

func (s *scene) facts() facts {
	f := facts{}
	var st admin.Status
	s.ask("/v1/status", &st)
	f.put(one(st.Ready), "ready")
	for _, server := range st.Servers {
		f.server(&server)
	}
	var pins admin.Pins
	s.ask("/v1/pins", &pins)
	for _, name := range s.names {
		f.put(0, "pins_unapproved", "server", name)
		f.put(0, "pins_withheld", "server", name)
	}
	for _, c := range pins.Changes {
		f.put(1, "pins_unapproved", "server", c.Server)
		f.put(one(c.Withheld), "pins_withheld", "server", c.Server)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		f.put(0, "catalog_changes_total", "server", name)
	}
	for _, e := range s.events {
		f.event(e)
	}
	for result, n := range s.results {
		f.put(float64(n), "calls_total", "outcome", event.CallResult(result).String())
	}
	return f
}

func (f facts) server(st *admin.Server) {
	n := st.Name
	for _, state := range []event.State{
		event.StateDisabled, event.StateIdle, event.StateConnecting, event.StateConnected, event.StateReconnecting,
		event.StateDisconnected, event.StateDisabling, event.StateAuthRequired, event.StateMisconfigured, event.StateFailed,
	} {
		f.put(one(st.State == state), "server_state", "server", n, "state", string(state))
	}
	if st.State != event.StateDisabled && st.State != event.StateDisabling {
		f.put(one(st.State == event.StateConnected || st.State == event.StateIdle), "server_up", "server", n)
	}
	f.put(float64(st.Generation), "server_generation", "server", n)
	f.put(float64(st.Attempt), "server_attempts", "server", n)
	f.at(st.Since, "server_state_since_timestamp_seconds", n)
	f.at(st.AwaySince, "server_away_since_timestamp_seconds", n)
	f.at(st.NextAttempt, "server_next_attempt_timestamp_seconds", n)
	f.at(st.CatalogAt, "catalog_timestamp_seconds", n)
	f.put(float64(st.OutageMS)/1000, "server_outage_seconds_total", "server", n)
	f.put(float64(st.Out), "calls_in_flight", "server", n)
	f.put(float64(st.Waiting), "calls_waiting", "server", n)
	f.put(float64(st.ToolTokens), "catalog_tokens", "server", n)
	for kind, k := range map[string]int{"tool": st.All().Tools, "prompt": st.All().Prompts, "resource": st.All().Resources, "template": st.All().Templates} {
		f.put(float64(k), "catalog_items", "kind", kind, "server", n)
	}
	for _, p := range st.Handshake {
		f.put(p.MS/1000, "server_start_phase_seconds", "phase", p.Phase, "server", n)
	}
	o := st.Outcomes
	for result, k := range map[event.CallResult]uint64{
		event.CallAnswered: o.Answered, event.CallToolError: o.ToolError, event.CallRPCError: o.RPCError, event.CallNotSent: o.NotSent,
		event.CallUnknown: o.Unknown, event.CallRefused: o.Refused, event.CallCanceled: o.Canceled,
	} {
		f.put(float64(k), "calls_total", "outcome", result.String(), "server", n)
	}
	f.put(float64(st.Saved), "calls_saved_total", "server", n)
	f.put(float64(st.Repeated), "sends_repeated_total", "server", n)
	f.put(float64(st.Parked), "calls_parked_total", "server", n)
	f.put(float64(st.Starts), "server_generations_total", "server", n)
}

// event is one event; status and metrics are said to count the same.
func (f facts) event(e event.Event) {
	f.put(1, "events_total", "kind", admin.EventKind(e))
	n := e.About().Server
	switch e := e.(type) {
	case event.Connecting:
		f.put(1, "server_generations_total", "cause", e.Why, "server", n)
	case event.Lost:
		f.put(1, "server_losses_total", "cause", e.Cause.Kind.String(), "server", n)
	case event.StartFailed:
		f.put(1, "server_start_failures_total", "cause", e.Cause.Kind.String(), "server", n)
	case event.ListFailed:
		f.put(1, "catalog_failures_total", "cause", e.Cause.Kind.String(), "server", n)
	case event.CatalogChanged:
		f.put(1, "catalog_changes_total", "server", n)
	}
}

// counted are the facts by the metrics: those that facts has, with the sums over
// labels that status does not tell.
func counted(series map[string]float64) facts {
	f := facts{}
	same := []string{
		"ready", "server_state", "server_up", "server_generation", "server_attempts", "server_state_since_timestamp_seconds",
		"server_away_since_timestamp_seconds", "server_next_attempt_timestamp_seconds", "catalog_timestamp_seconds",
		"server_outage_seconds_total", "calls_in_flight", "calls_waiting", "catalog_tokens", "catalog_items", "server_start_phase_seconds",
		"pins_unapproved", "pins_withheld", "events_total", "server_generations_total", "server_losses_total", "server_start_failures_total",
		"catalog_failures_total", "catalog_changes_total",
	}
	label := func(labels, name string) string {
		_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for key, v := range series {
		name, labels, _ := strings.Cut(strings.TrimPrefix(key, "everline_"), "{")
		server := label(labels, "server")
		switch name {
		case "calls_total":
			outcome := label(labels, "outcome")
			f.put(v, name, "outcome", outcome)
			if server != "" {
				f.put(v, name, "outcome", outcome, "server", server)
			}
		case "calls_saved_total", "sends_repeated_total", "calls_parked_total":
			f.put(v, name, "server", server)
		case "server_generations_total":
			f.put(v, name, "server", server)
		}
		if slices.Contains(same, name) {
			f[key] = v
		}
	}
	return f
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// difference is what two sets of facts do not agree about: what is 0 need not be said.
func difference(said, counted facts) (lines []string) {
	for key, v := range said {
		if got := counted[key]; got-v > 0.0011 || v-got > 0.0011 { // status has whole milliseconds
			lines = append(lines, fmt.Sprintf("%s is %v by status and events, and %v by the metrics", key, v, got))
		}
	}
	for key, v := range counted {
		if _, ok := said[key]; !ok && v != 0 {
			lines = append(lines, fmt.Sprintf("%s is %v by the metrics alone", key, v))
		}
	}
	slices.Sort(lines)
	return lines
}

// sameFacts is how many scenes of so many steps are played.
const sameScenes, sameSteps = 4, 80

// Whatever happens to servers and calls, status, events and metrics tell the same at
// each moment, and the clients saw it: P12.
func TestStatusEventsAndMetricsTellTheSame(t *testing.T) {
	seen := map[event.State]int{}
	var withheld, waiting float64
	for seed := range uint64(sameScenes) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, seed)
			defer s.end()
			var story []string
			for range sameSteps {
				story = append(story, s.step())
				time.Sleep(time.Duration(s.r.IntN(3000)) * time.Millisecond)
				synctest.Wait()
				said, series := s.facts(), s.series()
				if d := difference(said, counted(series)); len(d) > 0 {
					t.Fatalf("seed %d: behind %s\n%s", seed, strings.Join(story, ", "), strings.Join(d, "\n"))
				}
				for _, st := range s.d.hub.Status() {
					seen[st.State]++
				}
				for _, name := range s.names {
					withheld += series[fmt.Sprintf("everline_pins_withheld{server=%q}", name)]
					waiting += series[fmt.Sprintf("everline_calls_waiting{server=%q}", name)]
				}
			}
		})
	}
	t.Logf("states %v, %v withheld, %v waiting", seen, withheld, waiting)
	for _, state := range []event.State{
		event.StateDisabled, event.StateIdle, event.StateConnected, event.StateDisconnected, event.StateAuthRequired, event.StateFailed,
	} {
		if seen[state] == 0 {
			t.Errorf("no server was %s", state)
		}
	}
	if withheld == 0 || waiting == 0 {
		t.Error("nothing was withheld, or nothing waited")
	}
}
