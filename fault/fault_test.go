package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

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
