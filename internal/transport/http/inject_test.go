package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// begin breaks, and checks that the injector is off at the end of the test.
func begin(t *testing.T, f *transport.Injector, kind transport.Breakage) *transport.Injection {
	t.Helper()
	trouble, err := f.Begin(kind, 60*time.Millisecond, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		trouble.End()
		await(t, trouble.Over(), "the end of the breakage")
		if f.Active() {
			t.Error("the injector is still on")
		}
	})
	if kind.Lasts() != f.Active() {
		t.Errorf("%v lasts: %v, and is on: %v", kind, kind.Lasts(), f.Active())
	}
	return trouble
}

// briefly is a context for a call that is not to be answered.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A sessionServer answers POSTs of legacy clients with a session, and keeps
// their standing stream open.
func sessionServer(t *testing.T, answer func(http.ResponseWriter, *http.Request, seen)) (*scripted, Spec, chan struct{}) {
	standing := make(chan struct{}, 8)
	h, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		switch {
		case handshake(w, s, "s1"):
		case s.verb == http.MethodGet:
			startEvents(w)
			standing <- struct{}{}
			<-r.Context().Done()
		default:
			answer(w, r, s)
		}
	})
	return h, Spec{URL: srv.URL}, standing
}

func plainAnswer(w http.ResponseWriter, _ *http.Request, s seen) { answerJSON(w, s) }

func TestFaultsKill(t *testing.T) {
	f := &transport.Injector{}
	asked := make(chan struct{}, 1)
	_, spec, _ := sessionServer(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		if s.method == "hold" {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		answerJSON(w, s)
	})
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	lost := make(chan error, 1)
	go func() { // ends with its connection
		_, err := call(t, c, 2, "hold")
		lost <- err
	}()
	<-asked
	begin(t, f, transport.BreakKill)
	if got := wantFault(t, <-lost, fault.Broken, fault.Unknown); !errors.Is(got, syscall.ECONNRESET) {
		t.Errorf("it does not look as if the server had cut it: %v", got)
	}
	mustCall(t, c, 3, "echo")
}

func TestFaultsHang(t *testing.T) {
	f := &transport.Injector{}
	h, spec, _ := sessionServer(t, plainAnswer)
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	trouble := begin(t, f, transport.BreakHang)
	_, err := c.Call(briefly(t), newRequest(2, "echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	if n := h.count(http.MethodPost, "echo"); n != 1 {
		t.Errorf("the server got %d requests", n)
	}
	trouble.End()
	mustCall(t, c, 3, "echo")
}

func TestFaultsForget(t *testing.T) {
	f := &transport.Injector{}
	h, spec, _ := sessionServer(t, plainAnswer)
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	begin(t, f, transport.BreakForget)
	_, err := call(t, c, 2, "echo")
	got := wantFault(t, err, fault.SessionLost, fault.NotSent)
	if got.Status != http.StatusNotFound {
		t.Errorf("status %d", got.Status)
	}
	await(t, c.Done(), "the end of the link")
	if n := h.count(http.MethodPost, "echo"); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
	next := dial(t, spec, transport.Options{Injector: f})
	initialize(t, next)
	mustCall(t, next, 2, "echo")
}

// TestFaultsForgetNeedsASession: where there is none, none can be lost.
func TestFaultsForgetNeedsASession(t *testing.T) {
	f := &transport.Injector{}
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) { answerJSON(w, s) })
	c := dial(t, Spec{URL: srv.URL}, transport.Options{Injector: f})
	c.Agree("2026-07-28", true)
	_, err := f.Begin(transport.BreakForget, 0, time.Second)
	wantFault(t, err, fault.Invalid, fault.NotSent)
	_, err = f.Begin(transport.BreakDrop, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent) // no stream is open
	if f.Active() {
		t.Error("the injector is on")
	}

	foreign := &transport.Injector{}
	dial(t, Spec{URL: srv.URL, Client: &http.Client{Transport: http.DefaultTransport}}, transport.Options{Injector: foreign})
	_, err = foreign.Begin(transport.BreakKill, 0, time.Second)
	if wantFault(t, err, fault.Invalid, fault.NotSent); !errors.Is(err, errForeign) {
		t.Error(err)
	}
}

func TestFaultsSlow(t *testing.T) {
	f := &transport.Injector{}
	_, spec, _ := sessionServer(t, plainAnswer)
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	begin(t, f, transport.BreakSlow)
	began := time.Now()
	mustCall(t, c, 2, "echo")
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("the answer was held back for %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Call(ctx, newRequest(3, "echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
}

func TestFaultsGarbage(t *testing.T) {
	f := &transport.Injector{}
	_, spec, _ := sessionServer(t, func(w http.ResponseWriter, _ *http.Request, s seen) {
		if s.method == "json" {
			answerJSON(w, s)
			return
		}
		startEvents(w)
		write(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
	})
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	trouble := begin(t, f, transport.BreakGarbage)
	_, err := call(t, c, 2, "json")
	wantFault(t, err, fault.Protocol, fault.Unknown)
	before := c.Info().Noise
	mustCall(t, c, 3, "events") // an event that is none does not hide the next one
	if n := c.Info().Noise; n != before+1 {
		t.Errorf("noise went from %d to %d", before, n)
	}
	trouble.End()
	mustCall(t, c, 4, "json")
}

func TestFaultsDrop(t *testing.T) {
	f := &transport.Injector{}
	asked := make(chan struct{}, 1)
	_, spec, standing := sessionServer(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		if s.method == "stream" {
			startEvents(w)
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		answerJSON(w, s)
	})
	c := dial(t, spec, transport.Options{Injector: f})
	initialize(t, c)
	await(t, standing, "the standing stream")
	lost := make(chan error, 1)
	go func() { // ends with its stream
		_, err := call(t, c, 2, "stream")
		lost <- err
	}()
	<-asked
	eventually(t, "both streams", func() bool { return c.(*conn).streams(2) })
	begin(t, f, transport.BreakDrop)
	if got := wantFault(t, <-lost, fault.Broken, fault.Unknown); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("it does not look as if the stream had been cut: %v", got)
	}
	await(t, standing, "the next standing stream")
	await(t, c.Relisten(), "the note about the gap")
	mustCall(t, c, 3, "echo")
}

// streams reports whether so many event streams are open.
func (k *core) streams(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.standing.Load() != nil {
		n--
	}
	for ex := range k.exchanges {
		if ex.events.open.Load() {
			n--
		}
	}
	return n <= 0
}

func TestFaultsSSE(t *testing.T) {
	ends := func(kind transport.Breakage) {
		t.Run(kind.String(), func(t *testing.T) {
			f := &transport.Injector{}
			c, _ := sseDial(t, &sseScript{endpoint: "/m"}, transport.Options{Injector: f})
			mustCall(t, c, 1, "initialize")
			begin(t, f, kind).Observed(t.Context())
			await(t, c.Done(), "the end of the link")
			wantFault(t, c.Err(), fault.Broken, fault.Unknown)
		})
	}
	ends(transport.BreakKill)
	ends(transport.BreakDrop)
	t.Run("404", func(t *testing.T) {
		f := &transport.Injector{}
		c, h := sseDial(t, &sseScript{endpoint: "/m"}, transport.Options{Injector: f})
		mustCall(t, c, 1, "initialize")
		begin(t, f, transport.BreakForget)
		_, err := call(t, c, 2, "echo")
		wantFault(t, err, fault.SessionLost, fault.NotSent)
		if n := h.count(http.MethodPost, "echo"); n != 0 {
			t.Errorf("the server got %d requests", n)
		}
	})
	t.Run("hang, slow and garbage", func(t *testing.T) {
		f := &transport.Injector{}
		c, _ := sseDial(t, &sseScript{endpoint: "/m"}, transport.Options{Injector: f})
		mustCall(t, c, 1, "initialize")
		hang := begin(t, f, transport.BreakHang)
		_, err := c.Call(briefly(t), newRequest(2, "echo", `{}`))
		wantFault(t, err, fault.Deadline, fault.Unknown)
		hang.End()
		mustCall(t, c, 3, "echo")
		slow := begin(t, f, transport.BreakSlow)
		began := time.Now()
		mustCall(t, c, 4, "echo")
		if took := time.Since(began); took < 60*time.Millisecond {
			t.Errorf("the answer was held back for %v", took)
		}
		slow.End()
		before := c.Info().Noise
		begin(t, f, transport.BreakGarbage)
		mustCall(t, c, 5, "echo")
		if n := c.Info().Noise; n != before+1 {
			t.Errorf("noise went from %d to %d", before, n)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatal("waited too long for ", what)
		}
	}
}
