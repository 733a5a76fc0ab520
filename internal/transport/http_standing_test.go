package transport

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

// standing runs a legacy link whose standing GETs are answered by get, in
// fake time, and gives the link to check after Agree.
func standing(t *testing.T, get func(w http.ResponseWriter, r *http.Request, s httpSeen, n int),
	check func(t *testing.T, c Conn, h *httpScripted),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var gets atomic.Int32
		h, spec, end := httpBubble(func(w http.ResponseWriter, r *http.Request, s httpSeen) {
			switch {
			case s.verb == http.MethodGet:
				get(w, r, s, int(gets.Add(1)))
			case !httpHandshake(w, s, "S1"):
				httpJSONAnswer(w, s)
			}
		})
		defer end()
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		httpInit(t, c)
		synctest.Wait()
		check(t, c, h)
	})
}

// pass lets fake time go by, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func gaps(c Conn) int {
	select {
	case <-c.Relisten():
		return 1
	default:
		return 0
	}
}

// A3: the standing stream worked, and is answered by 404 after a restart: the
// session is gone, and the link ends before a call finds out.
func TestFaultA3NotFoundOnReopenedStream(t *testing.T) {
	standing(t, func(w http.ResponseWriter, _ *http.Request, _ httpSeen, n int) {
		if n > 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		httpStartEvents(w)
		httpWrite(w, eventOf("1", `{"jsonrpc":"2.0","method":"notifications/x"}`))
	}, func(t *testing.T, c Conn, h *httpScripted) {
		if c.Err() != nil {
			t.Fatalf("ended too early: %v", c.Err())
		}
		pass(2 * time.Second)
		<-c.Done()
		httpWant(t, c.Err(), fault.SessionLost, fault.NotSent)
		httpClose(t, c)
		if n := h.count(http.MethodDelete, ""); n != 0 {
			t.Error("the dead session was deleted")
		}
	})
}

// A3, control: 404 on the first GET means that there is no stream, or that the
// session was forgotten meanwhile. The listing that is asked for tells.
func TestFaultA3NotFoundAtFirstIsNoStream(t *testing.T) {
	standing(t, func(w http.ResponseWriter, _ *http.Request, _ httpSeen, _ int) {
		w.WriteHeader(http.StatusNotFound)
	}, func(t *testing.T, c Conn, h *httpScripted) {
		pass(time.Hour)
		if c.Err() != nil || h.count(http.MethodGet, "") != 1 || gaps(c) != 1 {
			t.Errorf("err %v, %d GETs", c.Err(), h.count(http.MethodGet, ""))
		}
	})
}

// B4: what changed before the first stream was open was told to nobody. One
// that opens late is followed by a listing, one that opens at once is not.
func TestFaultB4AFirstStreamThatOpensLate(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 0, 200 * time.Millisecond: 1, time.Second: 1} {
		standing(t, func(w http.ResponseWriter, r *http.Request, _ httpSeen, _ int) {
			<-time.After(late)
			httpStartEvents(w)
			<-r.Context().Done()
		}, func(t *testing.T, c Conn, _ *httpScripted) {
			pass(10 * time.Second)
			if n := gaps(c); n != want {
				t.Errorf("opened after %v: %d gaps", late, n)
			}
		})
	}
}

// B2: nothing limits the whole time of a stream, neither of the standing one
// nor of a call that goes on.
func TestFaultB2StreamsLiveLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := 0
		h, spec, end := httpBubble(func(w http.ResponseWriter, r *http.Request, s httpSeen) {
			if httpHandshake(w, s, "S1") {
				return
			}
			httpStartEvents(w)
			if s.verb == http.MethodGet {
				for tick := time.NewTicker(5 * time.Second); r.Context().Err() == nil; {
					select {
					case <-tick.C:
						httpWrite(w, ": still here\n\n")
					case <-r.Context().Done():
					}
				}
				return
			}
			for range 120 {
				time.Sleep(10 * time.Second)
				httpWrite(w, eventOf("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
			}
			httpWrite(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
		})
		defer end()
		spec.IdleTimeout = time.Minute // comments are life
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(in Inbound) { progress++ }})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		httpInit(t, c)
		if _, err := c.Call(context.Background(), httpReq(2, "tools/call", `{}`)); err != nil {
			t.Fatal(err)
		}
		if progress != 120 || h.count(http.MethodGet, "") != 1 || gaps(c) != 0 {
			t.Errorf("%d progress, %d GETs", progress, h.count(http.MethodGet, ""))
		}
	})
}

// B3: the answer's stream stalls: the deadline ends the call, and frees all
// that belonged to it.
func TestFaultB3StalledStreamEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := false
		_, spec, end := httpBubble(func(w http.ResponseWriter, r *http.Request, s httpSeen) {
			if !httpHandshake(w, s, "S1") {
				httpStartEvents(w)
				<-r.Context().Done()
				gone = true
			}
		})
		defer end()
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err = c.Call(ctx, httpReq(2, "tools/call", `{}`))
		httpWant(t, err, fault.Deadline, fault.Unknown)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		if n := len(c.(*httpConn).flights); n != 0 || !gone {
			t.Errorf("%d requests are still kept; the server saw the end: %v", n, gone)
		}
		_, err = c.Call(ctx, httpReq(3, "tools/call", `{}`))
		httpWant(t, err, fault.Deadline, fault.NotSent)
	})
}

// IdleTimeout: a stream on which nothing comes at all is opened again.
func TestHTTPIdleStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, spec, end := httpBubble(func(w http.ResponseWriter, r *http.Request, s httpSeen) {
			if !httpHandshake(w, s, "S1") {
				httpStartEvents(w)
				<-r.Context().Done()
			}
		})
		defer end()
		spec.IdleTimeout = time.Minute
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		httpInit(t, c)
		pass(59 * time.Second)
		before := h.count(http.MethodGet, "")
		pass(3 * time.Second)
		if after := h.count(http.MethodGet, ""); before != 1 || after != 2 || gaps(c) != 1 {
			t.Errorf("%d GETs before the timeout, %d after", before, after)
		}
	})
}

// B4: a dropped stream is resumed where it ended, at the server's own time,
// and the gap is reported.
func TestFaultB4ResumeWithLastEventID(t *testing.T) {
	var ids []string
	var at []time.Time
	standing(t, func(w http.ResponseWriter, r *http.Request, s httpSeen, n int) {
		ids, at = append(ids, s.header.Get(mcp.HeaderLastEventID)), append(at, time.Now())
		httpStartEvents(w)
		if n == 1 {
			httpWrite(w, "retry: 300\n"+eventOf("1", `{"jsonrpc":"2.0","method":"a"}`)+eventOf("3", `{"jsonrpc":"2.0","method":"b"}`))
			return
		}
		<-r.Context().Done()
	}, func(t *testing.T, c Conn, _ *httpScripted) {
		if gaps(c) != 0 {
			t.Error("a gap before there was one")
		}
		pass(time.Second)
		if !slices.Equal(ids, []string{"", "3"}) {
			t.Fatalf("Last-Event-ID %q", ids)
		}
		if d := at[1].Sub(at[0]); d != 300*time.Millisecond {
			t.Errorf("opened again after %v", d)
		}
		if gaps(c) != 1 {
			t.Error("the gap was not reported")
		}
	})
}

// B4: a server that has let go of the event from which its stream would go on
// is asked for the stream as it is.
func TestFaultB4StaleCursor(t *testing.T) {
	var ids []string
	standing(t, func(w http.ResponseWriter, r *http.Request, s httpSeen, n int) {
		ids = append(ids, s.header.Get(mcp.HeaderLastEventID))
		switch {
		case ids[n-1] != "":
			http.Error(w, "Invalid event ID", http.StatusBadRequest)
		case n == 1:
			httpStartEvents(w)
			httpWrite(w, eventOf("e1", `{"jsonrpc":"2.0","method":"a"}`))
		default:
			httpStartEvents(w)
			<-r.Context().Done()
		}
	}, func(t *testing.T, c Conn, _ *httpScripted) {
		pass(time.Minute)
		if !slices.Equal(ids, []string{"", "e1", ""}) {
			t.Errorf("Last-Event-ID %q", ids)
		}
		if gaps(c) != 1 {
			t.Error("the gap was not reported")
		}
	})
}

// B4, for a call: its stream is cut on purpose before the answer, and the
// answer comes on the resumed one. The request is sent once.
func TestFaultB4CallIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		h, spec, end := httpBubble(func(w http.ResponseWriter, _ *http.Request, s httpSeen) {
			switch {
			case httpHandshake(w, s, "S1"):
			case s.verb == http.MethodPost:
				httpStartEvents(w)
				httpWrite(w, "id: c0\nretry: 2000\ndata:\n\n")
			case s.header.Get(mcp.HeaderLastEventID) == "":
				w.WriteHeader(http.StatusMethodNotAllowed)
			default:
				if want := fmt.Sprintf("c%d", polls); s.header.Get(mcp.HeaderLastEventID) != want {
					t.Errorf("resumed from %q, want %q", s.header.Get(mcp.HeaderLastEventID), want)
				}
				polls++
				httpStartEvents(w)
				if polls < 9 {
					httpWrite(w, fmt.Sprintf("id: c%d\ndata:\n\n", polls))
					return
				}
				httpWrite(w, eventOf("", `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`))
			}
		})
		defer end()
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		httpInit(t, c)
		began := time.Now()
		msg, err := c.Call(context.Background(), httpReq(2, "tools/call", `{}`))
		if err != nil || string(msg.Result) != `{"ok":true}` {
			t.Fatalf("%s, %v", msg.Result, err)
		}
		if took := time.Since(began); took < 18*time.Second || took > 19*time.Second {
			t.Errorf("nine polls, 2 s apart, took %v", took)
		}
		if n := h.count(http.MethodPost, "tools/call"); n != 1 {
			t.Errorf("the call was sent %d times", n)
		}
	})
}

// C6, for a call: a server that asks for a pause where its stream is resumed
// gets it.
func TestFaultC6RetryAfterOnAResumedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gets := 0
		_, spec, end := httpBubble(func(w http.ResponseWriter, _ *http.Request, s httpSeen) {
			switch {
			case httpHandshake(w, s, "S1"):
			case s.verb == http.MethodPost:
				httpStartEvents(w)
				httpWrite(w, "id: c0\ndata:\n\n")
			default:
				if gets++; gets == 1 {
					w.Header().Set("Retry-After", "20")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				httpStartEvents(w)
				httpWrite(w, eventOf("", `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`))
			}
		})
		defer end()
		c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer httpClose(t, c)
		httpMustCall(t, c, 1, "initialize") // without Agree: no standing GET is counted
		began := time.Now()
		msg, err := c.Call(context.Background(), httpReq(2, "tools/call", `{}`))
		if took := time.Since(began); err != nil || string(msg.Result) != `{"ok":true}` || took < 20*time.Second {
			t.Errorf("%s, %v after %v", msg.Result, err, took)
		}
	})
}

// A stream that is cut and cannot be resumed: the outcome is not known, and
// that is said within bounds.
func TestFaultB4CutAndNotResumable(t *testing.T) {
	for name, tt := range map[string]struct {
		first  string
		status int
		gets   int
	}{
		"no event id":     {": hi\n\n", 200, 0},
		"GET is refused":  {"id: 1\ndata:\n\n", 405, 1},
		"GET finds 404":   {"id: 1\ndata:\n\n", 404, 1},
		"GET fails":       {"id: 1\ndata:\n\n", 502, httpResumeTries},
		"GET brings none": {"id: 1\ndata:\n\n", 200, httpResumeTries},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, spec, end := httpBubble(func(w http.ResponseWriter, _ *http.Request, s httpSeen) {
					switch {
					case httpHandshake(w, s, "S1"):
					case s.verb == http.MethodGet && tt.status != 200:
						w.WriteHeader(tt.status)
					default:
						httpStartEvents(w)
						if s.verb == http.MethodPost {
							httpWrite(w, tt.first)
						}
					}
				})
				defer end()
				c, err := OpenHTTP(t.Context(), spec, Options{Inbound: func(Inbound) {}})
				if err != nil {
					t.Fatal(err)
				}
				defer httpClose(t, c)
				httpMustCall(t, c, 1, "initialize") // without Agree: no standing GET is counted
				began := time.Now()
				_, err = c.Call(context.Background(), httpReq(2, "tools/call", `{}`))
				httpWant(t, err, fault.Broken, fault.Unknown)
				if n := h.count(http.MethodGet, ""); n != tt.gets {
					t.Errorf("%d GETs, want %d", n, tt.gets)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("took %v", took)
				}
				if lost := c.Err() != nil; lost != (tt.status == 404) {
					t.Errorf("link ended: %v", c.Err())
				}
			})
		})
	}
}

// C1: a server that ends the standing stream at once is asked ever less often,
// and again soon once a stream was of use.
func TestFaultC1StreamEndedAtOnce(t *testing.T) {
	for name, preface := range map[string]string{"nothing": "", "comments": ": hi\n\n", "primed, short retry": "retry: 10\nid: 1\ndata:\n\n"} {
		t.Run(name, func(t *testing.T) {
			standing(t, func(w http.ResponseWriter, _ *http.Request, _ httpSeen, _ int) {
				httpStartEvents(w)
				time.Sleep(10 * time.Millisecond)
				httpWrite(w, preface)
			}, func(t *testing.T, c Conn, h *httpScripted) {
				pass(time.Minute)
				if n := h.count(http.MethodGet, ""); n > 10 || n < 5 {
					t.Errorf("%d GETs in a minute", n)
				}
				pass(time.Hour)
				if n := h.count(http.MethodGet, ""); n > 10+60*60/15+1 {
					t.Errorf("%d GETs in an hour", n)
				}
				if c.Err() != nil {
					t.Errorf("the link ended: %v", c.Err())
				}
			})
		})
	}
}

// C1, the other half: openings that brought something reset the delay.
func TestFaultC1ProvenStreamResetsTheDelay(t *testing.T) {
	var at []time.Time
	standing(t, func(w http.ResponseWriter, _ *http.Request, _ httpSeen, n int) {
		at = append(at, time.Now())
		httpStartEvents(w)
		if n == 6 {
			time.Sleep(31 * time.Second)
		} else if n > 6 {
			httpWrite(w, eventOf("", `{"jsonrpc":"2.0","method":"a"}`))
		}
	}, func(t *testing.T, _ Conn, _ *httpScripted) {
		pass(3 * time.Minute)
		if d := at[6].Sub(at[5]) - 31*time.Second; d > time.Second {
			t.Errorf("after a long life opened again after %v", d)
		}
		if d := at[7].Sub(at[6]); d > time.Second {
			t.Errorf("after a message opened again after %v", d)
		}
	})
}

// C2: whatever is no event stream means "none here": one GET, for good.
func TestFaultC2NoStreamIsFinal(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"405":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"204":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"json":     func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") },
		"html":     func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") },
		"400":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://other/", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			standing(t, func(w http.ResponseWriter, r *http.Request, _ httpSeen, _ int) { answer(w, r) },
				func(t *testing.T, c Conn, h *httpScripted) {
					pass(time.Hour)
					if n := h.count(http.MethodGet, ""); n != 1 {
						t.Errorf("%d GETs", n)
					}
					httpMustCall(t, c, 9, "tools/list")
				})
		})
	}
}

// C6, on the stream: Retry-After is honoured there too.
func TestFaultC6RetryAfterOnTheStream(t *testing.T) {
	var at []time.Time
	standing(t, func(w http.ResponseWriter, r *http.Request, _ httpSeen, n int) {
		at = append(at, time.Now())
		if n == 1 {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		httpStartEvents(w)
		<-r.Context().Done()
	}, func(t *testing.T, c Conn, _ *httpScripted) {
		pass(time.Minute)
		if len(at) != 2 || at[1].Sub(at[0]) != 20*time.Second {
			t.Errorf("GETs at %v", at)
		}
		if gaps(c) != 1 {
			t.Error("what came before the stream may be lost: no gap reported")
		}
	})
}
