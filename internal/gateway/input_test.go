package gateway

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/rounds"
)

// A booth makes modern calls without a transport.
type booth struct {
	t   *testing.T
	g   *Gateway
	hub *hub
}

func newBooth(t *testing.T, onCall func(ctx context.Context, c *everline.Call) ([]byte, error)) *booth {
	h := newHub()
	h.onCall = onCall
	b := &booth{t: t, g: New(h, Options{}), hub: h}
	t.Cleanup(func() { _ = b.g.Close(context.Background()) })
	return b
}

// inSession is the key under which a context of call names a session.
var inSession = new(int)

// call sends tools/call for a tool; extra params begin with a comma.
func (b *booth) call(ctx context.Context, tool, extra string) string {
	b.t.Helper()
	return b.callWith(ctx, tool, "{}", extra)
}

func (b *booth) callWith(ctx context.Context, tool, arguments, extra string) string {
	b.t.Helper()
	body := strings.Replace(modernBody("1", "tools/call", `,"name":"`+tool+`","arguments":`+arguments+extra),
		`clientCapabilities":{}`, `clientCapabilities":{"elicitation":{},"roots":{}}`, 1)
	if session, ok := ctx.Value(inSession).(string); ok {
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"everline/session":"`+session+`",`, 1)
	}
	m, bad := message.Parse([]byte(body), "")
	if bad != nil {
		b.t.Fatal(string(bad.Frame()))
	}
	a := b.g.serve(ctx, b.g.exchange(m))
	return string(a.Frame())
}

// state is the requestState of an interim result, as raw JSON.
func (b *booth) state(interim string) string {
	b.t.Helper()
	_, rest, ok := strings.Cut(interim, `"requestState":`)
	if !ok || !strings.Contains(interim, `"resultType":"input_required"`) {
		b.t.Fatalf("no interim result: %s", interim)
	}
	return rest[:strings.Index(rest[1:], `"`)+2]
}

// asksOnce asks one question, and answers the call with what came back.
func asksOnce(ctx context.Context, c *everline.Call) ([]byte, error) {
	got, err := c.Client.Ask(ctx, mcp.ElicitationCreate, []byte(`{"message":"?"}`))
	if err != nil {
		return nil, err
	}
	return []byte(`{"content":[],"got":` + string(got) + `}`), nil
}

const yes = `,"inputResponses":{"elicitation-1":{"action":"accept","n":1.0}},"requestState":`

func TestACallIsParkedAndResumed(t *testing.T) {
	b := newBooth(t, asksOnce)
	first := b.call(t.Context(), "echo", "")
	if !strings.Contains(first, `"inputRequests":{"elicitation-1":{"method":"elicitation/create","params":{"message":"?"}}}`) {
		t.Errorf("first %s", first)
	}
	if last := b.call(t.Context(), "echo", yes+b.state(first)); !strings.Contains(last, `"got":{"action":"accept","n":1.0}`) {
		t.Errorf("last %s", last)
	}
	if again := b.call(t.Context(), "echo", yes+b.state(first)); !strings.Contains(again, `"code":-32602`) {
		t.Errorf("a state that was used: %s", again)
	}
}

func TestARequestStateIsGoodForItsOwnRequestAlone(t *testing.T) {
	calls := 0
	b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
		if calls++; calls == 1 {
			return asksOnce(ctx, c)
		}
		return nil, fault.New(fault.Invalid, c.Method, "the server does not know this state")
	})
	b.hub.publish(item("echo", `{"name":"echo"}`), item("other", `{"name":"other"}`))
	const arguments = `{"path":"/a","n":[1,{"x":1.0,"y":null}]}`
	state := b.state(b.callWith(t.Context(), "echo", arguments, ""))
	changed := []byte(state)
	changed[len(changed)-5] ^= 1
	named := context.WithValue(t.Context(), inSession, madeUpID)
	const foreign, others = "the server does not know this state", "that of another request"
	for name, try := range map[string]struct {
		ctx                    context.Context
		tool, arguments, state string
		want                   string
	}{
		"another tool":    {t.Context(), "other", arguments, state, others},
		"other arguments": {t.Context(), "echo", strings.Replace(arguments, "1.0", "1.5", 1), state, others},
		"another session": {named, "echo", arguments, state, others},
		"changed":         {t.Context(), "echo", arguments, string(changed), foreign},
		"cut":             {t.Context(), "echo", arguments, state[:30] + `"`, foreign},
	} {
		if got := b.callWith(try.ctx, try.tool, try.arguments, yes+try.state); !strings.Contains(got, try.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if last := b.callWith(t.Context(), "echo", `{ "n": [1, {"y":null, "x":1.0}], "path": "\u002fa" }`, yes+state); !strings.Contains(last, `"got":`) {
		t.Errorf("the call itself: %s", last)
	}
}

func TestWhatARetryDoesNotBringIsAskedForAgain(t *testing.T) {
	b := newBooth(t, asksOnce)
	interim := b.call(t.Context(), "echo", "")
	first := b.state(interim)
	for range 3 {
		interim = b.call(t.Context(), "echo", `,"inputResponses":{"x":{}},"requestState":`+b.state(interim))
		if !strings.Contains(interim, `"elicitation-1"`) {
			t.Fatalf("not asked again: %s", interim)
		}
	}
	if old := b.call(t.Context(), "echo", yes+first); !strings.Contains(old, `"code":-32602`) {
		t.Errorf("a state of an earlier round: %s", old)
	}
	if last := b.call(t.Context(), "echo", yes+b.state(interim)); !strings.Contains(last, `"got":`) {
		t.Errorf("last %s", last)
	}
}

func TestRoundsAreCapped(t *testing.T) {
	b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
		for {
			if _, err := c.Client.Ask(ctx, mcp.ElicitationCreate, nil); err != nil {
				return nil, err
			}
		}
	})
	interim := b.call(t.Context(), "echo", "")
	for i := 1; i < rounds.Max; i++ {
		interim = b.call(t.Context(), "echo", fmt.Sprintf(`,"inputResponses":{"elicitation-%d":{}},"requestState":`, i)+b.state(interim))
	}
	last := b.call(t.Context(), "echo", fmt.Sprintf(`,"inputResponses":{"elicitation-%d":{}},"requestState":`, rounds.Max)+b.state(interim))
	if !strings.Contains(last, `"isError":true`) || !strings.Contains(last, "16 times") {
		t.Errorf("last %s", last)
	}
}

// A client that does not come back, or goes while its call runs, frees the
// call; so does the end of the gateway.
func TestParkedCallsEnd(t *testing.T) {
	ends := map[string]func(b *booth){
		"in time":          func(*booth) { time.Sleep(inputTime) },
		"with the gateway": func(b *booth) { _ = b.g.Close(context.Background()) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
					_, err := c.Client.Ask(ctx, mcp.RootsList, nil)
					ended <- err
					return nil, err
				})
				state := b.state(b.call(t.Context(), "echo", ""))
				time.Sleep(inputTime - time.Second)
				if len(ended) != 0 {
					t.Fatal("the call has ended too early")
				}
				end(b)
				synctest.Wait()
				if len(ended) != 1 || len(b.g.inputs.all) != 0 && name == "in time" {
					t.Fatalf("%d calls have ended, %d are kept", len(ended), len(b.g.inputs.all))
				}
				if late := b.call(t.Context(), "echo", yes+state); !strings.Contains(late, `"error"`) && !strings.Contains(late, "shutting down") {
					t.Errorf("late: %s", late)
				}
			})
		})
	}
	t.Run("with the client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			given := make(chan error, 1)
			b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
				_, _ = c.Client.Ask(ctx, mcp.ElicitationCreate, nil)
				<-ctx.Done()
				given <- ctx.Err()
				return nil, fault.From(c.Method, ctx.Err())
			})
			state := b.state(b.call(t.Context(), "echo", ""))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b.call(ctx, "echo", yes+state)
			if len(given) != 1 || len(b.g.inputs.all) != 0 {
				t.Errorf("%d calls were given up, %d are kept", len(given), len(b.g.inputs.all))
			}
		})
	})
}

// A question that crosses the client's cancel goes to no answer that nobody
// waits for: the call is given up, and its question is free for another.
func TestAQuestionThatCrossesACancel(t *testing.T) {
	for name, cross := range map[string]func(b *booth, cancel func(), sess uint64){
		"the cancel comes while questions are gathered": func(_ *booth, cancel func(), _ uint64) { time.Sleep(gatherGap / 2); cancel() },
		"the cancel comes behind the interim result": func(b *booth, _ func(), sess uint64) {
			time.Sleep(time.Second)
			b.g.inputs.revoke(sess+1, []byte("1")) // another client's
			b.g.inputs.revoke(sess, []byte("2"))   // of another request
			b.g.inputs.revoke(sess, []byte("1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan time.Time, 1)
				b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
					_, err := c.Client.Ask(ctx, mcp.ElicitationCreate, []byte(`{}`))
					free <- time.Now()
					return nil, err
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go b.call(ctx, "echo", "") // ends with the cancel, or an interim result
				synctest.Wait()
				b.g.inputs.mu.Lock()
				client, began := b.g.inputs.all[1].first.id, time.Now()
				b.g.inputs.mu.Unlock()
				cross(b, cancel, client)
				took := (<-free).Sub(began)
				synctest.Wait()
				b.g.inputs.mu.Lock()
				defer b.g.inputs.mu.Unlock()
				if took > time.Second || len(b.g.inputs.all) != 0 || b.g.inputs.waiting != 0 {
					t.Errorf("the question was free after %s, %d calls are kept, %d waited for", took, len(b.g.inputs.all), b.g.inputs.waiting)
				}
			})
		})
	}
}

func TestQuestionsAtOneTimeAreOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooth(t, func(ctx context.Context, c *everline.Call) ([]byte, error) {
			out := make(chan []byte, 2)
			for _, method := range []string{mcp.ElicitationCreate, mcp.RootsList} {
				go func() { // ends with its question
					got, _ := c.Client.Ask(ctx, method, nil)
					out <- got
				}()
				time.Sleep(gatherGap / 2)
			}
			return []byte(`{"content":[` + string(<-out) + `,` + string(<-out) + `]}`), nil
		})
		interim := b.call(t.Context(), "echo", "")
		if !strings.Contains(interim, `"elicitation-1"`) || !strings.Contains(interim, `"roots-2"`) {
			t.Fatalf("interim %s", interim)
		}
		half := b.call(t.Context(), "echo", yes+b.state(interim))
		if strings.Contains(half, `"elicitation-1"`) || !strings.Contains(half, `"roots-2"`) {
			t.Fatalf("half %s", half)
		}
		last := b.call(t.Context(), "echo", `,"inputResponses":{"roots-2":{"roots":[]}},"requestState":`+b.state(half))
		if !strings.Contains(last, `"roots":[]`) || !strings.Contains(last, `"accept"`) {
			t.Errorf("last %s", last)
		}
	})
}

func TestParkedCallsAreBounded(t *testing.T) {
	b := newBooth(t, asksOnce)
	b.g.inputs.waiting = maxPendingInput
	if got := b.call(t.Context(), "echo", ""); !strings.Contains(got, "too many") {
		t.Errorf("got %s", got)
	}
}

func TestAPanicEndsOneParkedCall(t *testing.T) {
	b := newBooth(t, func(context.Context, *everline.Call) ([]byte, error) { panic("planted") })
	if got := b.call(t.Context(), "echo", ""); !strings.Contains(got, `"kind":"internal"`) {
		t.Errorf("got %s", got)
	}
}

// TestInputRequiredReachesLegacyClient: rounds with a state, with none, and
// without questions; the state goes back exactly as it came.
func TestInputRequiredReachesLegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		var seen []string
		h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
			seen = append(seen, string(c.Params))
			switch len(seen) {
			case 1:
				return []byte(`{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"a\u0062 \/"}`), nil
			case 2:
				return []byte(`{"resultType":"input_required","requestState":"s2"}`), nil
			default:
				return []byte(`{"resultType":"complete","content":[]}`), nil
			}
		}
		g := New(h, Options{})
		defer g.Close(context.Background())
		s := g.sessions.New(mcp.LatestLegacy)
		s.Declare([]byte(`{"capabilities":{"roots":{"listChanged":true}}}`))
		m, _ := message.ParseLegacy([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","n":1.50}}`))
		x := g.exchange(m)
		x.sess = s
		x.out = sends(func(frame []byte) {
			q, err := parse1(string(frame))
			if err != nil {
				t.Error(err)
			}
			a, _ := message.ParseLegacy([]byte(`{"jsonrpc":"2.0","id":` + q.id + `,"result":{"roots":[ ]}}`))
			g.notice(&exchange{Message: a, sess: s})
		})
		a := g.serve(t.Context(), x)
		if got := string(a.Frame()); !strings.Contains(got, `"content":[]`) {
			t.Errorf("got %s", got)
		}
		wanted := []string{
			`{"name":"echo","n":1.50}`,
			`{"name":"echo","n":1.50,"inputResponses":{"k":{"roots":[ ]}},"requestState":"a\u0062 \/"}`,
			`{"name":"echo","n":1.50,"requestState":"s2"}`,
		}
		if fmt.Sprint(seen) != fmt.Sprint(wanted) {
			t.Errorf("the server saw\n%s", strings.Join(seen, "\n"))
		}
	})
}

func TestInputThatALegacyClientCannotGive(t *testing.T) {
	h := newHub()
	asked := 0
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		asked++
		return []byte(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{}}}}`), nil
	}
	s := serve(t, h, Options{})
	r := s.post(call("1", "echo", ""), s.initialize("2025-11-25"))
	want(t, r, 200, `"isError":true`, "input that it did not get", `{\"elicitation\":{\"form\":{}}}`)
	if asked != 1 {
		t.Errorf("the server was asked %d times", asked)
	}
}

// sends is an outlet to a client that is only sent what must not be lost.
type sends func(frame []byte)

func (sends) Log([]byte)          {}
func (f sends) Send(frame []byte) { f(frame) }

// A retry comes before the end of its time or after it, and an end that comes
// late is not that of the next round.
func TestTheEndOfTheTimeAndARetryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooth(t, asksOnce)
		for range 300 {
			state := b.state(b.call(t.Context(), "echo", ""))
			b.g.inputs.mu.Lock()
			p := b.g.inputs.all[b.g.inputs.next]
			expired, answer := make(chan struct{}), make(chan string, 1)
			go func() { // ends when the test lets the lock go
				defer close(expired)
				b.g.inputs.expire(p, 1)
			}()
			runtime.Gosched()
			go func() { answer <- b.call(t.Context(), "echo", yes+state) }() // likewise
			runtime.Gosched()
			b.g.inputs.mu.Unlock()
			<-expired
			if got := within(t, "the answer", answer); !strings.Contains(got, `"got":`) && !strings.Contains(got, "start over") {
				t.Fatalf("got %s", got)
			}
			if b.g.inputs.waiting != 0 {
				t.Fatalf("%d calls are waited for", b.g.inputs.waiting)
			}
		}
		again := b.call(t.Context(), "echo", `,"requestState":`+b.state(b.call(t.Context(), "echo", "")))
		b.g.inputs.expire(b.g.inputs.all[b.g.inputs.next], 1)
		if last := b.call(t.Context(), "echo", yes+b.state(again)); !strings.Contains(last, `"got":`) {
			t.Errorf("the second round ended with the time of the first: %s", last)
		}
	})
}
