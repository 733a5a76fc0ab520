package observe

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/usage"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

var instant = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scripted is a source that has something of everything.
func scripted() Source {
	cfg := config.New()
	for _, name := range []string{"github", "notes"} {
		cfg.Servers = append(cfg.Servers, config.NewServer(name))
	}
	cfg.Servers[0].Required = true
	github := everline.Status{
		Name: "github", State: event.StateConnected, Generation: 4, Transport: config.TransportStdio, PID: 7, Era: everline.EraModern, Version: "2026-07-28",
		Offered: [4]int{41, 1, 0, 2}, Tokens: 9000, CatalogAt: instant, Since: instant, Outage: 1500 * time.Millisecond, Out: 3, Waiting: 1,
		Handshake: []everline.HandshakePhase{{Name: "spawn", Took: 2 * time.Millisecond}, {Name: "list", Took: 30 * time.Millisecond}},
	}
	notes := everline.Status{
		Name: "notes", State: event.StateDisconnected, Generation: 2, Attempt: 2, Transport: config.TransportHTTP, Since: instant,
		AwaySince: instant.Add(-time.Minute), Next: instant.Add(time.Second), Outage: time.Minute,
		Auth: &everline.Credential{ExpiresAt: instant.Add(time.Hour), Refreshes: 5, Failures: 1},
	}
	g, n := meter.New(), meter.New()
	for i := range 9 {
		g.Call(&event.CallFacts{Method: "tools/call", Took: time.Duration(i) * 3 * time.Millisecond, Sends: 1, ParamBytes: 100, Bytes: 1000})
		g.Sent(time.Duration(i) * 2 * time.Millisecond)
	}
	saved := event.CallFacts{Method: "tools/call", Began: instant, Took: time.Second, Sends: 2, Saved: event.ByReplay}
	g.Call(&saved)
	g.Sampled([16]byte{1, 2, 15: 255}, &saved)
	g.Call(&event.CallFacts{Method: "prompts/get", Took: time.Second, Result: event.CallUnknown, Kind: fault.Broken, Sends: 1})
	g.Repeated(fault.Exited)
	g.Started(meter.First)
	g.Started(meter.Cause(fault.Exited))
	g.Limited(2 * time.Second)
	g.Event(event.Connected{Took: 40 * time.Millisecond, After: 90 * time.Millisecond})
	g.Event(event.Lost{Cause: fault.New(fault.Exited, "", "")})
	g.Event(event.ListFailed{Cause: fault.New(fault.Broken, "", "")})
	g.Event(event.CatalogChanged{})
	g.Linked(meter.Link{}, meter.Link{Late: 1, Noise: 2, Ignored: 3, Stderr: 400, CPU: 1500 * time.Millisecond})
	g.Drilled("kill")
	g.CountTools(true)
	g.Tool("search", event.CallAnswered, func() bool { return true })
	g.Tool("made up", event.CallRPCError, func() bool { return false })
	n.Parked(meter.Failed, 4*time.Second)
	n.Event(event.StartFailed{Cause: fault.New(fault.Dial, "", "")})
	nowhere := meter.New()
	clients := meter.NewEndpoint()
	clients.Refuse("read+write", "rate")
	clients.Own("tools/list", false)
	clients.Own("vendor/method", true)
	clients.Lasted.Observe(90 * time.Second)
	clients.OverHTTP.Observe(120 * time.Microsecond)
	nowhere.Call(&event.CallFacts{Method: "tools/call", Result: event.CallRefused, Kind: fault.NotFound})
	return Source{
		Version: "v1.2.3",
		Status:  func() []everline.Status { return []everline.Status{github, notes} },
		Config:  func() *config.Config { return cfg },
		Counts: func() map[string]meter.Counts {
			return map[string]meter.Counts{"": nowhere.Read(), "github": g.Read(), "notes": n.Read()}
		},
		Pins: func() []everline.PinChange {
			return []everline.PinChange{{Server: "github", Tool: "a", Withheld: true}, {Server: "github", Tool: "b"}}
		},
		Orphans: func() []everline.Orphan { return []everline.Orphan{{Ended: true}} },
		Catalog: func() *everline.Catalog { return &catalog.Table{} },
		Ready:   func() bool { return true },
		Audit:   func() (uint64, bool) { return 3, true },
		Reloads: func() Reloads { return Reloads{Applied: 2, Refused: 1, OK: true, Last: instant} },
		Events:  func() map[string]uint64 { return map[string]uint64{"connected": 5, "lost": 4} },
		Clients: clients.Read,
		Viewers: func() int { return 2 },
		Trees:   func() usage.Trees { return usage.Trees{7: {Processes: 2, Resident: 12 << 20, CPU: 3 * time.Second}} },
		Lost:    func() map[string]uint64 { return map[string]uint64{"spans": 4} },
	}
}

func scrapeOf(t *testing.T, s Source, accept string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	Handler(Registry(s)).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// ours are the lines about everline itself, without what differs between builds.
func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "everline_") {
			b.WriteString(regexp.MustCompile(`(revision|goversion)="[^"]*"`).ReplaceAllString(line, `$1=""`))
		}
	}
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; go test ./internal/observe -rewrite, and read the diff. Now it is\n%s", path, got)
	}
}

func TestScrape(t *testing.T) {
	text := scrapeOf(t, scripted(), "")
	golden(t, "testdata/scrape.golden", ours(text))
	problems, err := promlint.New(strings.NewReader(ours(text))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if parsed[f.name] == nil {
			t.Errorf("%s is not in the scripted scrape", f.name)
		}
	}
	for _, name := range []string{"process_start_time_seconds", "go_goroutines", "go_memstats_heap_alloc_bytes"} {
		if parsed[name] == nil {
			t.Errorf("no %s", name)
		}
	}
}

// OpenMetrics ends with its mark, and names counters without their suffix.
func TestOpenMetrics(t *testing.T) {
	text := scrapeOf(t, scripted(), "application/openmetrics-text; version=1.0.0")
	if !strings.HasSuffix(text, "# EOF\n") || !strings.Contains(text, "# TYPE everline_calls counter\n") {
		t.Errorf("%s", text)
	}
}

// The newest recorded trace of a bucket stands there, and nowhere in the older format.
func TestExemplars(t *testing.T) {
	const accept, want = "application/openmetrics-text; version=1.0.0", `_bucket{server="github",le="1.0"} 11 # {trace_id="010200000000000000000000000000ff"} 1.0 `
	if text := scrapeOf(t, scripted(), accept); strings.Count(text, "trace_id") != 1 || !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
	if text := scrapeOf(t, scripted(), ""); strings.Contains(text, "trace_id") {
		t.Errorf("%s", text)
	}
}

// What a server's processes have used never falls, though they are looked at only now and
// then, and what has just ended is known a moment later; and nothing is counted twice.
func TestCPUNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted()
		var live, over time.Duration
		s.Trees = func() usage.Trees { return usage.Trees{7: {Processes: 1, Resident: 1, CPU: live}} }
		s.Counts = func() map[string]meter.Counts {
			return map[string]meter.Counts{"": {}, "github": {Links: meter.Link{CPU: over}}}
		}
		r := Handler(Registry(s))
		for i, c := range []struct{ live, over, want time.Duration }{
			{3 * time.Second, 0, 3 * time.Second},
			{0, 0, 3 * time.Second}, // it has ended, and its parent has not heard of it
			{0, 4 * time.Second, 4 * time.Second},
			{time.Second, 4 * time.Second, 5 * time.Second},
			{9 * time.Second, 4 * time.Second, 5 * time.Second}, // nobody has looked again
			{9 * time.Second, 14 * time.Second, 14 * time.Second},
		} {
			if i != 4 && i != 5 {
				time.Sleep(treeAge)
			}
			live, over = c.live, c.over
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if want := fmt.Sprintf("everline_server_process_cpu_seconds_total{server=\"github\"} %v\n", c.want.Seconds()); !strings.Contains(w.Body.String(), want) {
				t.Errorf("%+v: no %s", c, want)
			}
		}
	})
}

// Who decides about the histograms of single servers.
func TestHistogramsOfServers(t *testing.T) {
	for _, c := range []struct {
		servers int
		is      config.PerServer
		there   bool
	}{
		{2, config.PerServerAuto, true},
		{2, "", true},
		{2, config.PerServerOff, false},
		{manyServers + 1, config.PerServerAuto, false},
		{manyServers + 1, config.PerServerOn, true},
	} {
		s := scripted()
		all, counts, cfg := s.Status(), s.Counts(), s.Config()
		for i := len(all); i < c.servers; i++ {
			st := all[0]
			st.Name = fmt.Sprint(i)
			all, counts[st.Name] = append(all, st), meter.New().Read()
		}
		cfg.MetricsPerServer = c.is
		s.Status, s.Counts = func() []everline.Status { return all }, func() map[string]meter.Counts { return counts }
		text := scrapeOf(t, s, "")
		for _, name := range []string{"everline_call_duration_seconds_bucket", "everline_server_recovery_seconds_bucket"} {
			if strings.Contains(text, name) != c.there {
				t.Errorf("%d servers, %q: %s", c.servers, c.is, name)
			}
		}
		if !strings.Contains(text, "everline_upstream_duration_seconds_bucket") {
			t.Error("no histogram of all servers")
		}
	}
}

// The series depend on what is configured, and on nothing that clients choose.
func TestSeriesAreBounded(t *testing.T) {
	for _, c := range []struct{ servers, most int }{{10, 1500}, {100, 12_000}, {1000, 60_000}} {
		s := scripted()
		var all []everline.Status
		counts := map[string]meter.Counts{"": meter.New().Read()}
		for i := range c.servers {
			m := meter.New()
			for j := range 300 {
				f := event.CallFacts{Method: "tools/call", Name: fmt.Sprintf("tool%d", j), Result: event.CallResult(j % event.CallResults), Kind: fault.Kind(j % 4), Sends: 1}
				if j%2 == 0 {
					f.Method, f.Result = fmt.Sprintf("vendor/method%d", j), event.CallAnswered
				}
				m.Call(&f)
			}
			st := s.Status()[0]
			st.Name = fmt.Sprintf("s%d", i)
			all, counts[st.Name] = append(all, st), m.Read()
		}
		s.Status, s.Counts = func() []everline.Status { return all }, func() map[string]meter.Counts { return counts }
		n := 0
		for line := range strings.Lines(scrapeOf(t, s, "")) {
			if strings.HasPrefix(line, "everline_") {
				n++
			}
		}
		if n > c.most {
			t.Errorf("%d series for %d servers", n, c.servers)
		}
	}
}

// The page has every metric, and no other.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		labels := strings.Join(f.labels, ", ")
		if labels == "" {
			labels = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labels, f.help)
	}
	const path = "../../docs/reference/metrics.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- the table is generated -->\n\n"
	before, _, _ := strings.Cut(string(page), mark)
	golden(t, path, before+mark+b.String())
}

// Names that the rules, the dashboard and the pages use are names that there are.
func TestNamesAreKnown(t *testing.T) {
	known := map[string]bool{}
	for _, f := range families {
		known[f.name] = true
		if f.kind == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				known[f.name+part] = true
			}
		}
	}
	for _, path := range []string{
		"../../packaging/prometheus/everline.rules.yml", "../../packaging/prometheus/everline.rules.test.yml",
		"../../packaging/grafana/everline.json", "../../docs/how-to/watch-it.md",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range regexp.MustCompile(`\beverline_[a-z_]+`).FindAllString(string(text), -1) {
			if !known[name] && !strings.HasPrefix(name, "everline_call_failure") {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
}

// A scrape of a hub that is in use blocks nobody; with the race detector this
// says that all of it may be read at any time.
func TestScrapeOfAHub(t *testing.T) {
	hub, err := everline.Open(t.Context(), config.New(), everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(context.Background())
	s := scripted()
	s.Status, s.Config, s.Catalog, s.Orphans, s.Pins = hub.Status, hub.Config, hub.Catalog, hub.Orphans, hub.PinChanges
	var names []string
	sc := bufio.NewScanner(strings.NewReader(ours(scrapeOf(t, s, ""))))
	for sc.Scan() {
		names = append(names, sc.Text())
	}
	if !slices.ContainsFunc(names, func(l string) bool { return strings.HasPrefix(l, "everline_ready 1") }) {
		t.Errorf("%q", names)
	}
}
