package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/echo"
	"github.com/everline/everline/bench/internal/record"
)

const (
	outageBefore  = 3 * time.Second       // of calls before the outages begin
	outageAfter   = 3 * time.Second       // of calls after a server is back
	outagePace    = 50 * time.Millisecond // a call each
	outageLimit   = time.Minute           // of one call, as clients set it
	outagePark    = 30 * time.Second      // parkFor: no call fails in an outage that is shorter
	outageWatched = 25 * time.Second      // a refused port is looked at ten times a second for longer than that
	outagePatient = time.Minute           // after an outage, before the server is given up
)

// bounds are how long a server may stay away after its outage.
const (
	boundOfProcess = 30 * time.Second
	boundOfURL     = 10 * time.Second
	boundOfPort    = 500 * time.Millisecond // 150 ms, the handshake, and what a busy machine adds
)

// An away is one case: a server that is away for a time, with or without calls.
type away struct {
	server  string
	kind    string
	last    time.Duration // of the outage
	called  bool
	lose    func()                      // begins the outage
	restore func(context.Context) error // ends it, and returns when the server could be used

	could time.Time // when it could be used again
	back  time.Time // when everline used it again; zero if it did not
	tally tally
}

func (a *away) name() string {
	what, calls := "process", "no calls"
	if a.kind == overHTTP {
		what = "URL"
	}
	if a.called {
		calls = "20 calls/s"
	}
	return fmt.Sprintf("%s, %.0f s, %s", what, a.last.Seconds(), calls)
}

func (a *away) after() time.Duration { return max(a.back.Sub(a.could), 0) }

func (a *away) bound() time.Duration {
	switch {
	case a.kind == stdio:
		return boundOfProcess
	case a.last <= outageWatched:
		return boundOfPort
	default:
		return boundOfURL
	}
}

// verdict is an error where the case is not as promised.
func (a *away) verdict() error {
	switch {
	case a.back.IsZero():
		return fmt.Errorf("%s: it did not come back", a.name())
	case a.after() > a.bound():
		return fmt.Errorf("%s: back after %v, and %v is the bound", a.name(), a.after(), a.bound())
	case a.last < outagePark && a.tally.failed > 0:
		return fmt.Errorf("%s: %d of %d calls failed, the first with: %s", a.name(), a.tally.failed, a.tally.calls, a.tally.why)
	}
	return nil
}

// outageCases are all of them: servers s1 and so on, processes first.
func outageCases() []*away {
	var all []*away
	for _, kind := range []string{stdio, overHTTP} {
		for _, last := range []time.Duration{5, 15, 40, 120, 400} {
			for _, called := range []bool{false, true} {
				all = append(all, &away{server: fmt.Sprintf("s%d", len(all)+1), kind: kind, last: last * time.Second, called: called})
			}
		}
	}
	return all
}

// runOutages has one everline in front of twenty servers, which all go away at
// the same time, each for its own. It fails where a promise is not kept.
func runOutages(ctx context.Context, d *driver) error {
	cases := outageCases()
	needs := make([]*needed, len(cases)/2)
	for i := range needs {
		var err error
		if needs[i], err = newNeeded(ctx); err != nil {
			return err
		}
		defer needs[i].close()
	}
	target := &target{name: "everline", plan: planEverline}
	w, err := d.start(ctx, target, need{kind: mixed, servers: len(cases), tools: 4, process: func(i int, argv []string) []string {
		frail := []string{argv[0], frailRole, needs[i].address}
		for _, arg := range argv[2:] {
			if !strings.HasPrefix(arg, "-log=") { // all write to it, and what changes is tried
				frail = append(frail, arg)
			}
		}
		return frail
	}})
	if err != nil {
		return err
	}
	defer w.stop()
	if _, _, err := w.ready(ctx); err != nil {
		return err
	}
	for i, a := range cases {
		if i < len(needs) {
			a.lose, a.restore = needs[i].close, needs[i].open
			continue
		}
		a.lose = func() { w.sites[i].Kill() }
		a.restore = func(ctx context.Context) error { return w.startSite(ctx, i) }
	}
	events, err := follow(ctx, d.everline, filepath.Join(w.dir, "state"))
	if err != nil {
		return err
	}
	defer events.close()
	var all sync.WaitGroup
	for _, a := range cases {
		if d.wanted(a.name()) {
			all.Go(func() { a.run(ctx, d, w, events) })
		}
	}
	all.Wait()
	var errs []error
	for _, a := range cases {
		if !d.wanted(a.name()) {
			continue
		}
		errs = append(errs, a.verdict(), d.emit(record.Row{Mode: "outages", Case: a.name(), Target: "everline", Rep: 1, Values: map[string]float64{
			"back_ms": millis(a.after()), "calls": float64(a.tally.calls), "failed": float64(a.tally.failed), "slowest_ms": millis(a.tally.slowest),
		}}))
	}
	if d.write != "" {
		errs = append(errs, os.WriteFile(d.write, outagePage(cases, d.facts()), 0o644))
	}
	return errors.Join(errs...)
}

// run has one server be away.
func (a *away) run(ctx context.Context, d *driver, w *world, events *eventLog) {
	calls, stop := context.WithCancel(ctx)
	defer stop()
	var caller sync.WaitGroup
	if a.called {
		caller.Go(func() { a.tally.run(calls, w, a.server) })
	}
	pause(ctx, outageBefore)
	lost := time.Now()
	a.lose()
	pause(ctx, a.last)
	if err := a.restore(ctx); err != nil {
		d.say("outages, %s: %v", a.name(), err)
	}
	a.could = time.Now()
	a.back = events.connected(ctx, a.server, lost, a.could.Add(outagePatient))
	d.say("outages, %s: back after %v", a.name(), a.after())
	if a.called {
		pause(ctx, outageAfter)
	}
	stop()
	caller.Wait()
}

// A tally is what became of calls at a steady pace.
type tally struct {
	mu            sync.Mutex // guards what follows
	idle          []drive.Session
	calls, failed int
	slowest       time.Duration
	why           string // what the first that failed was told
}

// run calls a tool that may be repeated until ctx ends, and waits for the answers.
func (t *tally) run(ctx context.Context, w *world, server string) {
	var out sync.WaitGroup
	defer out.Wait()
	tick := time.NewTicker(outagePace)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			out.Go(func() { t.call(context.WithoutCancel(ctx), w, server, fmt.Sprintf("%s-%d", server, n)) })
		}
	}
}

func (t *tally) call(ctx context.Context, w *world, server, id string) {
	ctx, cancel := context.WithTimeout(ctx, outageLimit)
	defer cancel()
	began := time.Now()
	one, err := t.take(ctx, w)
	if err == nil {
		var result []byte
		result, err = one.Call(ctx, "tools/call", drive.ToolCall(server+"__work_again", fmt.Sprintf(`{"id":%q,"ms":1}`, id)))
		if err == nil {
			err = drive.Holds(id, 0)(result)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one != nil && !errors.Is(err, drive.ErrGone) {
		t.idle = append(t.idle, one)
	}
	t.calls++
	t.slowest = max(t.slowest, time.Since(began))
	if err != nil {
		if t.failed++; t.failed == 1 {
			t.why = firstLine(err)
		}
	}
}

// take hands out an idle session, or opens one.
func (t *tally) take(ctx context.Context, w *world) (drive.Session, error) {
	t.mu.Lock()
	if n := len(t.idle); n > 0 {
		one := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		return one, nil
	}
	t.mu.Unlock()
	return drive.Open(ctx, w.http, w.urls[0])
}

// frailRole is an echo server that needs something else, as many need a
// database: it ends at its start where that is away, and as soon as that goes.
const frailRole = "frail"

func frailMain(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "tcp", args[0])
	if err != nil {
		return fmt.Errorf("what this server needs is away: %w", err)
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, conn)
		fmt.Fprintln(os.Stderr, "what this server needs went away")
		os.Exit(1)
	}()
	return echo.Main(args[1:])
}

// A needed is what a frail server needs: a port that takes connections.
type needed struct {
	address string

	mu    sync.Mutex // guards what follows
	l     net.Listener
	conns []net.Conn
}

func newNeeded(ctx context.Context) (*needed, error) {
	n := &needed{address: "127.0.0.1:0"}
	return n, n.open(ctx)
}

func (n *needed) open(ctx context.Context) error {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", n.address)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.l, n.address = l, l.Addr().String()
	go n.accept(l) // ends with close
	return nil
}

func (n *needed) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		if n.l != l {
			_ = conn.Close()
		}
		n.conns = append(n.conns, conn)
		n.mu.Unlock()
	}
}

func (n *needed) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.l != nil {
		_ = n.l.Close()
	}
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.l, n.conns = nil, nil
}

// An eventLog is what everline tells of its servers, as its command prints it.
type eventLog struct {
	cmd *exec.Cmd

	mu    sync.Mutex // guards what follows
	seen  []seenEvent
	grown chan struct{} // closed, and replaced, when there is more
	ended bool
}

type seenEvent struct {
	Time         time.Time
	Server, Kind string
}

func follow(ctx context.Context, everline, state string) (*eventLog, error) {
	cmd := exec.CommandContext(ctx, everline, "events", "--follow", "-o", "json", "--state-dir", state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l := &eventLog{cmd: cmd, grown: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go l.read(out) // ends with the command, which close ends
	return l, nil
}

func (l *eventLog) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e seenEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil {
			l.add(e, false)
		}
	}
	l.add(seenEvent{}, true)
}

func (l *eventLog) add(e seenEvent, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.ended = append(l.seen, e), ended
	close(l.grown)
	l.grown = make(chan struct{})
}

// connected waits until a server was connected after lost, and tells when.
func (l *eventLog) connected(ctx context.Context, server string, lost, until time.Time) time.Time {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		l.mu.Lock()
		at, ended, grown := l.find(server, lost), l.ended, l.grown
		l.mu.Unlock()
		if !at.IsZero() || ended {
			return at
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return time.Time{}
		}
	}
}

func (l *eventLog) find(server string, lost time.Time) time.Time {
	for _, e := range l.seen {
		if e.Server == server && e.Kind == "connected" && e.Time.After(lost) {
			return e.Time
		}
	}
	return time.Time{}
}

func (l *eventLog) close() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait() // it was killed
}

// outagePage is the page of the docs, whole.
func outagePage(cases []*away, facts map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Outages

`+"`make outages`"+` writes this page. One everline stands in front of twenty servers, which all go away at the same time,
each for its own time. A *process* ends, and ends at each start while something that it needs is away, so that
nothing but the [retries](../explanation/lifecycle.md#losses-and-retries) can find it back. A *URL* is the port of a server that is killed and started again.
With calls, a tool that may be repeated is called twenty times a second by clients that wait for a minute. All settings are the defaults: a call waits
for a server for 30 s (`+"`parkFor`"+`), and retries are fast for 10 min.

*Back* is counted from when the server could be used again: the port listens, or what the process needs is there.
Beside it stands what is promised.

| server | away for | calls | back after | promised | calls | failed | slowest call |
|---|---|---|---|---|---|---|---|
`)
	for _, a := range cases {
		what, pace, calls, failed, slowest := "process", "none", "–", "–", "–"
		if a.kind == overHTTP {
			what = "URL"
		}
		if a.called {
			pace, calls, failed = "20/s", fmt.Sprint(a.tally.calls), fmt.Sprint(a.tally.failed)
			slowest = fmt.Sprintf("%.1f s", a.tally.slowest.Seconds())
		}
		promised := fmt.Sprintf("%.0f s", a.bound().Seconds())
		if a.bound() == boundOfPort {
			promised = "150 ms"
		}
		fmt.Fprintf(&b, "| %s | %.0f s | %s | %s | %s | %s | %s | %s |\n", what, a.last.Seconds(), pace, spoken(a.after()), promised, calls, failed, slowest)
	}
	fmt.Fprintf(&b, "\nCalls that come later than %.0f s before the server is back are answered; of those before, each fails when the next attempt\nis due later than it may wait, and says when to send it again.\n\nMeasured with `%s` on %s, %s processors, everline built from the tree.\n",
		outagePark.Seconds(), facts["command"], facts["system"], facts["cpus"])
	return b.Bytes()
}

// spoken is a time for people.
func spoken(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}
