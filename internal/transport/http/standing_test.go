package http

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
	"github.com/everline/everline/internal/transport"
)

// standing runs a legacy link whose standing GETs are answered by get, in
// fake time, and gives the link to check after Agree.
func standingLink(t *testing.T, get func(w http.ResponseWriter, r *http.Request, s seen, n int),
	check func(t *testing.T, c transport.Conn, h *scripted),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var gets atomic.Int32
		h, spec, end := bubble(func(w http.ResponseWriter, r *http.Request, s seen) {
			switch {
			case s.verb == http.MethodGet:
				get(w, r, s, int(gets.Add(1)))
			case !handshake(w, s, "S1"):
				answerJSON(w, s)
			}
		})
		defer end()
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		initialize(t, c)
		synctest.Wait()
		check(t, c, h)
	})
}

// pass lets fake time go by, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func gaps(c transport.Conn) int {
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
	standingLink(t, func(w http.ResponseWriter, _ *http.Request, _ seen, n int) {
		if n > 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		startEvents(w)
		write(w, eventOf("1", `{"jsonrpc":"2.0","method":"notifications/x"}`))
	}, func(t *testing.T, c transport.Conn, h *scripted) {
		if c.Err() != nil {
			t.Fatalf("ended too early: %v", c.Err())
		}
		pass(2 * time.Second)
		<-c.Done()
		wantFault(t, c.Err(), fault.SessionLost, fault.NotSent)
		closeConn(t, c)
		if n := h.count(http.MethodDelete, ""); n != 0 {
			t.Error("the dead session was deleted")
		}
	})
}

// A3, control: 404 on the first GET means that there is no stream, or that the
// session was forgotten meanwhile. The listing that is asked for tells.
func TestFaultA3NotFoundAtFirstIsNoStream(t *testing.T) {
	standingLink(t, func(w http.ResponseWriter, _ *http.Request, _ seen, _ int) {
		w.WriteHeader(http.StatusNotFound)
	}, func(t *testing.T, c transport.Conn, h *scripted) {
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
		standingLink(t, func(w http.ResponseWriter, r *http.Request, _ seen, _ int) {
			<-time.After(late)
			startEvents(w)
			<-r.Context().Done()
		}, func(t *testing.T, c transport.Conn, _ *scripted) {
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
		h, spec, end := bubble(func(w http.ResponseWriter, r *http.Request, s seen) {
			if handshake(w, s, "S1") {
				return
			}
			startEvents(w)
			if s.verb == http.MethodGet {
				for tick := time.NewTicker(5 * time.Second); r.Context().Err() == nil; {
					select {
					case <-tick.C:
						write(w, ": still here\n\n")
					case <-r.Context().Done():
					}
				}
				return
			}
			for range 120 {
				time.Sleep(10 * time.Second)
				write(w, eventOf("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
			}
			write(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
		})
		defer end()
		spec.IdleTimeout = time.Minute // comments are life
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(in transport.Inbound) { progress++ }})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		initialize(t, c)
		if _, err := c.Call(context.Background(), newRequest(2, "tools/call", `{}`)); err != nil {
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
		_, spec, end := bubble(func(w http.ResponseWriter, r *http.Request, s seen) {
			if !handshake(w, s, "S1") {
				startEvents(w)
				<-r.Context().Done()
				gone = true
			}
		})
		defer end()
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err = c.Call(ctx, newRequest(2, "tools/call", `{}`))
		wantFault(t, err, fault.Deadline, fault.Unknown)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
		if n := len(c.(*conn).exchanges); n != 0 || !gone {
			t.Errorf("%d requests are still kept; the server saw the end: %v", n, gone)
		}
		_, err = c.Call(ctx, newRequest(3, "tools/call", `{}`))
		wantFault(t, err, fault.Deadline, fault.NotSent)
	})
}

// IdleTimeout: a stream on which nothing comes at all is opened again.
func TestIdleStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, spec, end := bubble(func(w http.ResponseWriter, r *http.Request, s seen) {
			if !handshake(w, s, "S1") {
				startEvents(w)
				<-r.Context().Done()
			}
		})
		defer end()
		spec.IdleTimeout = time.Minute
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		initialize(t, c)
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
	var times []time.Time
	standingLink(t, func(w http.ResponseWriter, r *http.Request, s seen, n int) {
		ids, times = append(ids, s.header.Get(mcp.HeaderLastEventID)), append(times, time.Now())
		startEvents(w)
		if n == 1 {
			write(w, "retry: 300\n"+eventOf("1", `{"jsonrpc":"2.0","method":"a"}`)+eventOf("3", `{"jsonrpc":"2.0","method":"b"}`))
			return
		}
		<-r.Context().Done()
	}, func(t *testing.T, c transport.Conn, _ *scripted) {
		if gaps(c) != 0 {
			t.Error("a gap before there was one")
		}
		pass(time.Second)
		if !slices.Equal(ids, []string{"", "3"}) {
			t.Fatalf("Last-Event-ID %q", ids)
		}
		if d := times[1].Sub(times[0]); d != 300*time.Millisecond {
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
	standingLink(t, func(w http.ResponseWriter, r *http.Request, s seen, n int) {
		ids = append(ids, s.header.Get(mcp.HeaderLastEventID))
		switch {
		case ids[n-1] != "":
			http.Error(w, "Invalid event ID", http.StatusBadRequest)
		case n == 1:
			startEvents(w)
			write(w, eventOf("e1", `{"jsonrpc":"2.0","method":"a"}`))
		default:
			startEvents(w)
			<-r.Context().Done()
		}
	}, func(t *testing.T, c transport.Conn, _ *scripted) {
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
		h, spec, end := bubble(func(w http.ResponseWriter, _ *http.Request, s seen) {
			switch {
			case handshake(w, s, "S1"):
			case s.verb == http.MethodPost:
				startEvents(w)
				write(w, "id: c0\nretry: 2000\ndata:\n\n")
			case s.header.Get(mcp.HeaderLastEventID) == "":
				w.WriteHeader(http.StatusMethodNotAllowed)
			default:
				if want := fmt.Sprintf("c%d", polls); s.header.Get(mcp.HeaderLastEventID) != want {
					t.Errorf("resumed from %q, want %q", s.header.Get(mcp.HeaderLastEventID), want)
				}
				polls++
				startEvents(w)
				if polls < 9 {
					write(w, fmt.Sprintf("id: c%d\ndata:\n\n", polls))
					return
				}
				write(w, eventOf("", `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`))
			}
		})
		defer end()
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		initialize(t, c)
		began := time.Now()
		msg, err := c.Call(context.Background(), newRequest(2, "tools/call", `{}`))
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
		_, spec, end := bubble(func(w http.ResponseWriter, _ *http.Request, s seen) {
			switch {
			case handshake(w, s, "S1"):
			case s.verb == http.MethodPost:
				startEvents(w)
				write(w, "id: c0\ndata:\n\n")
			default:
				if gets++; gets == 1 {
					w.Header().Set("Retry-After", "20")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				startEvents(w)
				write(w, eventOf("", `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`))
			}
		})
		defer end()
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		mustCall(t, c, 1, "initialize") // without Agree: no standing GET is counted
		began := time.Now()
		msg, err := c.Call(context.Background(), newRequest(2, "tools/call", `{}`))
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
		"GET fails":       {"id: 1\ndata:\n\n", 502, resumeTries},
		"GET brings none": {"id: 1\ndata:\n\n", 200, resumeTries},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, spec, end := bubble(func(w http.ResponseWriter, _ *http.Request, s seen) {
					switch {
					case handshake(w, s, "S1"):
					case s.verb == http.MethodGet && tt.status != 200:
						w.WriteHeader(tt.status)
					default:
						startEvents(w)
						if s.verb == http.MethodPost {
							write(w, tt.first)
						}
					}
				})
				defer end()
				c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
				if err != nil {
					t.Fatal(err)
				}
				defer closeConn(t, c)
				mustCall(t, c, 1, "initialize") // without Agree: no standing GET is counted
				began := time.Now()
				_, err = c.Call(context.Background(), newRequest(2, "tools/call", `{}`))
				wantFault(t, err, fault.Broken, fault.Unknown)
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
			standingLink(t, func(w http.ResponseWriter, _ *http.Request, _ seen, _ int) {
				startEvents(w)
				time.Sleep(10 * time.Millisecond)
				write(w, preface)
			}, func(t *testing.T, c transport.Conn, h *scripted) {
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
	var times []time.Time
	standingLink(t, func(w http.ResponseWriter, _ *http.Request, _ seen, n int) {
		times = append(times, time.Now())
		startEvents(w)
		if n == 6 {
			time.Sleep(31 * time.Second)
		} else if n > 6 {
			write(w, eventOf("", `{"jsonrpc":"2.0","method":"a"}`))
		}
	}, func(t *testing.T, _ transport.Conn, _ *scripted) {
		pass(3 * time.Minute)
		if d := times[6].Sub(times[5]) - 31*time.Second; d > time.Second {
			t.Errorf("after a long life opened again after %v", d)
		}
		if d := times[7].Sub(times[6]); d > time.Second {
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
			standingLink(t, func(w http.ResponseWriter, r *http.Request, _ seen, _ int) { answer(w, r) },
				func(t *testing.T, c transport.Conn, h *scripted) {
					pass(time.Hour)
					if n := h.count(http.MethodGet, ""); n != 1 {
						t.Errorf("%d GETs", n)
					}
					mustCall(t, c, 9, "tools/list")
				})
		})
	}
}

// C6, on the stream: Retry-After is honoured there too.
func TestFaultC6RetryAfterOnTheStream(t *testing.T) {
	var times []time.Time
	standingLink(t, func(w http.ResponseWriter, r *http.Request, _ seen, n int) {
		times = append(times, time.Now())
		if n == 1 {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		startEvents(w)
		<-r.Context().Done()
	}, func(t *testing.T, c transport.Conn, _ *scripted) {
		pass(time.Minute)
		if len(times) != 2 || times[1].Sub(times[0]) != 20*time.Second {
			t.Errorf("GETs at %v", times)
		}
		if gaps(c) != 1 {
			t.Error("what came before the stream may be lost: no gap reported")
		}
	})
}
