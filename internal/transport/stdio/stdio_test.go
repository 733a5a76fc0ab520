package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A peer is a connection to the test binary acting as a server.
type peer struct {
	*conn
	t  *testing.T
	id atomic.Int64
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func childSpec(mode string) Spec {
	return Spec{
		Command: os.Args[0],
		// A child with the race detector would sleep a second before it exits.
		Env: BaseEnv(map[string]string{childEnv: mode, "GORACE": "atexit_sleep_ms=0"}),
		// What is not the point of a test need not be waited for.
		CloseWait: 5 * time.Second, StopGrace: 5 * time.Second,
	}
}

func openPeer(t *testing.T, spec Spec, opt transport.Options) *peer {
	t.Helper()
	if opt.Inbound == nil {
		opt.Inbound = func(transport.Inbound) {}
	}
	c, err := Open(testContext(t), spec, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(testContext(t)); err != nil {
			t.Error(err)
		}
	})
	return &peer{conn: c.(*conn), t: t}
}

func (p *peer) request(method, params string) *transport.Request {
	id := p.id.Add(1)
	return &transport.Request{ID: id, Method: method, Frame: wire.AppendRequest(nil, id, method, []byte(params))}
}

func (p *peer) call(method, params string) (string, error) {
	m, err := p.Call(testContext(p.t), p.request(method, params))
	return string(m.Result), err
}

func (p *peer) want(method, params, result string) {
	p.t.Helper()
	if got, err := p.call(method, params); err != nil || got != result {
		p.t.Fatalf("%s: got %.200s, %v, want %.200s", method, got, err, result)
	}
}

// wantFault checks kind and outcome of an error and returns it.
func wantFault(t *testing.T, err error, kind fault.Kind, outcome fault.Outcome) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a %v fault", err, kind)
	}
	if f.Kind != kind || f.Outcome != outcome {
		t.Fatalf("got %v, %v (%v), want %v, %v", f.Kind, f.Outcome, err, kind, outcome)
	}
	return f
}

func wait(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-testContext(t).Done():
		t.Fatal("waited too long for ", what)
	}
}

func TestEcho(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	p.want("echo", `{"text":"hello"}`, `"hello"`)
	p.want("echo", "{\r\n\"text\" :\n\"two\\nlines\"}", `"two\nlines"`)
	info := p.Info()
	if info.Kind != transport.Stdio || info.PID == 0 || info.Started.IsZero() || info.Noise != 0 {
		t.Errorf("%+v", info)
	}
	if p.Relisten() != nil || info.CancelByClose || p.Err() != nil {
		t.Error("a pipe has no gaps, no close that cancels, and no error while it lives")
	}
}

func TestInbound(t *testing.T) {
	got := make(chan transport.Inbound, 1)
	p := openPeer(t, childSpec("serve"), transport.Options{Inbound: func(message transport.Inbound) { got <- message }})
	p.want("ask", `{}`, `"asked"`)
	message := <-got
	if message.Msg.Method != "roots/list" || string(message.Msg.ID) != `"s1"` || message.CallID != 0 {
		t.Errorf("%+v", message)
	}
	if err := p.Send(testContext(t), wire.AppendResult(nil, message.Msg.ID, nil)); err != nil {
		t.Error(err)
	}
	p.want("batch", `{}`, `"batched"`)
	if message := <-got; message.Msg.Method != "notifications/message" {
		t.Errorf("%+v", message)
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, p.request("never", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
	_, err = p.Call(ctx, p.request("echo", `{}`))
	wantFault(t, err, fault.Deadline, fault.NotSent)

	ctx, cancelHold := context.WithCancel(testContext(t))
	defer cancelHold()
	held := make(chan error, 1)
	go func() { // ends with cancelHold
		_, err := p.Call(ctx, p.request("hold", `{}`))
		held <- err
	}()
	for p.mux.Waiting() == 0 {
		p.want("echo", `{"text":"x"}`, `"x"`)
	}
	p.want("echo", `{"text":"x"}`, `"x"`) // the server has read "hold"
	cancelHold()
	wantFault(t, <-held, fault.Canceled, fault.Unknown)
	p.want("release", `{}`, `"released"`) // and now the late answer comes
	p.want("echo", `{"text":"y"}`, `"y"`)
	if n := p.Info().LateAnswers; n != 1 {
		t.Errorf("%d late answers, want the late answer", n)
	}
}

func TestFaultD3DiesOrMissingAtStart(t *testing.T) {
	p := openPeer(t, childSpec("die"), transport.Options{})
	_, err := p.call("initialize", `{}`)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Exited || f.Exit != "exit 1" || !slices.Equal(f.Stderr, []string{"first line", "second line"}) {
		t.Errorf("got %#v", err)
	}
	wait(t, "the end", p.Done())
	_, err = p.call("echo", `{}`)
	wantFault(t, err, fault.Exited, fault.NotSent)

	_, err = Open(testContext(t), Spec{Command: "/no/such/file"}, transport.Options{})
	wantFault(t, err, fault.Missing, fault.NotSent)
	_, err = Open(testContext(t), Spec{Command: os.Args[0], Dir: "/no/such/folder"}, transport.Options{})
	wantFault(t, err, fault.Missing, fault.NotSent)
	_, err = Open(testContext(t), Spec{}, transport.Options{})
	wantFault(t, err, fault.Invalid, fault.NotSent)

	silent := openPeer(t, childSpec("silent"), transport.Options{})
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
	defer cancel()
	_, err = silent.Call(ctx, silent.request("initialize", `{}`))
	wantFault(t, err, fault.Deadline, fault.Unknown)
}

func TestFaultE4ExitWhileACallWaits(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	_, err := p.call("exit", `{"n":7}`)
	f := wantFault(t, err, fault.Exited, fault.Unknown)
	if f.Exit != "exit 7" || f.Op != "exit" || !slices.Equal(f.Stderr, []string{"last words"}) {
		t.Errorf("%#v", f)
	}
	if !closed(p.Done()) {
		t.Error("Done must be closed before the calls fail")
	}
	if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != "exit 7" {
		t.Errorf("%#v", f)
	}
}

func TestAnswerJustBeforeExit(t *testing.T) {
	for range 3 {
		p := openPeer(t, childSpec("serve"), transport.Options{})
		p.want("answer-exit", `{"n":0}`, `"done"`)
		wait(t, "the end", p.Done())
		if f := wantFault(t, p.Err(), fault.Exited, fault.Unknown); f.Exit != transport.CleanExit {
			t.Errorf("%#v", f)
		}
	}
}

func TestStdoutClosed(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	_, err := p.call("close-stdout", `{}`)
	if f := wantFault(t, err, fault.Exited, fault.Unknown); f.Exit != transport.CleanExit {
		t.Errorf("%#v", f)
	}
}

func TestFaultE7CommandNotFound(t *testing.T) {
	spec := Spec{Command: "everline-no-such-command", Env: []string{"PATH=/usr/bin" + string(os.PathListSeparator) + "/bin"}}
	_, err := Open(testContext(t), spec, transport.Options{})
	f := wantFault(t, err, fault.Missing, fault.NotSent)
	if !strings.Contains(f.Reason(), spec.Command) || !strings.Contains(f.Reason(), "/usr/bin") || f.Remedy == "" {
		t.Errorf("does not say what was searched: %v, %q", f, f.Remedy)
	}

	dir := t.TempDir()
	if err := os.Link(os.Args[0], filepath.Join(dir, filepath.Base(os.Args[0]))); err != nil {
		t.Fatal(err)
	}
	spec = childSpec("serve")
	spec.Command = filepath.Base(os.Args[0])
	spec.Env = append(spec.Env, "PATH="+dir) // the child's PATH is what counts
	openPeer(t, spec, transport.Options{}).want("echo", `{"text":"found"}`, `"found"`)
}

func TestFaultE8EnvIsMergedOverABase(t *testing.T) {
	t.Setenv("OTHER_SERVERS_SECRET", "s3cret")
	t.Setenv("LC_EVERLINE", "x")
	spec := childSpec("serve")
	spec.Env = BaseEnv(map[string]string{"MY_VAR": "", "HOME": "/elsewhere", childEnv: "serve", "GORACE": "atexit_sleep_ms=0"})
	raw, err := openPeer(t, spec, transport.Options{}).call("env", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	if err := json.Unmarshal([]byte(raw), &env); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MY_VAR=", "HOME=/elsewhere", "LC_EVERLINE=x", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if v, ok := envValue(env, "OTHER_SERVERS_SECRET"); ok {
		t.Errorf("a variable leaked: %q", v)
	}
	if !slices.IsSorted(spec.Env) {
		t.Errorf("not sorted: %q", spec.Env)
	}
}

func TestFaultF1NoiseOnStdout(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	for range 3 {
		p.want("noise", `{}`, `"after noise"`)
	}
	info := p.Info()
	// "Loading", colours, 42, a string, two array elements, an object, a broken line, 10 KiB.
	if info.Noise != 3*9 || info.LastNoise != strings.Repeat("x", 200) {
		t.Errorf("%d noise lines, the last one is %q", info.Noise, info.LastNoise)
	}
}

// Every byte there is, and a line that is cut in the middle of characters.
func TestFaultF1BinaryOnStdout(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	for range 3 {
		p.want("binary", `{}`, `"after binary"`)
	}
	if n := p.Info().Noise; n != 3*2 {
		t.Errorf("%d noise lines", n)
	}
}

// Lines that come in pieces which cut characters in two.
func TestFaultF3CharactersInPieces(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	for _, step := range []int{1, 2, 3, 5} {
		const text = "gr\u00fc\u00df \u65e5\u672c \U0001f600"
		p.want("pieces", fmt.Sprintf(`{"step":%d,"text":"%s"}`, step, text), `"`+text+`"`)
	}
}

func TestNothingButNoise(t *testing.T) {
	p := openPeer(t, childSpec("garbage"), transport.Options{})
	_, err := p.call("initialize", `{}`)
	if f := wantFault(t, err, fault.Protocol, fault.Unknown); f.Remedy == "" {
		t.Errorf("%#v", f)
	}
}

func TestFaultF2StderrFlood(t *testing.T) {
	var lines atomic.Int64
	gate := make(chan struct{})
	p := openPeer(t, childSpec("stderr"), transport.Options{Stderr: func(string) {
		lines.Add(1)
		<-gate // a sink that hangs
	}})
	defer close(gate)
	for range 3 {
		p.want("echo", `{"text":"a"}`, `"a"`)
	}
	if lines.Load() > 1 {
		t.Error("the sink did not hang")
	}
}

func TestStderrSink(t *testing.T) {
	got := make(chan string, 10)
	p := openPeer(t, childSpec("die"), transport.Options{Stderr: func(s string) { got <- s }})
	wait(t, "the end", p.Done())
	if a, b := <-got, <-got; a != "first line" || b != "second line" {
		t.Errorf("got %q, %q", a, b)
	}
}

func TestFaultF3LongLines(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	for _, c := range []struct{ size, step int }{
		{64<<10 - 1, 0}, {64 << 10, 0}, {1 << 20, 0}, {10 << 20, 0}, {64 << 10, 7}, {16 << 10, 1},
	} {
		got, err := p.call("big", fmt.Sprintf(`{"n":%d,"step":%d}`, c.size, c.step))
		if err != nil || got != `"`+strings.Repeat("b", c.size)+`"` {
			t.Fatalf("%+v: %d bytes, %v", c, len(got), err)
		}
	}
	text := strings.Repeat("w", 5<<20) // and the other way
	p.want("echo", `{"text":"`+text+`"}`, `"`+text+`"`)
}

func TestFaultF3OverTheLimit(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{MaxMessage: 100 << 10})
	_, err := p.call("big", `{"n":1000000}`) // the id is at the end of the line
	wantFault(t, err, fault.TooLarge, fault.Answered)
	_, err = p.call("echo", `{"text":"`+strings.Repeat("w", 100<<10)+`"}`)
	wantFault(t, err, fault.TooLarge, fault.NotSent)
	p.want("echo", `{"text":"still here"}`, `"still here"`)
}

func TestFaultF5MarkAndCRLF(t *testing.T) {
	p := openPeer(t, childSpec("bom"), transport.Options{})
	for range 3 {
		p.want("echo", `{"text":"a"}`, `"a"`)
	}
	if n := p.Info().Noise; n != 0 {
		t.Errorf("%d noise lines", n)
	}
}

func TestFaultJ7IDInAnotherForm(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	p.want("string-id", `{}`, `"by string"`)
	for _, id := range []string{"0", "null", `"zero"`, "4711"} {
		_, err := p.call("wrong-id", `{"text":`+string(wire.AppendString(nil, id))+`}`)
		if f := wantFault(t, err, fault.Protocol, fault.Unknown); !strings.Contains(f.Reason(), "wrong id") {
			t.Errorf("%v", f)
		}
	}
	p.want("echo", `{"text":"a"}`, `"a"`)
}

// A server that refuses our notification with an error has not refused the
// request that waits.
func TestFaultJ7ErrorForANotification(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	held := make(chan error, 1)
	go func() { // ends when "release" is answered
		_, err := p.call("hold", `{}`)
		held <- err
	}()
	for p.mux.Waiting() == 0 {
		p.want("echo", `{"text":"x"}`, `"x"`)
	}
	p.want("echo", `{"text":"x"}`, `"x"`)
	if err := p.Send(testContext(t), wire.AppendNotification(nil, "refuse", nil)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := testContext(t); p.Info().LateAnswers == 0 && limit.Err() == nil; {
		<-tick.C
	}
	p.want("release", `{}`, `"released"`)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

func TestFaultJ8AnswersOutOfOrder(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	held := make(chan error, 1)
	go func() { // ends when "release" is answered
		got, err := p.call("hold", `{}`)
		if err == nil && got != `"held"` {
			err = fmt.Errorf("got %s", got)
		}
		held <- err
	}()
	for p.mux.Waiting() == 0 {
		p.want("echo", `{"text":"before"}`, `"before"`)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			want := fmt.Sprintf(`"%d"`, i)
			if got, err := p.call("echo", `{"text":`+want+`}`); err != nil || got != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
	all.Wait()
	select {
	case err := <-held:
		t.Fatal("answered too early: ", err)
	default:
	}
	p.want("release", `{}`, `"released"`)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

func TestChildDoesNotRead(t *testing.T) {
	spec := childSpec("noread")
	spec.WriteStall, spec.CloseWait, spec.StopGrace = time.Second, time.Millisecond, time.Millisecond
	p := openPeer(t, spec, transport.Options{})
	big := `{"text":"` + strings.Repeat("w", 1<<20) + `"}`

	giveUp := func(r *transport.Request) error { // once the line is at the pipe
		ctx, cancel := context.WithCancel(testContext(t))
		failed := make(chan error, 1)
		go func() { // ends with cancel
			_, err := p.Call(ctx, r)
			failed <- err
		}()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for p.mux.Waiting() == 0 || len(p.writer.lock) == 0 {
			<-tick.C
		}
		cancel()
		return <-failed
	}
	err := giveUp(p.request("echo", big)) // half of it is in the pipe
	wantFault(t, err, fault.Canceled, fault.Unknown)
	err = giveUp(p.request("echo", `{}`)) // waits behind it
	wantFault(t, err, fault.Canceled, fault.NotSent)
	_, err = p.call("echo", `{}`)
	wantFault(t, err, fault.Wedged, fault.NotSent)
	wantFault(t, p.Err(), fault.Wedged, fault.Unknown)
}

// A line of which no byte is in the pipe yet is taken back; the link lives.
func TestWriteIsTakenBack(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(r.Close(), w.Close()) }()
	lw := newLineWriter(w, nil, time.Minute)
	full := 0
	for { // fill the pipe to the last byte
		ctx, cancel := context.WithTimeout(testContext(t), 10*time.Millisecond)
		end, _ := lw.write(ctx, bytes.Repeat([]byte("f"), 4095))
		cancel()
		if end == writeRefused {
			break
		}
		if end != writeDone {
			t.Fatal(end)
		}
		full += 4096
	}
	got := make([]byte, full)
	if _, err := r.Read(got); err != nil {
		t.Fatal(err)
	}
	if end, err := lw.write(testContext(t), []byte("next")); end != writeDone {
		t.Fatal(end, err)
	}
	if n, err := r.Read(got); err != nil || string(got[:n]) != "next\n" {
		t.Errorf("got %q, %v", got[:n], err)
	}
}

func TestCloseFailsCalls(t *testing.T) {
	p := openPeer(t, childSpec("serve"), transport.Options{})
	done := make(chan error, 1)
	go func() { // ends with Close
		_, err := p.call("never", `{}`)
		done <- err
	}()
	for p.mux.Waiting() == 0 {
		p.want("echo", `{"text":"x"}`, `"x"`)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := p.Close(testContext(t)); err != nil {
				t.Error(err)
			}
			if !closed(p.stopped) {
				t.Error("Close returned too early")
			}
		})
	}
	all.Wait()
	f := fault.From("", <-done)
	if f.Kind != fault.Closed {
		t.Errorf("got %v", f)
	}
	if p.Err() != nil {
		t.Errorf("Close is no failure: %v", p.Err())
	}
	_, err := p.call("echo", `{}`)
	wantFault(t, err, fault.Closed, fault.NotSent)
}
