package admin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

// U12: who calls a tool through the socket fills in the forms that its server
// asks for; what nobody fills in is refused with the way out.
func TestFaultU12CallsAnswerForms(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	var got []string
	var errs []error
	ask := func(method, params string) func(context.Context, everline.Client) {
		return func(ctx context.Context, client everline.Client) {
			result, err := client.Ask(ctx, method, []byte(params))
			got, errs = append(got, string(result)), append(errs, err)
		}
	}
	form := ask(mcp.ElicitationCreate, `{"message":"?"}`)
	h.during = func(ctx context.Context, client everline.Client) {
		form(ctx, client)
		form(ctx, client)
	}
	n := 0
	fill := func(params json.RawMessage) json.RawMessage {
		n++
		if string(params) != `{"message":"?"}` {
			t.Errorf("asked %s", params)
		}
		return json.RawMessage(`{"action":"accept","content":{"n":1.0}}`)
	}
	result, unanswered, err := c.CallAsked(t.Context(), CallRequest{Server: "up", Tool: "t"}, fill)
	if err != nil || unanswered != "" || string(result) != `{"content":[],"n":1.0}` || n != 2 {
		t.Errorf("%s, %q, %v after %d forms", result, unanswered, err, n)
	}
	for i, g := range got {
		if errs[i] != nil || g != `{"action":"accept","content":{"n":1.0}}` {
			t.Errorf("the server got %s, %v", g, errs[i])
		}
	}
	h.fail = &fault.Fault{Kind: fault.Exited, Op: "tools/call", Server: "up"}
	if _, _, err := c.CallAsked(t.Context(), CallRequest{Tool: "t"}, fill); fault.KindOf(err) != fault.Exited {
		t.Errorf("a call that fails behind a form: %v", err)
	}
	h.fail = nil
	for _, refused := range []struct {
		method, params string
		fill           func(json.RawMessage) json.RawMessage
		text           string
	}{
		{mcp.ElicitationCreate, `{"message":"?"}`, nil, "make the call on a terminal"},
		{mcp.ElicitationCreate, `{"mode":"url","message":"?"}`, fill, "serves forms alone"},
		{"sampling/createMessage", `{}`, fill, "serves forms alone"},
		{"roots/list", ``, nil, "serves forms alone"},
	} {
		got, errs, h.during = nil, nil, ask(refused.method, refused.params)
		_, unanswered, err := c.CallAsked(t.Context(), CallRequest{Tool: "t"}, refused.fill)
		if err != nil || unanswered != refused.method || fault.KindOf(errs[0]) != fault.Unsupported || !strings.Contains(errs[0].Error(), refused.text) {
			t.Errorf("%s: %q, %v, the server was told %v", refused.method, unanswered, err, errs[0])
		}
	}
}

// An answer that nobody waits for changes nothing, and a call that ends ends its
// questions.
func TestFaultU12AnswersThatNobodyWaitsFor(t *testing.T) {
	h := newFake(t)
	c := serve(t, h, NewJournal())
	for body, kind := range map[string]fault.Kind{
		`{"id":"x","result":{}}`:   fault.NotFound,
		`{"id":"x","result":[]}`:   fault.Invalid,
		`{"id":"x","result":null}`: fault.Invalid,
		`{"id":"x"}`:               fault.Invalid,
		`{`:                        fault.Invalid,
	} {
		if _, err := c.do(t.Context(), "POST", "/v1/answer", []byte(body)); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", body, err)
		}
	}
	over := make(chan struct{})
	h.during = func(ctx context.Context, client everline.Client) {
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		left := make(chan error)
		go func() { // ends with short
			_, err := client.Ask(short, mcp.ElicitationCreate, []byte(`{"message":"?"}`))
			left <- err
		}()
		cancel()
		if err := <-left; fault.KindOf(err) != fault.Canceled {
			t.Errorf("the question ended with %v", err)
		}
		close(over)
	}
	late := func(json.RawMessage) json.RawMessage {
		<-over
		return json.RawMessage(`{"action":"accept"}`)
	}
	if result, _, err := c.CallAsked(t.Context(), CallRequest{Tool: "t"}, late); err != nil || len(result) == 0 {
		t.Errorf("the call ended with %s, %v", result, err)
	}
}
