package stdio

import (
	"context"
	"fmt"
	"strings"
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
		wait(t, "the end of the breakage", trouble.Over())
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

// BenchmarkFaultsCall has a whole call without an injector, and with one that is off.
func BenchmarkFaultsCall(b *testing.B) {
	for name, faults := range map[string]*transport.Injector{"none": nil, "off": {}} {
		b.Run(name, func(b *testing.B) {
			c, err := Open(b.Context(), childSpec("fast"), transport.Options{Inbound: func(transport.Inbound) {}, Injector: faults})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close(context.Background()) })
			b.ReportAllocs()
			for b.Loop() {
				benchCall(b, c.(*conn), 1, []byte(`{"text":"hello"}`))
			}
		})
	}
}

// TestFaultsRefuse: what cannot be broken is said, and nothing is.
func TestFaultsRefuse(t *testing.T) {
	f := &transport.Injector{}
	_, err := f.Begin(transport.BreakKill, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent)

	p := openPeer(t, childSpec("serve"), transport.Options{Injector: f})
	_, err = f.Begin(transport.BreakForget, 0, time.Second)
	if got := wantFault(t, err, fault.Invalid, fault.NotSent); got.Remedy != "--fault kill|hang|slow|garbage|drop" {
		t.Errorf("what fits is said to be %q", got.Remedy)
	}
	begin(t, f, transport.BreakSlow)
	_, err = f.Begin(transport.BreakHang, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent)
	p.want("echo", `{"text":"still there"}`, `"still there"`)

	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	_, err = f.Begin(transport.BreakKill, 0, time.Second)
	wantFault(t, err, fault.Conflict, fault.NotSent) // nothing is reachable after the end of the only link
}

// TestFaultsEndByThemselves needs nobody to turn them off.
func TestFaultsEndByThemselves(t *testing.T) {
	f := &transport.Injector{}
	p := openPeer(t, childSpec("serve"), transport.Options{Injector: f})
	trouble, err := f.Begin(transport.BreakHang, 0, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	p.want("echo", `{"text":"late"}`, `"late"`) // waits for the end
	wait(t, "the end", trouble.Over())
	if f.Active() {
		t.Error("the injector is still on")
	}
}

func TestFaultsKill(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%v", plain), func(t *testing.T) {
			f := &transport.Injector{}
			spec := childSpec("serve")
			spec.plain = plain
			p := openPeer(t, spec, transport.Options{Injector: f})
			p.want("echo", `{"text":"a"}`, `"a"`)
			lost := make(chan error, 1)
			go func() { // ends with the link
				_, err := p.call("never", `{}`)
				lost <- err
			}()
			p.want("echo", `{"text":"b"}`, `"b"`)
			trouble := begin(t, f, transport.BreakKill)
			trouble.Observed(testContext(t))
			if !closed(p.Done()) {
				t.Fatal("it is said to have been observed, and the link lives")
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

func TestFaultsDrop(t *testing.T) {
	f := &transport.Injector{}
	p := openPeer(t, childSpec("silent"), transport.Options{Injector: f})
	lost := make(chan error, 1)
	go func() { // ends with the link
		_, err := p.call("never", `{}`)
		lost <- err
	}()
	eventually(t, "the call", func() bool { return p.mux.Waiting() > 0 })
	begin(t, f, transport.BreakDrop).Observed(testContext(t))
	got := wantFault(t, <-lost, fault.Exited, fault.Unknown)
	if got.Exit != transport.CleanExit || got.Cause().Error() != "the server closed its stdout" {
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

func TestFaultsHang(t *testing.T) {
	f := &transport.Injector{}
	p := openPeer(t, childSpec("serve"), transport.Options{Injector: f})
	trouble := begin(t, f, transport.BreakHang)
	_, err := p.Call(briefly(t), p.request("echo", `{"text":"held"}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	trouble.End()
	p.want("echo", `{"text":"next"}`, `"next"`)
	if n := p.Info().LateAnswers; n != 1 {
		t.Errorf("%d late answers, want the one that was held", n)
	}

	begin(t, f, transport.BreakHang) // and a link can be closed meanwhile
	_, err = p.Call(briefly(t), p.request("echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestFaultsSlow(t *testing.T) {
	f := &transport.Injector{}
	p := openPeer(t, childSpec("serve"), transport.Options{Injector: f})
	trouble := begin(t, f, transport.BreakSlow)
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

func TestFaultsGarbage(t *testing.T) {
	f := &transport.Injector{}
	p := openPeer(t, childSpec("serve"), transport.Options{Injector: f})
	p.want("echo", `{"text":"before"}`, `"before"`)
	trouble := begin(t, f, transport.BreakGarbage)
	for range 5 {
		p.want("echo", `{"text":"meanwhile"}`, `"meanwhile"`)
	}
	// In pieces: garbage must not come into the middle of a line.
	p.want("big", `{"n":300000,"step":10000}`, `"`+strings.Repeat("b", 300000)+`"`)
	info := p.Info()
	if info.Noise < 6 || info.LastNoise != transport.Garbage {
		t.Errorf("noise: %d, the last is %q", info.Noise, info.LastNoise)
	}
	trouble.End()
	p.want("echo", `{"text":"after"}`, `"after"`)
	if n := p.Info().Noise; n != info.Noise {
		t.Errorf("%d more lines of noise afterwards", n-info.Noise)
	}
}
