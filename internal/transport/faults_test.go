package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/everline/everline/fault"
)

// begin breaks, and checks that the layer is off at the end of the test.
func begin(t *testing.T, f *Faults, kind Breakage) *Trouble {
	t.Helper()
	trouble, err := f.Begin(kind, 60*time.Millisecond, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		trouble.End()
		wait(t, "the end of the breakage", trouble.Over())
		if f.Active() {
			t.Error("the layer is still on")
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

// TestFaultsOff is about the layer that nobody has turned on: nothing is
// allocated for it, and a nil one is off.
func TestFaultsOff(t *testing.T) {
	var none *Faults
	off := &Faults{}
	if none.now() != nil || none.lasting(BreakSlow) != nil || off.Active() {
		t.Error("a layer that nobody turned on is on")
	}
	if n := testing.AllocsPerRun(1000, func() {
		if none.now() != nil || off.lasting(BreakHang) != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations for a look at it", n)
	}
	none.join(nil)
	none.leave(nil)
}

func BenchmarkFaultsOff(b *testing.B) {
	off := &Faults{}
	b.ReportAllocs()
	for b.Loop() {
		if off.lasting(BreakSlow) != nil {
			b.Fail()
		}
	}
}

// BenchmarkFaultsCall has a whole call without a layer, and with one that is off.
func BenchmarkFaultsCall(b *testing.B) {
	for name, faults := range map[string]*Faults{"none": nil, "off": {}} {
		b.Run(name, func(b *testing.B) {
			c, err := OpenStdio(b.Context(), childSpec("fast"), Options{Inbound: func(Inbound) {}, Faults: faults})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close(context.Background()) })
			b.ReportAllocs()
			for b.Loop() {
				benchCall(b, c.(*stdioConn), 1, []byte(`{"text":"hello"}`))
			}
		})
	}
}

func TestFaultsWords(t *testing.T) {
	for i, word := range Breakages() {
		if b, ok := ParseBreakage(word); !ok || b != Breakage(i) || b.String() != word {
			t.Errorf("%q is %v, %v", word, b, ok)
		}
	}
	if _, ok := ParseBreakage("explode"); ok {
		t.Error("explode is a breakage")
	}
}

// TestFaultsRefuse: what cannot be broken is said, and nothing is.
func TestFaultsRefuse(t *testing.T) {
	f := &Faults{}
	_, err := f.Begin(BreakKill, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent)

	p := openPeer(t, childSpec("serve"), Options{Faults: f})
	_, err = f.Begin(BreakForget, 0, time.Second)
	if got := wantFault(t, err, fault.Invalid, fault.NotSent); got.Remedy != "--fault kill|hang|slow|garbage|drop" {
		t.Errorf("what fits is said to be %q", got.Remedy)
	}
	begin(t, f, BreakSlow)
	_, err = f.Begin(BreakHang, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent)
	p.want("echo", `{"text":"still there"}`, `"still there"`)

	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(f.alive()); n != 0 {
		t.Errorf("%d links are reachable after the end of the only one", n)
	}
}

// TestFaultsEndByThemselves needs nobody to turn them off.
func TestFaultsEndByThemselves(t *testing.T) {
	f := &Faults{}
	p := openPeer(t, childSpec("serve"), Options{Faults: f})
	trouble, err := f.Begin(BreakHang, 0, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	p.want("echo", `{"text":"late"}`, `"late"`) // waits for the end
	wait(t, "the end", trouble.Over())
	if f.Active() {
		t.Error("the layer is still on")
	}
}

func TestFaultsStdioKill(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%v", plain), func(t *testing.T) {
			f := &Faults{}
			spec := childSpec("serve")
			spec.plain = plain
			p := openPeer(t, spec, Options{Faults: f})
			p.want("echo", `{"text":"a"}`, `"a"`)
			lost := make(chan error, 1)
			go func() { // ends with the link
				_, err := p.call("never", `{}`)
				lost <- err
			}()
			p.want("echo", `{"text":"b"}`, `"b"`)
			trouble := begin(t, f, BreakKill)
			trouble.Felt(testContext(t))
			if !closed(p.Done()) {
				t.Fatal("it is said to have been felt, and the link lives")
			}
			got := wantFault(t, p.Err(), fault.Exited, fault.Unknown)
			if got.Exit != "signal: killed" {
				t.Errorf("exit %q", got.Exit)
			}
			select {
			case err := <-lost:
				if fault.KindOf(err) == fault.Deadline {
					t.Errorf("the call in flight: %v", err)
				}
			case <-testContext(t).Done():
				t.Error("the call in flight did not end")
			}
			_, err := p.call("echo", `{}`)
			wantFault(t, err, fault.Exited, fault.NotSent)
		})
	}
}

func TestFaultsStdioDrop(t *testing.T) {
	f := &Faults{}
	p := openPeer(t, childSpec("silent"), Options{Faults: f})
	lost := make(chan error, 1)
	go func() { // ends with the link
		_, err := p.call("never", `{}`)
		lost <- err
	}()
	eventually(t, "the call", func() bool { return len(p.mux.pending()) > 0 })
	begin(t, f, BreakDrop).Felt(testContext(t))
	got := wantFault(t, <-lost, fault.Exited, fault.Unknown)
	if got.Exit != cleanExit || got.Cause().Error() != "the server closed its stdout" {
		t.Errorf("%q, %v", got.Exit, got.Err)
	}
}

// eventually waits for something that nothing tells of.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := testContext(t); !ok(); {
		select {
		case <-tick.C:
		case <-late.Done():
			t.Fatal("waited too long for ", what)
		}
	}
}

// pending lists the calls that wait.
func (m *linkMux) pending() (ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.waiters {
		ids = append(ids, id)
	}
	return ids
}

func TestFaultsStdioHang(t *testing.T) {
	f := &Faults{}
	p := openPeer(t, childSpec("serve"), Options{Faults: f})
	trouble := begin(t, f, BreakHang)
	_, err := p.Call(briefly(t), p.request("echo", `{"text":"held"}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	trouble.End()
	p.want("echo", `{"text":"next"}`, `"next"`)
	if n := p.Info().Strays; n != 1 {
		t.Errorf("%d late answers, want the one that was held", n)
	}

	begin(t, f, BreakHang) // and a link can be closed meanwhile
	_, err = p.Call(briefly(t), p.request("echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestFaultsStdioSlow(t *testing.T) {
	f := &Faults{}
	p := openPeer(t, childSpec("serve"), Options{Faults: f})
	trouble := begin(t, f, BreakSlow)
	began := time.Now()
	p.want("echo", `{"text":"slow"}`, `"slow"`)
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("the answer was held back for %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, p.request("echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	trouble.End()
	p.want("echo", `{"text":"fast"}`, `"fast"`)
}

func TestFaultsStdioGarbage(t *testing.T) {
	f := &Faults{}
	p := openPeer(t, childSpec("serve"), Options{Faults: f})
	p.want("echo", `{"text":"before"}`, `"before"`)
	trouble := begin(t, f, BreakGarbage)
	for range 5 {
		p.want("echo", `{"text":"meanwhile"}`, `"meanwhile"`)
	}
	// In pieces: garbage must not come into the middle of a line.
	p.want("big", `{"n":300000,"step":10000}`, `"`+strings.Repeat("b", 300000)+`"`)
	info := p.Info()
	if info.Noise < 6 || info.LastNoise != garbage {
		t.Errorf("noise: %d, the last is %q", info.Noise, info.LastNoise)
	}
	trouble.End()
	p.want("echo", `{"text":"after"}`, `"after"`)
	if n := p.Info().Noise; n != info.Noise {
		t.Errorf("%d more lines of noise afterwards", n-info.Noise)
	}
}

// A sessionServer answers POSTs of legacy clients with a session, and keeps
// their standing stream open.
func sessionServer(t *testing.T, answer func(http.ResponseWriter, *http.Request, httpSeen)) (*httpScripted, HTTPSpec, chan struct{}) {
	standing := make(chan struct{}, 8)
	h, srv := httpServe(t, func(w http.ResponseWriter, r *http.Request, s httpSeen) {
		switch {
		case httpHandshake(w, s, "s1"):
		case s.verb == http.MethodGet:
			httpStartEvents(w)
			standing <- struct{}{}
			<-r.Context().Done()
		default:
			answer(w, r, s)
		}
	})
	return h, HTTPSpec{URL: srv.URL}, standing
}

func plainAnswer(w http.ResponseWriter, _ *http.Request, s httpSeen) { httpJSONAnswer(w, s) }

func TestFaultsHTTPKill(t *testing.T) {
	f := &Faults{}
	asked := make(chan struct{}, 1)
	_, spec, _ := sessionServer(t, func(w http.ResponseWriter, r *http.Request, s httpSeen) {
		if s.method == "hold" {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		httpJSONAnswer(w, s)
	})
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	lost := make(chan error, 1)
	go func() { // ends with its connection
		_, err := httpCall(t, c, 2, "hold")
		lost <- err
	}()
	<-asked
	begin(t, f, BreakKill)
	if got := httpWant(t, <-lost, fault.Broken, fault.Unknown); !errors.Is(got, syscall.ECONNRESET) {
		t.Errorf("it does not look as if the server had cut it: %v", got)
	}
	httpMustCall(t, c, 3, "echo")
}

func TestFaultsHTTPHang(t *testing.T) {
	f := &Faults{}
	h, spec, _ := sessionServer(t, plainAnswer)
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	trouble := begin(t, f, BreakHang)
	_, err := c.Call(briefly(t), httpReq(2, "echo", `{}`))
	httpWant(t, err, fault.Deadline, fault.Unknown)
	if n := h.count(http.MethodPost, "echo"); n != 1 {
		t.Errorf("the server got %d requests", n)
	}
	trouble.End()
	httpMustCall(t, c, 3, "echo")
}

func TestFaultsHTTPForget(t *testing.T) {
	f := &Faults{}
	h, spec, _ := sessionServer(t, plainAnswer)
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	begin(t, f, BreakForget)
	_, err := httpCall(t, c, 2, "echo")
	got := httpWant(t, err, fault.SessionLost, fault.NotSent)
	if got.Status != http.StatusNotFound {
		t.Errorf("status %d", got.Status)
	}
	httpWait(t, c.Done(), "the end of the link")
	if n := h.count(http.MethodPost, "echo"); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
	next := httpDial(t, spec, Options{Faults: f})
	httpInit(t, next)
	httpMustCall(t, next, 2, "echo")
}

// TestFaultsHTTPForgetNeedsASession: where there is none, none can be lost.
func TestFaultsHTTPForgetNeedsASession(t *testing.T) {
	f := &Faults{}
	_, srv := httpServe(t, func(w http.ResponseWriter, _ *http.Request, s httpSeen) { httpJSONAnswer(w, s) })
	c := httpDial(t, HTTPSpec{URL: srv.URL}, Options{Faults: f})
	c.Agree("2026-07-28", true)
	_, err := f.Begin(BreakForget, 0, time.Second)
	httpWant(t, err, fault.Invalid, fault.NotSent)
	_, err = f.Begin(BreakDrop, 0, time.Second)
	httpWant(t, err, fault.Conflict, fault.NotSent) // no stream is open
	if f.Active() {
		t.Error("the layer is on")
	}

	foreign := &Faults{}
	httpDial(t, HTTPSpec{URL: srv.URL, Client: &http.Client{Transport: http.DefaultTransport}}, Options{Faults: foreign})
	_, err = foreign.Begin(BreakKill, 0, time.Second)
	if httpWant(t, err, fault.Invalid, fault.NotSent); !errors.Is(err, errForeign) {
		t.Error(err)
	}
}

func TestFaultsHTTPSlow(t *testing.T) {
	f := &Faults{}
	_, spec, _ := sessionServer(t, plainAnswer)
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	begin(t, f, BreakSlow)
	began := time.Now()
	httpMustCall(t, c, 2, "echo")
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("the answer was held back for %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Call(ctx, httpReq(3, "echo", `{}`))
	httpWant(t, err, fault.Deadline, fault.Unknown)
}

func TestFaultsHTTPGarbage(t *testing.T) {
	f := &Faults{}
	_, spec, _ := sessionServer(t, func(w http.ResponseWriter, _ *http.Request, s httpSeen) {
		if s.method == "json" {
			httpJSONAnswer(w, s)
			return
		}
		httpStartEvents(w)
		httpWrite(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
	})
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	trouble := begin(t, f, BreakGarbage)
	_, err := httpCall(t, c, 2, "json")
	httpWant(t, err, fault.Protocol, fault.Unknown)
	before := c.Info().Noise
	httpMustCall(t, c, 3, "events") // an event that is none does not hide the next one
	if n := c.Info().Noise; n != before+1 {
		t.Errorf("noise went from %d to %d", before, n)
	}
	trouble.End()
	httpMustCall(t, c, 4, "json")
}

func TestFaultsHTTPDrop(t *testing.T) {
	f := &Faults{}
	asked := make(chan struct{}, 1)
	_, spec, standing := sessionServer(t, func(w http.ResponseWriter, r *http.Request, s httpSeen) {
		if s.method == "stream" {
			httpStartEvents(w)
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		httpJSONAnswer(w, s)
	})
	c := httpDial(t, spec, Options{Faults: f})
	httpInit(t, c)
	httpWait(t, standing, "the standing stream")
	lost := make(chan error, 1)
	go func() { // ends with its stream
		_, err := httpCall(t, c, 2, "stream")
		lost <- err
	}()
	<-asked
	eventually(t, "both streams", func() bool { return c.(*httpConn).streams(2) })
	begin(t, f, BreakDrop)
	if got := httpWant(t, <-lost, fault.Broken, fault.Unknown); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("it does not look as if the stream had been cut: %v", got)
	}
	httpWait(t, standing, "the next standing stream")
	httpWait(t, c.Relisten(), "the note about the gap")
	httpMustCall(t, c, 3, "echo")
}

// streams tells whether so many event streams are open.
func (k *httpCore) streams(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.standing.Load() != nil {
		n--
	}
	for fl := range k.flights {
		if fl.events.open.Load() {
			n--
		}
	}
	return n <= 0
}

func TestFaultsSSE(t *testing.T) {
	ends := func(kind Breakage) {
		t.Run(kind.String(), func(t *testing.T) {
			f := &Faults{}
			c, _ := sseDial(t, &sseScript{endpoint: "/m"}, Options{Faults: f})
			httpMustCall(t, c, 1, "initialize")
			begin(t, f, kind).Felt(testContext(t))
			httpWait(t, c.Done(), "the end of the link")
			httpWant(t, c.Err(), fault.Broken, fault.Unknown)
		})
	}
	ends(BreakKill)
	ends(BreakDrop)
	t.Run("404", func(t *testing.T) {
		f := &Faults{}
		c, h := sseDial(t, &sseScript{endpoint: "/m"}, Options{Faults: f})
		httpMustCall(t, c, 1, "initialize")
		begin(t, f, BreakForget)
		_, err := httpCall(t, c, 2, "echo")
		httpWant(t, err, fault.SessionLost, fault.NotSent)
		if n := h.count(http.MethodPost, "echo"); n != 0 {
			t.Errorf("the server got %d requests", n)
		}
	})
	t.Run("hang, slow and garbage", func(t *testing.T) {
		f := &Faults{}
		c, _ := sseDial(t, &sseScript{endpoint: "/m"}, Options{Faults: f})
		httpMustCall(t, c, 1, "initialize")
		hang := begin(t, f, BreakHang)
		_, err := c.Call(briefly(t), httpReq(2, "echo", `{}`))
		httpWant(t, err, fault.Deadline, fault.Unknown)
		hang.End()
		httpMustCall(t, c, 3, "echo")
		slow := begin(t, f, BreakSlow)
		began := time.Now()
		httpMustCall(t, c, 4, "echo")
		if took := time.Since(began); took < 60*time.Millisecond {
			t.Errorf("the answer was held back for %v", took)
		}
		slow.End()
		before := c.Info().Noise
		begin(t, f, BreakGarbage)
		httpMustCall(t, c, 5, "echo")
		if n := c.Info().Noise; n != before+1 {
			t.Errorf("noise went from %d to %d", before, n)
		}
	})
}
