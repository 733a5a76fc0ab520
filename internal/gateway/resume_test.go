package gateway

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/stream"
)

// postID is the id of an event of the response to a call.
func postID(n, request, number int) string {
	id := base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, int64(request), 10))
	return fmt.Sprintf("post-%s.%d.c%s-%d", stream.Run, n, id, number)
}

// standingID is the id of an event of a standing stream.
func standingID(number int) string { return fmt.Sprintf("standing-%s-%d", stream.Run, number) }

// A seen is one event of a stream.
type seen struct{ id, data string }

// A reading reads the events of a response, those without data too.
type reading struct {
	t    *testing.T
	resp *http.Response
	sc   *bufio.Scanner
	stop context.CancelFunc
}

func (s *site) read(method, body string, headers ...string) *reading {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	resp := s.open(ctx, method, "/mcp", body, headers...)
	s.t.Cleanup(func() { resp.Body.Close() })
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 8<<20)
	return &reading{s.t, resp, sc, cancel}
}

// next returns the next event; ok is false at the end of the stream.
func (r *reading) next() (e seen, ok bool) {
	r.t.Helper()
	for r.sc.Scan() {
		switch line := r.sc.Text(); {
		case strings.HasPrefix(line, "id: "):
			e.id, ok = line[4:], true
		case strings.HasPrefix(line, "data: "):
			e.data, ok = line[6:], true
		case line == "" && ok:
			return e, true
		}
	}
	return e, false
}

// staged is a hub whose calls say their steps and end when they are told to.
func staged(h *hub, result string) (step, end chan struct{}) {
	step, end = make(chan struct{}), make(chan struct{})
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		for n := 1; ; n++ {
			select {
			case <-step:
				c.Progress([]byte(fmt.Sprintf(`{"progressToken":"t","progress":%d}`, n)))
			case <-end:
				return []byte(result), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return step, end
}

func TestAClientComesBackForTheResponseToAPost(t *testing.T) {
	h := newHub()
	step, end := staged(h, `{"content":[{"type":"text","text":"the answer"}]}`)
	s := serve(t, h, Options{})
	id, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	post := call("1", "echo", `"t"`)
	go func() { step <- struct{}{} }() // taken by the call
	first := s.read("POST", post, id)
	e, _ := first.next()
	if e != (seen{id: postID(1, 1, 0)}) {
		t.Fatalf("the stream begins with %+v, want an id and no data", e)
	}
	if e, _ = first.next(); e.id != postID(1, 1, 1) || !strings.Contains(e.data, `"progress":1`) {
		t.Fatalf("then came %+v", e)
	}
	first.stop()
	step <- struct{}{}
	step <- struct{}{}
	again := s.read("GET", "", id, "Last-Event-ID: "+postID(1, 1, 1))
	if e, _ = again.next(); e.id != postID(1, 1, 2) || !strings.Contains(e.data, `"progress":2`) {
		t.Errorf("the first that was missed is %+v", e)
	}
	if e, _ = again.next(); e.id != postID(1, 1, 3) || !strings.Contains(e.data, `"progress":3`) {
		t.Errorf("the second is %+v", e)
	}
	newest := s.read("GET", "", id, "Last-Event-ID: "+postID(1, 1, 3))
	if e, ok := again.next(); ok || again.sc.Err() != nil {
		t.Errorf("two streams at once: %+v %v", e, again.sc.Err())
	}
	close(end)
	if e, _ = newest.next(); e.id != postID(1, 1, 4) || !strings.Contains(e.data, "the answer") {
		t.Errorf("the answer is %+v", e)
	}
	if e, ok := newest.next(); ok {
		t.Errorf("behind the answer came %+v", e)
	}
	late := s.read("GET", "", id, "Last-Event-ID: "+postID(1, 1, 0)) // once more, from the begin
	for n := 1; n <= 4; n++ {
		if e, _ := late.next(); e.id != postID(1, 1, n) {
			t.Errorf("event %d of the whole stream is %+v", n, e)
		}
	}
	// Another client learns nothing of it, and does not wait for an answer that
	// never comes.
	foreign := s.read("GET", "", other, "Last-Event-ID: "+postID(1, 1, 0))
	if e, _ := foreign.next(); !strings.Contains(e.data, `"id":1`) || !strings.Contains(e.data, `"outcome":"unknown"`) || strings.Contains(e.data, "the answer") {
		t.Errorf("another client came back for it and got %+v", e)
	}
	if e, ok := foreign.next(); ok {
		t.Errorf("behind that came %+v", e)
	}
	for _, last := range []string{"post-x-0", "post-1", "post-1--1", postID(1, 1, 0)[:12]} {
		standing := s.tap("GET", "/mcp", "", other, "Last-Event-ID: "+last)
		h.changed(everline.Tools)
		if e := standing.next(); !strings.Contains(e, "list_changed") {
			t.Errorf("with %s: got %s", last, e)
		}
		standing.cancel()
		standing.end()
	}
}

// A call that takes long is answered on a stream from the first second on, so
// that its client can come back, whether it asked for progress or not.
func TestALongCallCanBeResumed(t *testing.T) {
	h := newHub()
	_, end := staged(h, `{"content":[{"type":"text","text":"late"}]}`)
	s := serve(t, h, Options{KeepAlive: 20 * time.Millisecond})
	id := s.initialize("2025-11-25")
	first := s.read("POST", call("7", "echo", ""), id)
	e, _ := first.next()
	first.stop()
	close(end)
	again := s.read("GET", "", id, "Last-Event-ID: "+e.id)
	if e, _ = again.next(); !strings.Contains(e.data, `"id":7`) || !strings.Contains(e.data, "late") {
		t.Errorf("the answer is %+v", e)
	}
}

func TestOlderClientsGetNoEventWithoutData(t *testing.T) {
	h := newHub()
	step, end := staged(h, `{"content":[]}`)
	s := serve(t, h, Options{})
	id := s.initialize("2025-06-18")
	go func() { step <- struct{}{}; close(end) }()
	r := s.read("POST", call("1", "echo", `"t"`), id)
	if e, _ := r.next(); e.id != postID(1, 1, 1) || e.data == "" {
		t.Errorf("the stream begins with %+v", e)
	}
}
