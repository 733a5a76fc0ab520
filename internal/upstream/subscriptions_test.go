package upstream

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

func modernServer() *mcptest.Server {
	return mcptest.New(mcptest.Config{
		Era: mcptest.Modern, Prompts: []string{`{"name":"p"}`},
		Resources: []string{`{"name":"r","uri":"file:///a"}`},
	})
}

// standing tells how many streams of subscriptions/listen are open: memory has
// one listener more, the link itself.
func standing(s *mcptest.Server) int { return s.Listeners() - 1 }

func TestFaultR4_ListenIsOpenedAndHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		_, h := inMemory(t, s)
		synctest.Wait()
		if standing(s) != 1 {
			t.Fatalf("%d streams", standing(s))
		}
		p := string(s.Requests("subscriptions/listen")[0].Params)
		if !strings.Contains(p, `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`) {
			t.Errorf("listen asked with %s", p)
		}
		s.Notify("notifications/tools/list_changed", "")
		synctest.Wait()
		if n := h.count(catalog.Tools); n != 1 || len(h.changed) != 1 {
			t.Errorf("heard %v", h.changed)
		}
	})
}

// The server ends the stream every 2 s: it is opened again with growing
// delays that have jitter, and each gap counts as a change of everything it
// told about.
func TestFaultR4_RelistensWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		var opened []time.Duration
		begun := time.Now()
		s.On("subscriptions/listen", func(r *mcptest.Request) *mcptest.Reply {
			opened = append(opened, time.Since(begun))
			r.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
				string(r.ID) + `},"notifications":{"toolsListChanged":true}}}`)
			return &mcptest.Reply{Delay: 2 * time.Second, Result: `{"resultType":"complete"}`}
		})
		_, h := inMemory(t, s)
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if n := len(opened); n < 7 || n > 10 {
			t.Errorf("opened at %v", opened)
		}
		for i, most := range []time.Duration{1, 2, 4, 8, 16, 30} {
			most *= time.Second
			if gap := opened[i+1] - opened[i] - 2*time.Second; gap < most/2 || gap > most {
				t.Errorf("gap %d of %v, want one between %v and %v", i, gap, most/2, most)
			}
		}
		for _, k := range catalog.Kinds {
			if n := h.count(k); n != len(opened)-1 {
				t.Errorf("%v: %d changes for %d gaps", k, n, len(opened)-1)
			}
		}
	})
}

// A stream that lived for long starts the delays anew.
func TestFaultR4_ProvenLifeResetsTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		_, h := inMemory(t, s)
		for i := range 4 {
			time.Sleep(31 * time.Second)
			s.CutStreams()
			time.Sleep(time.Second)
			synctest.Wait()
			if standing(s) != 1 || h.count(catalog.Prompts) != i+1 {
				t.Fatalf("round %d: %d streams, %d changes", i, standing(s), h.count(catalog.Prompts))
			}
		}
	})
}

func TestFaultR4_RefusedIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Next("subscriptions/listen", 99, mcptest.Reply{Error: `{"code":-32601,"message":"Method not found"}`})
		u, h := inMemory(t, s)
		time.Sleep(time.Hour)
		if n := s.Count("subscriptions/listen"); n != 1 || len(h.changed) != 0 || u.Err() != nil {
			t.Errorf("%d listens, changes %v, ended %v", n, h.changed, u.Err())
		}
	})
}

// A stream that worked is opened again whatever refused it meanwhile, a server
// that is starting up or an ingress in front of it. A listing finds out what
// has become of the server, once; -32601 alone is final.
func TestFaultR4_RefusedOnceIsNotForEver(t *testing.T) {
	const starting = `{"code":-32603,"message":"starting up"}`
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		_, h := inMemory(t, s)
		synctest.Wait()
		s.Next("subscriptions/listen", 3, mcptest.Reply{Error: starting})
		s.CutStreams()
		time.Sleep(4 * time.Second)
		if n := h.count(catalog.Tools); n != 1 || s.Count("subscriptions/listen") < 3 {
			t.Errorf("%d changes while it is refused %d times", n, s.Count("subscriptions/listen")-1)
		}
		time.Sleep(time.Minute)
		if n := h.count(catalog.Tools); standing(s) != 1 || n != 2 {
			t.Errorf("%d streams, %d changes", standing(s), n)
		}
		s.Next("subscriptions/listen", 99, mcptest.Reply{Error: `{"code":-32601,"message":"Method not found"}`})
		s.CutStreams()
		was := s.Count("subscriptions/listen")
		time.Sleep(time.Hour)
		if n := s.Count("subscriptions/listen") - was; n != 1 || h.count(catalog.Tools) != 3 {
			t.Errorf("asked %d times for what is not there, %d changes", n, h.count(catalog.Tools))
		}
	})
	t.Run("of a resource", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := modernServer()
			u, h := inMemory(t, s)
			if err := subscribe(t, u, "file:///a"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s.Next("subscriptions/listen", 2, mcptest.Reply{Error: starting})
			s.CutStreams()
			time.Sleep(time.Minute)
			synctest.Wait()
			before := len(h.updated)
			s.Notify("notifications/resources/updated", `{"uri":"file:///a"}`)
			synctest.Wait()
			if standing(s) != 2 || len(h.updated) == before {
				t.Errorf("%d streams, %d updates", standing(s), len(h.updated)-before)
			}
		})
	})
}

// What changes between the first listing and the first stream is told to
// nobody: a stream that comes late is followed by a listing, one that comes at
// once is not.
func TestFaultR4_AFirstStreamThatComesLate(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 0, time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := modernServer()
			s.On("subscriptions/listen", func(*mcptest.Request) *mcptest.Reply {
				time.Sleep(late)
				return nil
			})
			u, h := inMemory(t, s)
			listAll(t, u, nil)
			time.Sleep(2 * time.Second)
			if n := h.count(catalog.Tools); standing(s) != 1 || n != want {
				t.Errorf("after %v: %d streams, %d changes; want %d", late, standing(s), n, want)
			}
		})
	}
}

// C6: what the server wants to be left alone for holds for its stream, too.
func TestFaultC6_RetryAfterHoldsForTheStream(t *testing.T) {
	slow := mcptest.Reply{Status: 429, Header: map[string]string{"Retry-After": "2"}}
	times := func(s *mcptest.Server) (at []time.Time) {
		for _, r := range s.Requests("subscriptions/listen") {
			at = append(at, r.At)
		}
		return at
	}
	t.Run("said to the stream", func(t *testing.T) {
		s := modernServer()
		s.Next("subscriptions/listen", 1, slow)
		opts, _ := options(overWeb(t, s))
		start(t, opts)
		s.Await(t, "the stream", func() bool { return s.Listeners() == 1 })
		if at := times(s); len(at) != 2 || at[1].Sub(at[0]) < 1990*time.Millisecond {
			t.Errorf("asked at %v", at)
		}
	})
	t.Run("said to a call", func(t *testing.T) {
		s := modernServer()
		opts, _ := options(overWeb(t, s))
		u := start(t, opts)
		s.Await(t, "the stream", func() bool { return s.Listeners() == 1 })
		s.Next("tools/call", 1, slow)
		_, err := u.Call(t.Context(), workCall())
		if f := faultOf(t, err); f.Kind != fault.RateLimited {
			t.Fatal(f)
		}
		said := time.Now()
		s.CutStreams()
		s.Await(t, "the next stream", func() bool { return s.Count("subscriptions/listen") == 2 && s.Listeners() == 1 })
		if at := times(s); at[1].Sub(said) < 1900*time.Millisecond {
			t.Errorf("asked %v after that", at[1].Sub(said))
		}
	})
}

// A generation that ends while a subscription waits says so, and not that the server
// offers none: the next generation may be asked.
func TestSubscribeOnALifeThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		u, _ := inMemory(t, s)
		synctest.Wait()
		s.On("subscriptions/listen", hang)
		done := make(chan error, 2)
		for _, uri := range []string{"file:///a", "file:///b"} {
			go func() { done <- subscribe(t, u, uri) }() // ends with the generation
		}
		synctest.Wait()
		s.Next("tools/call", 1, mcptest.Reply{Cut: true})
		_, _ = u.Call(t.Context(), workCall())
		for range 2 {
			if f := faultOf(t, <-done); f.Kind != fault.Exited { // as the link says of a server in memory
				t.Errorf("%v (%v)", f, f.Kind)
			}
		}
	})
}

// A server may end a stream over stdio with notifications/cancelled.
func TestFaultR4_ServerCancelsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		_, h := inMemory(t, s)
		synctest.Wait()
		id := string(s.Requests("subscriptions/listen")[0].ID)
		s.SendAll(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.Count("subscriptions/listen") != 2 || h.count(catalog.Tools) == 0 {
			t.Errorf("%d listens, changes %v", s.Count("subscriptions/listen"), h.changed)
		}
	})
}

func TestFaultR4_OverHTTP(t *testing.T) {
	s := modernServer()
	opts, h := options(overWeb(t, s))
	u := start(t, opts)
	s.Await(t, "the stream", func() bool { return s.Listeners() == 1 })
	s.Notify("notifications/prompts/list_changed", "")
	h.await(t, "the notice", func() bool { return slices.Contains(h.changed, catalog.Prompts) })
	s.CutStreams()
	h.await(t, "the gap", func() bool { return slices.Contains(h.changed, catalog.Templates) })
	call(t, u, `{"name":"echo"}`)
	closeNow(t, u)
	s.Await(t, "the end of the stream", func() bool { return s.Listeners() == 0 })
	if n := s.Count("notifications/cancelled"); n != 0 {
		t.Errorf("%d cancel notices over modern HTTP", n)
	}
}

func TestSubscribe(t *testing.T) {
	const uri = "file:///a"
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: era, Resources: []string{`{"name":"r","uri":"file:///a"}`}})
			u, h := inMemory(t, s)
			if err := subscribe(t, u, uri); err != nil {
				t.Fatal(err)
			}
			if err := subscribe(t, u, uri); err != nil {
				t.Fatal(err)
			}
			s.Notify("notifications/resources/updated", `{"uri":"file:///a"}`)
			synctest.Wait()
			if len(h.updated) == 0 || h.updated[0] != uri {
				t.Errorf("updated %v", h.updated)
			}
			if era == mcptest.Modern {
				before := len(h.updated)
				s.CutStreams()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(h.updated) != before+1 {
					t.Errorf("no catch-up after a gap: %v", h.updated)
				}
			}
			if err := request(t, u, "resources/unsubscribe", "uri", uri); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			switch era {
			case mcptest.Modern:
				if standing(s) != 1 || len(s.Cancelled()) != 1 {
					t.Errorf("%d streams, cancelled %v", standing(s), s.Cancelled())
				}
			default:
				if s.Count("resources/unsubscribe") != 1 {
					t.Error("not unsubscribed")
				}
			}
		})
	}
}

// The acknowledgement says what the server agreed to, and is believed.
func TestSubscribeNotAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Capabilities: `{}`})
		s.On("subscriptions/listen", func(r *mcptest.Request) *mcptest.Reply {
			r.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
				string(r.ID) + `},"notifications":{}}}`)
			return &mcptest.Reply{Hang: true}
		})
		u, _ := inMemory(t, s)
		if f := faultOf(t, subscribe(t, u, "file:///a")); f.Kind != fault.Unsupported {
			t.Errorf("%v", f)
		}
		s.On("subscriptions/listen", nil)
		s.Next("subscriptions/listen", 1, mcptest.Reply{Error: `{"code":-32602,"message":"no"}`})
		if f := faultOf(t, subscribe(t, u, "file:///b")); f.Kind != fault.RPC || f.RPC.Code != -32602 {
			t.Errorf("%v", f)
		}
		synctest.Wait()
		if len(u.subs.byURI) != 0 {
			t.Errorf("%d subscriptions are kept", len(u.subs.byURI))
		}
	})
}

func TestSetLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		u, _ := inMemory(t, s)
		if err := request(t, u, "logging/setLevel", "level", "debug"); err != nil || s.Level() != "debug" {
			t.Errorf("%v, level %q", err, s.Level())
		}
		modern := modernServer()
		u, _ = inMemory(t, modern)
		if err := request(t, u, "logging/setLevel", "level", "debug"); err != nil || modern.Count("logging/setLevel") != 0 {
			t.Errorf("%v", err)
		}
		if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"echo"}`), LogLevel: "info"}); err != nil {
			t.Fatal(err)
		}
		if p := string(modern.Requests("tools/call")[0].Params); !strings.Contains(p, `"io.modelcontextprotocol/logLevel":"info"`) {
			t.Errorf("params %s", p)
		}
	})
}

// The gap of a legacy standing stream means that any list may have changed.
func TestRelistenOfTheTransport(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	opts, h := options(overWeb(t, s))
	start(t, opts)
	s.Await(t, "the standing stream", func() bool { return s.Listeners() == 1 })
	s.CutStreams()
	h.await(t, "changes of all kinds", func() bool { return len(slices.Compact(slices.Sorted(slices.Values(h.changed)))) == 4 })
}

// TestFaultS20 has servers that acknowledge a stream on which they will tell of
// nothing, at first or after a while, and end it or leave it open.
func TestFaultS20(t *testing.T) {
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
	for name, c := range map[string]struct {
		filters []string // that are acknowledged, one stream after the other; the last one from then on
		open    bool     // the stream stays open
		streams int
	}{
		"nothing":                 {[]string{`{}`}, false, 1},
		"all refused":             {[]string{`{"toolsListChanged":false,"promptsListChanged":false}`}, false, 1},
		"something else":          {[]string{`{"resourceSubscriptions":["file:///a"]}`}, false, 1},
		"nothing, and it stays":   {[]string{`{}`}, true, 1},
		"something, then nothing": {[]string{`{"toolsListChanged":true}`, `{"promptsListChanged":true}`, `{}`}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, opened := modernServer(), 0
				s.On("subscriptions/listen", func(r *mcptest.Request) *mcptest.Reply {
					filter := c.filters[min(opened, len(c.filters)-1)]
					opened++
					r.Send(ack + string(r.ID) + `},"notifications":` + filter + `}}`)
					if c.open {
						return &mcptest.Reply{Delay: 24 * time.Hour, Result: `{"resultType":"complete"}`}
					}
					return &mcptest.Reply{Result: `{"resultType":"complete"}`}
				})
				u, h := inMemory(t, s)
				time.Sleep(time.Minute)
				synctest.Wait()
				before := h.count(catalog.Tools)
				time.Sleep(time.Hour)
				synctest.Wait()
				if opened != c.streams || u.Err() != nil {
					t.Errorf("%d streams, want %d; ended %v", opened, c.streams, u.Err())
				}
				if n := h.count(catalog.Tools) - before; n < 12 || n > 14 {
					t.Errorf("listed again %d times in an hour", n)
				}
			})
		})
	}
}

// request sends a request with one text in its params.
func request(t *testing.T, u *Upstream, method, key, value string) error {
	_, err := u.Call(t.Context(), &Call{Method: method, Params: wire.Set(nil, wire.AppendString(nil, value), key)})
	return err
}

func subscribe(t *testing.T, u *Upstream, uri string) error {
	return request(t, u, "resources/subscribe", "uri", uri)
}
