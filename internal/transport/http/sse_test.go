package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// sseScript is a scripted HTTP+SSE server: it announces endpoint, and sends on
// its stream what the test puts into say.
type sseScript struct {
	endpoint string
	say      chan string // closed: the stream ends
	post     func(w http.ResponseWriter, s seen) bool
}

func (p *sseScript) play(w http.ResponseWriter, r *http.Request, s seen) {
	if s.verb == http.MethodPost {
		if p.post == nil || !p.post(w, s) {
			w.WriteHeader(http.StatusAccepted)
			if s.id != "" {
				p.say <- eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id))
			}
		}
		return
	}
	startEvents(w)
	write(w, "event: endpoint\ndata: "+p.endpoint+"\n\n")
	for {
		select {
		case text, ok := <-p.say:
			if !ok {
				return
			}
			write(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

func sseDial(t *testing.T, script *sseScript, opts transport.Options) (transport.Conn, *scripted) {
	t.Helper()
	if script.say == nil {
		script.say = make(chan string, 10)
	}
	h, srv := serve(t, script.play)
	if opts.Inbound == nil {
		opts.Inbound = func(transport.Inbound) {}
	}
	c, err := OpenSSE(t.Context(), Spec{URL: srv.URL + "/gw/sse"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, c) })
	return c, h
}

// B1: the end of the stream, in order or not, is the end of the link, and it
// can be told which it was.
func TestFaultB1EndOfStreamEndsTheLink(t *testing.T) {
	t.Run("clean", func(t *testing.T) {
		script := &sseScript{endpoint: "/m"}
		c, _ := sseDial(t, script, transport.Options{})
		mustCall(t, c, 1, "initialize")
		close(script.say)
		await(t, c.Done(), "the end of the link")
		wantFault(t, c.Err(), fault.Broken, fault.Unknown)
		if !errors.Is(c.Err(), io.EOF) {
			t.Errorf("a clean end does not look like one: %v", c.Err())
		}
		_, err := call(t, c, 2, "tools/call")
		wantFault(t, err, fault.Broken, fault.NotSent)
	})
	t.Run("cut, with a call waiting", func(t *testing.T) {
		script := &sseScript{endpoint: "/m", say: make(chan string, 10)}
		posted := make(chan struct{})
		script.post = func(w http.ResponseWriter, _ seen) bool {
			w.WriteHeader(http.StatusAccepted)
			close(posted)
			return true
		}
		_, srv := serve(t, script.play)
		c, err := OpenSSE(t.Context(), Spec{URL: srv.URL}, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		go func() { <-posted; srv.CloseClientConnections() }() // ends with the POST
		_, err = call(t, c, 2, "tools/call")
		wantFault(t, err, fault.Broken, fault.Unknown)
		await(t, c.Done(), "the end of the link")
		if errors.Is(c.Err(), io.EOF) {
			t.Errorf("a cut looks like a clean end: %v", c.Err())
		}
	})
}

// B1, idle: a stream may be silent for as long as it likes.
func TestFaultB1SilenceIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &sseScript{endpoint: "/m", say: make(chan string, 1)}
		_, spec, end := bubble(script.play)
		defer end()
		c, err := OpenSSE(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		pass(24 * time.Hour)
		mustCall(t, c, 1, "initialize")
	})
}

// M4: where messages go.
func TestFaultM4Endpoint(t *testing.T) {
	base, _ := url.Parse("https://h.example/gw/srv/sse?k=1")
	for _, tt := range []struct{ announced, override, want string }{
		{"/messages?sid=1", "", "https://h.example/messages?sid=1"},
		{"messages?sid=1", "", "https://h.example/gw/srv/messages?sid=1"},
		{"?sid=1", "", "https://h.example/gw/srv/sse?sid=1"},
		{"https://h.example:443/m", "", "https://h.example:443/m"},
		{"//h.example/m#x", "", "https://h.example/m"},
		{"/messages?sid=1", "/gw/srv/messages", "https://h.example/gw/srv/messages?sid=1"},
		{"/messages?sid=1", "https://other.example/m?a=b", "https://other.example/m?a=b"},
	} {
		got, f := sseEndpoint(base, tt.announced, tt.override)
		if f != nil || got.String() != tt.want {
			t.Errorf("%q, %q: got %v, %v, want %s", tt.announced, tt.override, got, f, tt.want)
		}
	}
	for _, announced := range []string{"https://evil.example/m", "http://h.example/m", "https://h.example:8443/m", "ftp://h.example/"} {
		_, f := sseEndpoint(base, announced, "")
		if f == nil || f.Kind != fault.Protocol {
			t.Fatalf("%s was accepted", announced)
		}
		if text := f.Reason(); !strings.Contains(text, announced) || !strings.Contains(text, "https://h.example/gw/srv/sse") {
			t.Errorf("the text shows not both URLs: %s", text)
		} else if strings.Contains(text, "k=1") {
			t.Errorf("the text shows a query: %s", text)
		}
	}
}

// M4, live: the endpoint is under the root although the stream has a prefix.
// Its first POST finds 404: that is a wrong place, and no lost session.
func TestFaultM4WrongPlaceIsNoLostSession(t *testing.T) {
	script := &sseScript{endpoint: "/messages?sid=1", post: func(w http.ResponseWriter, _ seen) bool {
		w.WriteHeader(http.StatusNotFound)
		return true
	}}
	c, _ := sseDial(t, script, transport.Options{})
	_, err := call(t, c, 1, "initialize")
	if f := wantFault(t, err, fault.HTTPStatus, fault.Unknown); f.Status != http.StatusNotFound {
		t.Errorf("status %d", f.Status)
	}
}

// A1 for HTTP+SSE: a session that worked, and is answered by 404.
func TestFaultA1SessionLostOverSSE(t *testing.T) {
	script := &sseScript{endpoint: "/m?sid=1", post: func(w http.ResponseWriter, s seen) bool {
		if s.id == "2" {
			w.WriteHeader(http.StatusNotFound)
		}
		return s.id == "2"
	}}
	c, _ := sseDial(t, script, transport.Options{})
	mustCall(t, c, 1, "initialize")
	_, err := call(t, c, 2, "tools/call")
	wantFault(t, err, fault.SessionLost, fault.NotSent)
	await(t, c.Done(), "the end of the link")
	wantFault(t, c.Err(), fault.SessionLost, fault.NotSent)
}

// What else the stream carries is handed on in order; a late answer is no noise.
func TestSSEInboundAndLateAnswers(t *testing.T) {
	script := &sseScript{endpoint: "/m", say: make(chan string, 10)}
	box := newInbox()
	c, h := sseDial(t, script, transport.Options{Inbound: box.add})
	script.say <- eventOf("", `{"jsonrpc":"2.0","method":"a"}`)
	script.say <- "event: ping\ndata: {}\n\n" + eventOf("", `{"jsonrpc":"2.0","id":99,"result":{}}`) + eventOf("", `not json`)
	script.say <- eventOf("", `[{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":7,"method":"c"}]`)
	for range 3 {
		<-box.ch
	}
	if got, want := box.methods(), []string{"a/0", "b/0", "c/0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if i := c.Info(); i.Noise != 1 || i.LateAnswers != 1 {
		t.Errorf("noise %d, late answers %d", i.Noise, i.LateAnswers)
	}
	c.Agree("2025-03-26", false)
	if err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	if got := h.all(http.MethodPost, "")[0].header.Get(mcp.HeaderVersion); got != "2025-03-26" {
		t.Errorf("version %q", got)
	}
}

// The answer is on the stream: it does not wait for a POST that hangs, and
// neither does the end of the stream.
func TestSSEHangingPost(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "stream ended": false} {
		t.Run(name, func(t *testing.T) {
			script := &sseScript{endpoint: "/m", say: make(chan string, 10)}
			over := make(chan struct{})
			defer close(over)
			script.post = func(_ http.ResponseWriter, s seen) bool {
				if answered {
					script.say <- eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id))
				} else {
					close(script.say)
				}
				<-over
				return true
			}
			c, _ := sseDial(t, script, transport.Options{})
			msg, err := call(t, c, 1, "tools/call") // fails by its own deadline where it waits
			if answered && (err != nil || !msg.IsResponse()) {
				t.Errorf("%+v, %v", msg, err)
			}
			if !answered {
				wantFault(t, err, fault.Broken, fault.Unknown)
			}
		})
	}
}

// A cancelled call is forgotten; the link and other calls go on.
func TestSSECallEndsWithItsContext(t *testing.T) {
	posted := make(chan struct{}, 1)
	script := &sseScript{endpoint: "/m", post: func(w http.ResponseWriter, s seen) bool {
		if s.id == "2" {
			w.WriteHeader(http.StatusAccepted)
			posted <- struct{}{}
		}
		return s.id == "2"
	}}
	c, _ := sseDial(t, script, transport.Options{})
	mustCall(t, c, 1, "initialize")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-posted; cancel() }() // ends with the POST
	_, err := c.Call(ctx, newRequest(2, "tools/call", `{}`))
	wantFault(t, err, fault.Canceled, fault.Unknown)
	mustCall(t, c, 3, "tools/call")
	if n := len(c.(*sseConn).waiting); n != 0 {
		t.Errorf("%d calls are still waited for", n)
	}
}

// F4: an answer over the limit fails its own call, whether the id comes first
// or last.
func TestFaultF4TooLargeOverSSE(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, form := range map[string]string{
		"id first": `{"jsonrpc":"2.0","id":2,"result":"` + big + `"}`,
		"id last":  `{"result":"` + big + `","jsonrpc":"2.0","id":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			script := &sseScript{endpoint: "/m", say: make(chan string, 10)}
			script.post = func(w http.ResponseWriter, s seen) bool {
				if s.id == "2" {
					w.WriteHeader(http.StatusAccepted)
					script.say <- eventOf("", form)
				}
				return s.id == "2"
			}
			c, _ := sseDial(t, script, transport.Options{MaxMessage: 1000})
			mustCall(t, c, 1, "initialize")
			_, err := call(t, c, 2, "tools/call")
			wantFault(t, err, fault.TooLarge, fault.Answered)
			mustCall(t, c, 3, "tools/call")
		})
	}
}

// What is no event stream, or never says where messages go, fails the start
// within its context, and leaves nothing.
func TestSSEOpenFails(t *testing.T) {
	for name, tt := range map[string]struct {
		play func(w http.ResponseWriter, r *http.Request, s seen)
		kind fault.Kind
	}{
		"405":  {func(w http.ResponseWriter, _ *http.Request, _ seen) { w.WriteHeader(405) }, fault.HTTPStatus},
		"html": {func(w http.ResponseWriter, _ *http.Request, _ seen) { _, _ = io.WriteString(w, "<html>") }, fault.Protocol},
		"silent": {func(_ http.ResponseWriter, r *http.Request, _ seen) {
			<-r.Context().Done()
		}, fault.Deadline},
		"no endpoint": {func(w http.ResponseWriter, r *http.Request, _ seen) {
			startEvents(w)
			write(w, "data: {}\n\n")
			<-r.Context().Done()
		}, fault.Deadline},
		"ends": {func(w http.ResponseWriter, _ *http.Request, _ seen) { startEvents(w) }, fault.Broken},
		"other origin": {func(w http.ResponseWriter, _ *http.Request, _ seen) {
			startEvents(w)
			write(w, "event: endpoint\ndata: http://evil.example/\n\n")
		}, fault.Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			_, srv := serve(t, tt.play)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			c, err := OpenSSE(ctx, Spec{URL: srv.URL}, transport.Options{Inbound: func(transport.Inbound) {}})
			if c != nil {
				t.Error("a link came with the error")
			}
			if f := fault.From("", err); f.Kind != tt.kind {
				t.Errorf("got %v: %v", f.Kind, err)
			}
		})
	}
}
