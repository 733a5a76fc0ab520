package systest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
)

var rewriteOTLP = flag.Bool("otlp.rewrite", false, "write the golden traces anew")

// otlpTools are named after what becomes of calls to them.
var otlpTools = []string{
	`{"name":"answers","inputSchema":{"type":"object"}}`, `{"name":"refuses","inputSchema":{"type":"object"}}`,
	`{"name":"fail","inputSchema":{"type":"object"}}`, `{"name":"asks","inputSchema":{"type":"object"}}`,
	`{"name":"dies","inputSchema":{"type":"object"}}`,
	`{"name":"dies_once","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
}

// otlpScript has a server do what its tools are called. dies is what it does instead
// of an answer, and first tells whether that is the first time.
func otlpScript(s *mcptest.Server, dies mcptest.Reply, first func() bool) {
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		switch p := string(r.Params); {
		case strings.Contains(p, `"refuses"`):
			return &mcptest.Reply{Error: `{"code":-32050,"message":"hunter2 is not enough"}`}
		case strings.Contains(p, `"dies"`), strings.Contains(p, `"dies_once"`) && first():
			return &dies
		case strings.Contains(p, `"asks"`):
			r.Send(`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
			s.Await(alone{}, "an answer", func() bool { return len(s.Answers()) > 0 })
		}
		return nil
	})
}

// alone is a server that has no test to fail.
type alone struct{ testing.TB }

func (alone) Helper()                           {}
func (alone) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

const (
	otlpChildEra  = "EVERLINE_TEST_OTLP_ERA"
	otlpChildOnce = "EVERLINE_TEST_OTLP_ONCE"
)

// otlpChild does nothing in a test process.
func otlpChild() {
	switch era := os.Getenv(otlpChildEra); era {
	case "":
		return
	case "broken":
		fmt.Fprintln(os.Stderr, "no database")
		os.Exit(7)
	default:
		s := mcptest.New(mcptest.Config{Tools: otlpTools, Era: otlpEras[era]})
		otlpScript(s, mcptest.Reply{Exit: true}, func() bool {
			f, err := os.OpenFile(os.Getenv(otlpChildOnce), os.O_CREATE|os.O_EXCL, 0o600)
			return err == nil && f.Close() == nil
		})
		if s.Serve(os.Stdin, os.Stdout) != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
}

var otlpEras = map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern}

// What is exported for calls of each kind, and for starts, is what the golden files
// say: one for each era of the server over each way to it.
func TestExportedTraces(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, kind := range []string{"stdio", "http"} {
			t.Run(kind+" "+era, func(t *testing.T) {
				to := newStub(t)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
				t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
				playOTLP(t, kind, era)
				to.isGolden(t, kind+"-"+era)
			})
		}
	}
}

// Of calls that the sampler left out those are exported that were sent again, or whose
// outcome is unknown, with all their sends and waits.
func TestExportedTracesOfInterest(t *testing.T) {
	for _, c := range [][2]string{{"stdio", "legacy"}, {"http", "modern"}} {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			to := newStub(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
			t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
			playOTLP(t, c[0], c[1])
			to.isGolden(t, c[0]+"-"+c[1]+"-of-interest")
		})
	}
}

// isGolden compares what was exported with a file.
func (s *stub) isGolden(t *testing.T, name string) {
	t.Helper()
	got, file := s.forest(), filepath.Join("testdata", "otlp", name+".golden")
	if *rewriteOTLP {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v; exported was\n%s", err, got)
	}
}

// otlpServer is one that does what its tools are called.
func otlpServer(t *testing.T, kind, era string) map[string]any {
	if kind == "stdio" {
		return map[string]any{"command": os.Args[0], "env": map[string]string{
			otlpChildEra: era, otlpChildOnce: filepath.Join(t.TempDir(), "died"), "GORACE": "atexit_sleep_ms=0",
		}}
	}
	s := mcptest.New(mcptest.Config{Tools: otlpTools, Era: otlpEras[era]})
	var once sync.Once
	otlpScript(s, mcptest.Reply{Cut: true}, func() (first bool) {
		once.Do(func() { first = true })
		return first
	})
	return web(mcptest.Web(t, s))
}

// playOTLP makes one call to each tool, one after the other, over HTTP.
func playOTLP(t *testing.T, kind, era string) {
	t.Helper()
	rec, o := recording(t)
	failed := make(chan struct{})
	once := sync.OnceFunc(func() { close(failed) })
	o.Emit = func(e event.Event) {
		if f, ok := e.(event.StartFailed); ok && f.Server == "broken" {
			once()
		}
	}
	hub, err := everline.Open(within(t), servers{"s": otlpServer(t, kind, era), "broken": {
		"command": os.Args[0], "env": map[string]string{otlpChildEra: "broken", "GORACE": "atexit_sleep_ms=0"},
	}}.config(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rec.Close(within(t)) }()
	defer func() { _ = hub.Close(context.Background()) }()
	g := gateway.ForHub(hub, gateway.Options{Recorder: rec})
	defer func() { _ = g.Close(context.Background()) }()
	site := httptest.NewServer(g.Handler())
	defer site.Close()
	ready(t, hub, "s", 0)
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	version := map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
	transport := &mcp.StreamableClientTransport{Endpoint: site.URL + "/mcp", HTTPClient: http.DefaultClient}
	session, err := c.Connect(within(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, tool := range []string{"s__answers", "s__fail", "s__refuses", "s__dies_once", "s__dies", "s__asks", "nobodys"} {
		if tool == "s__asks" && era == "modern" {
			continue // such a server asks by its result
		}
		_, _ = session.CallTool(within(t), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}) // what becomes of it is in the trace
		if kind == "stdio" {
			ready(t, hub, "s", map[string]uint64{"s__dies_once": 1, "s__dies": 2}[tool])
		}
	}
	<-failed
}

// varies is what is another in each run.
var (
	varies = regexp.MustCompile(`(client\.port|server\.port|jsonrpc\.request\.id|mcp\.session\.id|everline\.state)=.*`)
	timed  = regexp.MustCompile(`[0-9.]+ m?s$`)
)

// forest is all that everline has exported of starts and then of calls, as text: each
// span below its parent, in the order in which they began.
func (s *stub) forest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := func(sp *tracedSpan) string { // before all calls, by server and generation
		if sp.parent == "" && strings.HasPrefix(sp.name, "everline.start") {
			return sp.name + sp.attrs["everline.generation"]
		}
		return "later"
	}
	slices.SortFunc(s.spans, func(a, b tracedSpan) int {
		return cmp.Or(cmp.Compare(starts(&a), starts(&b)), cmp.Compare(a.began, b.began))
	})
	var b strings.Builder
	var grow func(parent, indent string)
	grow = func(parent, indent string) {
		for _, sp := range s.spans {
			if sp.parent != parent {
				continue
			}
			if parent == "" && !(strings.HasPrefix(sp.name, "tools/call") || sp.name == "everline.start s" || sp.name == "everline.start broken" && sp.attrs["everline.generation"] == "1") {
				continue
			}
			fmt.Fprintf(&b, "%s%s %s%s\n", indent, sp.kind, sp.name, timed.ReplaceAllString(sp.status, "…"))
			for _, key := range slices.Sorted(maps.Keys(sp.attrs)) {
				b.WriteString(indent + "  " + varies.ReplaceAllString(key+"="+sp.attrs[key], "$1=…") + "\n")
			}
			grow(sp.id, indent+"    ")
		}
	}
	grow("", "")
	return b.String()
}
