package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestErrorTable compares what every kind of fault becomes with a golden file:
// the texts are read by models and people, so each change of one is seen.
func TestErrorTable(t *testing.T) {
	var out bytes.Buffer
	for kind := fault.Internal; kind <= fault.Closed; kind++ {
		for _, outcome := range []fault.Outcome{fault.NotSent, fault.Unknown, fault.Answered} {
			f := &fault.Fault{Kind: kind, Op: "tools/call", Server: "github", Gen: 7, Outcome: outcome}
			decorate(f)
			describe(&out, f)
		}
	}
	for _, f := range special() {
		describe(&out, f)
	}
	golden(t, "testdata/errors.golden", out.Bytes())
}

// special are failures as the path below makes them, and that the table of
// kinds alone does not show.
func special() []*fault.Fault {
	waited := errors.New("the deadline passed while the server was reconnecting: exit 1")
	return []*fault.Fault{
		{Kind: fault.Closed, Op: "call", Outcome: fault.NotSent},
		{Kind: fault.Deadline, Op: "call", Server: "github", State: "connected", Gen: 7, Err: context.DeadlineExceeded},
		{Kind: fault.Deadline, Op: "call", Server: "github", State: "reconnecting", Gen: 7, Outcome: fault.NotSent, Err: waited, RetryAfter: 2 * time.Second},
		{Kind: fault.Internal, Op: "call", Server: "github", Gen: 7, Err: errors.New("a detail that is not for clients")},
		{Kind: fault.Exited, Op: "call", Server: "github", State: "disconnected", Gen: 7, Exit: "signal: killed", RetryAfter: 4 * time.Second},
	}
}

// decorate adds what usually comes with a kind.
func decorate(f *fault.Fault) {
	switch f.Kind {
	case fault.Exited:
		f.Exit, f.Stderr = "exit 1", []string{"one", "two", "three", "FATAL: \"four\""}
	case fault.Unavailable:
		f.Err, f.RetryAfter = errors.New("exit 1 after 0.4 s."), 27*time.Second
	case fault.RateLimited:
		f.Status, f.RetryAfter = 429, 1500*time.Millisecond
	case fault.HTTPStatus:
		f.Status = 502
	case fault.Unauthorized:
		f.Remedy = "everline auth login github"
	case fault.Disabled:
		f.Remedy = "everline enable github"
	case fault.Dial:
		f.Err = errors.New("dial tcp 127.0.0.1:1: connection refused")
	case fault.RPC:
		f.RPC = &fault.RPCError{Code: -5, Message: "m", Raw: []byte(`{"code":-5,"message":"m"}`)}
	default: // nothing more is told of the others
	}
}

func describe(out *bytes.Buffer, f *fault.Fault) {
	fmt.Fprintf(out, "== %s, %s\n", f.Kind, f.Outcome)
	for _, method := range []string{mcp.ToolsCall, mcp.PromptsGet} {
		rq := &Message{Message: wire.Message{ID: []byte("1"), Method: method}, Fields: fields{name: []byte(`"n"`)}, Modern: true}
		a := rq.Failure(f)
		status := a.Status
		if status == 0 {
			status = 200
		}
		fmt.Fprintf(out, "%s %d %s\n", method, status, a.Frame())
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -rewrite to accept:\n%s", file, got)
	}
}

func TestErrorTableIsWhole(t *testing.T) {
	if n := int(fault.Closed) + 1; len(verdicts) != n {
		t.Fatalf("%d verdicts for %d kinds", len(verdicts), n)
	}
	for kind, v := range verdicts {
		if v.code == 0 {
			t.Errorf("%s has no verdict", fault.Kind(kind))
		}
		standard := v.code == mcp.CodeMethodNotFound || v.code == mcp.CodeInvalidParams || v.code == mcp.CodeInternal
		if v.code >= -32768 && v.code <= -32000 && !standard {
			t.Errorf("%s has a code in the reserved range: %d", fault.Kind(kind), v.code)
		}
	}
}

func TestOutcomeIsJSON(t *testing.T) {
	f := &fault.Fault{
		Kind: fault.Broken, Server: "only", Gen: 3, Outcome: fault.Unknown, Err: errors.New("a \"quoted\"\ncause"), RetryAfter: time.Second,
	}
	if got := string(Outcome(f)); got != `{"outcome":"unknown","server":"only","generation":3,"kind":"broken","cause":"a \"quoted\"\ncause","retryAfterMs":1000}` {
		t.Errorf("got %s", got)
	}
	m := &Message{Message: wire.Message{ID: []byte("1"), Method: mcp.ToolsCall}}
	a := m.Failure(f)
	if !json.Valid(a.Frame()) {
		t.Errorf("not JSON: %s", a.Frame())
	}
}
