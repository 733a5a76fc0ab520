package systest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/telemetry"
)

// A relay is an endpoint in front of one server, and what that server gets.
type relay struct {
	url  string
	got  chan mcptest.Request
	meta string // of requests, for their era
}

// relayTo relays to a server of an era, and records if the environment says so.
func relayTo(t *testing.T, era string, rec *telemetry.Telemetry, o everline.Options) *relay {
	t.Helper()
	s := mcptest.New(mcptest.Config{Era: otlpEras[era]})
	r := &relay{got: make(chan mcptest.Request, 1), meta: `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`}
	s.On("tools/call", func(q *mcptest.Request) *mcptest.Reply {
		r.got <- *q
		return nil
	})
	hub := open(t, servers{"s": web(mcptest.Web(t, s))}, o)
	ready(t, hub, "s", 0)
	opts := gateway.Options{}
	if rec != nil {
		opts.Recorder = rec
		t.Cleanup(func() { _ = rec.Close(within(t)) })
	}
	g := gateway.ForHub(hub, opts)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	site := httptest.NewServer(g.Handler())
	t.Cleanup(site.Close)
	r.url = site.URL + "/mcp"
	return r
}

// call makes a call with these members of _meta and these fields of the header, and
// returns what the server got.
func (r *relay) call(t *testing.T, meta string, header ...string) mcptest.Request {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{"n":1.0e2,"z":"\u00e4"},"name":"echo","_meta":{` + r.meta + meta + `},"x":[ 1 ]}}`
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
	} {
		req.Header.Set(key, value)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case got := <-r.got:
		return got
	default:
		t.Fatalf("the server was not asked: %s", resp.Status)
		return mcptest.Request{}
	}
}

const (
	callerMeta = `,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00","tracestate":"a=1,b=2","baggage":"k=v"`
	sampled    = `,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1,b=2","baggage":"k=v"`
)

// P8: what the server gets while nothing is recorded of a call is byte for byte what
// it gets without telemetry, whatever the caller says of its trace.
func TestUnsampledBytes(t *testing.T) {
	to := newStub(t)
	for _, era := range []string{"legacy", "modern"} {
		off := relayTo(t, era, nil, everline.Options{})
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
		t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
		rec, o := recording(t)
		on := relayTo(t, era, rec, o)
		for what, x := range map[string]struct {
			meta   string
			header []string
		}{
			"no context": {}, "an unsampled caller": {meta: callerMeta}, "a bad context": {meta: `,"traceparent":"00-1-2-01"`}, "no text": {meta: `,"traceparent":7`},
			"two contexts": {meta: sampled + sampled}, "an unsampled POST": {header: []string{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}},
		} {
			plain, recorded := off.call(t, x.meta, x.header...), on.call(t, x.meta, x.header...)
			if a, b := sameID(plain.Params), sameID(recorded.Params); a != b {
				t.Errorf("%s, %s:\n%s\n%s", era, what, a, b)
			}
			if recorded.Header.Get("Traceparent") != "" {
				t.Errorf("%s, %s: the server is told of a trace", era, what)
			}
		}
	}
}

// sameID leaves out the progress tokens, which follow from what else was sent.
func sameID(params []byte) string {
	return regexp.MustCompile(`"progressToken":\d+`).ReplaceAllString(string(params), "")
}

// What a recorded call tells its server: of everline's span in place of the caller's,
// in _meta and in the header; tracestate and baggage as they came.
func TestSampledContext(t *testing.T) {
	to := newStub(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.url)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, era := range []string{"legacy", "modern"} {
		rec, o := recording(t)
		r := relayTo(t, era, rec, o)
		for _, c := range []struct {
			what, meta string
			header     []string
			trace      string // "": another one than the caller's
			rest       string // what follows the context in _meta
		}{
			{"by _meta", sampled, nil, trace, `","tracestate":"a=1,b=2","baggage":"k=v"`},
			{"by the POST", "", []string{"traceparent", "00-" + trace + "-" + parent + "-01", "tracestate", "a=1", "tracestate", "b=2"}, trace, `"`},
			{"by both", sampled, []string{"traceparent", "00-11111111111111111111111111111111-2222222222222222-01"}, trace, `","tracestate":"a=1,b=2","baggage":"k=v"`},
			{"by nobody", "", nil, "", `"`},
			{"badly", `,"traceparent":"00-` + strings.ToUpper(trace) + `-` + parent + `-01","baggage":"k=v"`, nil, "", `","baggage":"k=v"`},
			{"badly by _meta, well by the POST", `,"traceparent":"x"`, []string{"traceparent", "00-" + trace + "-" + parent + "-01"}, trace, `"`},
			{"twice by the POST", "", []string{"traceparent", "00-" + trace + "-" + parent + "-01", "traceparent", "00-" + trace + "-" + parent + "-01"}, "", `"`},
		} {
			got := r.call(t, c.meta, c.header...)
			found := regexp.MustCompile(`"traceparent":"00-([0-9a-f]{32})-([0-9a-f]{16})-01(".*?)[,}]`).FindStringSubmatch(string(got.Params))
			if found == nil || !strings.Contains(string(got.Params), found[2]+"-01"+c.rest) {
				t.Fatalf("%s, %s: %s", era, c.what, got.Params)
			}
			if found[2] == parent || (found[1] == trace) != (c.trace == trace) {
				t.Errorf("%s, %s: the server is told of %s-%s", era, c.what, found[1], found[2])
			}
			if head := got.Header.Get("Traceparent"); head != "00-"+found[1]+"-"+found[2]+"-01" {
				t.Errorf("%s, %s: the header says %q", era, c.what, head)
			}
			if c.what == "by the POST" && !strings.Contains(string(got.Params), `"tracestate":"a=1,b=2"`) {
				t.Errorf("%s: tracestate of the POST is lost: %s", era, got.Params)
			}
		}
		if err := rec.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		links := 0
		for _, sp := range to.of("everline", "SERVER", "tools/call echo") {
			if sp.link == "2222222222222222" {
				links++
			}
		}
		if want := map[string]int{"legacy": 1, "modern": 2}[era]; links != want { // the stub keeps those before
			t.Errorf("%s: %d spans have the context of their POST as a link, and should %d", era, links, want)
		}
	}
}
