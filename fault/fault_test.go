package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/fault"
)

func TestFromClassifiesOnce(t *testing.T) {
	f := &fault.Fault{Kind: fault.Dial, Op: "initialize", Outcome: fault.NotSent, Err: io.EOF}
	if got := fault.From("tools/call", fmt.Errorf("wrapped: %w", f)); got != f {
		t.Errorf("a fault in the chain became %+v", got)
	}
	for err, want := range map[error]fault.Kind{
		context.Canceled:         fault.Canceled,
		context.DeadlineExceeded: fault.Deadline,
		io.EOF:                   fault.Internal,
	} {
		got := fault.From("op", fmt.Errorf("x: %w", err))
		if got.Kind != want || got.Op != "op" || !errors.Is(got, err) || got.Outcome != fault.Unknown {
			t.Errorf("From(%v) = %+v, want kind %s", err, got, want)
		}
	}
	if fault.From("op", nil) != nil {
		t.Error("From(nil) is not nil")
	}
}

func TestIsMatchesKindsOnly(t *testing.T) {
	err := fmt.Errorf("x: %w", fault.New(fault.Wedged, "ping", "silence"))
	if !errors.Is(err, &fault.Fault{Kind: fault.Wedged}) {
		t.Error("a fault does not match its kind")
	}
	if errors.Is(err, &fault.Fault{Kind: fault.Broken}) {
		t.Error("a fault matches another kind")
	}
	if errors.Is(err, fault.New(fault.Wedged, "ping", "silence")) {
		t.Error("a fault that says more than a kind is not a pattern")
	}
}

func TestErrorNamesWhatIsKnown(t *testing.T) {
	f := fault.New(fault.Exited, "tools/call", "exit 1")
	for want, got := range map[string]string{
		"tools/call: exit 1":                 f.Error(),
		"github: tools/call: exit 1":         f.At("github", 0).Error(),
		"github (gen 3): tools/call: exit 1": f.At("github", 3).Error(),
		"not found":                          (&fault.Fault{Kind: fault.NotFound}).Error(),
		"no such tool (-32602)":              (&fault.Fault{Kind: fault.RPC, RPC: &fault.RPCError{Code: -32602, Message: "no such tool"}}).Error(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if at := f.At("a", 1).At("b", 2); at.Server != "a" || at.Gen != 1 || f.Server != "" {
		t.Errorf("At changed what was known: %+v, or its receiver: %+v", at, f)
	}
}

// A fault that another fault of the same server caused says the rest once.
func TestCauseIsNamedOnce(t *testing.T) {
	first := &fault.Fault{Kind: fault.Exited, Op: "serve", Server: "a", Gen: 1, Err: io.EOF}
	f := &fault.Fault{Kind: fault.Exited, Op: "tools/call", Server: "a", Gen: 1, Err: first.Cause()}
	if got, want := f.Error(), "a (gen 1): tools/call: EOF"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(f, io.EOF) || !errors.Is(f.Err, &fault.Fault{Kind: fault.Exited}) {
		t.Error("the cause cannot be found any more")
	}
}

// Every kind has a name, and only failures that the link is to blame for are
// strikes.
// TestText has what people and models read of a failure.
func TestText(t *testing.T) {
	for want, f := range map[string]*fault.Fault{
		`The server "a" is not available now: exit 1. The request was not sent, so nothing was executed. Send it again in 2s.`: {
			Kind: fault.Unavailable, Op: "tools/call", Server: "a", Outcome: fault.NotSent, Err: errors.New("exit 1"), RetryAfter: 2 * time.Second,
		},
		`The connection to the server "a" was lost. The request was sent, and whether it was executed is unknown. Check what happened before sending it again: it may be executed twice.`: {
			Kind: fault.Broken, Op: "tools/call", Server: "a",
		},
		`The connection to the server "a" was lost. The request was sent, and whether it was executed is unknown. It is safe to send it again.`: {
			Kind: fault.Broken, Op: "resources/read", Server: "a",
		},
		`The process of the server "a" ended: exit 1. The last it wrote to stderr: "no key". What a person can do: everline logs a.`: {
			Kind: fault.Exited, Op: "start", Server: "a", Exit: "exit 1", Stderr: []string{"no key"}, Remedy: "everline logs a",
		},
		`The server "a" is disabled. The request was not sent, so nothing was executed. Sending it again cannot help before someone has fixed this. What a person can do: everline enable a.`: {
			Kind: fault.Disabled, Op: "tools/call", Server: "a", Outcome: fault.NotSent, Err: nil, Remedy: "everline enable a",
		},
		`Not found: nothing here is called x.`:                   {Kind: fault.NotFound, Op: "tools/call", Err: errors.New("nothing here is called x")},
		`f.json:3:1: broken JSON. What a person can do: fix it.`: {Kind: fault.Invalid, Op: "read configuration", Err: errors.New("f.json:3:1: broken JSON"), Remedy: "fix it"},
		`The server "a" answered with an error: no (-5).`:        {Kind: fault.RPC, Op: "tools/call", Server: "a", Outcome: fault.Answered, RPC: &fault.RPCError{Code: -5, Message: "no"}},
		`Everline failed on this request. The request was not sent, so nothing was executed. It is safe to send it again.`: {
			Kind: fault.Internal, Op: "tools/call", Outcome: fault.NotSent, Err: errors.New("a detail"),
		},
	} {
		if got := f.Text(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for k := fault.Internal; k <= fault.Closed; k++ {
		if text := (&fault.Fault{Kind: k}).Text(); len(text) < 10 || strings.Contains(text, "%s") {
			t.Errorf("%s is %q", k, text)
		}
	}
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	var blamed []string
	for k := fault.Internal; k <= fault.Closed; k++ {
		name := k.String()
		if name == "" || strings.HasPrefix(name, "kind(") || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[name] = true
		if k.BlamesLink() {
			blamed = append(blamed, name)
		}
	}
	if got, want := strings.Join(blamed, " "), "dial broken exited wedged http_status protocol"; got != want {
		t.Errorf("strikes: %s, want %s", got, want)
	}
	if got := (fault.Closed + 1).String(); got != "kind(27)" {
		t.Errorf("an unknown kind is called %q", got)
	}
}

func TestOutcomesDefaultToUnknown(t *testing.T) {
	var f fault.Fault
	if got := f.Outcome.String() + fault.NotSent.String() + fault.Answered.String(); got != "unknownnot_sentanswered" {
		t.Error(got)
	}
}
