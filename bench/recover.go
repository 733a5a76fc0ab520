package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/echo"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
)

const (
	recoverPace   = 10 * time.Millisecond // a call each
	recoverWork   = 20                    // milliseconds that a call takes
	recoverBefore = time.Second
	recoverAfter  = 6 * time.Second // from the fault to the last call
	recoverAway   = time.Second     // how long a server over HTTP is away
	recoverTools  = 5
	recoverLimit  = 10 * time.Second // of one call
)

// A breakage is a fault that a gateway is to survive.
type breakage struct {
	name string
	kind string
	do   func(ctx context.Context, w *world) error
}

var breakages = []breakage{
	{"kill -9 of a stdio server", stdio, killServers},
	{"server over HTTP away for 1 s", overHTTP, func(ctx context.Context, w *world) error {
		w.sites[0].Kill()
		pause(ctx, recoverAway)
		return w.startSite(ctx, 0)
	}},
	{"server over HTTP forgets its sessions", overHTTP, forgetSessions},
}

func killServers(_ context.Context, w *world) error {
	pids := w.usage(nil).Pids
	if len(pids) == 0 {
		return errors.New("no server runs")
	}
	for _, pid := range pids {
		if err := proc.Kill(pid); err != nil {
			return err
		}
	}
	return nil
}

func forgetSessions(ctx context.Context, w *world) error {
	return post(ctx, w.http, strings.TrimSuffix(w.servers[0].url, "/mcp")+echo.DropPath)
}

func post(ctx context.Context, c *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// runRecover breaks the only server while calls come at a steady pace, and
// tells what the callers saw of it.
func runRecover(ctx context.Context, d *driver) error {
	var errs []error
	for _, b := range breakages {
		if !d.wanted(b.name) || !strings.Contains(d.kinds, b.kind) {
			continue
		}
		for rep := range d.reps {
			for _, t := range turn(d.all, rep) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				errs = append(errs, d.recoverOnce(ctx, t, b, rep+1))
			}
			d.say("recover, %s: %d of %d", b.name, rep+1, d.reps)
		}
	}
	return errors.Join(errs...)
}

func (d *driver) recoverOnce(ctx context.Context, t *target, b breakage, rep int) error {
	row := record.Row{Mode: "recover", Case: b.name, Target: t.name, Rep: rep}
	w, err := d.start(ctx, t, need{kind: b.kind, servers: 1, tools: recoverTools})
	switch {
	case errors.Is(err, errSkip):
		return nil
	case err == nil && w.direct: // who has no gateway starts servers himself
		w.stop()
		return nil
	case err == nil:
		row.Values, err = w.breakIt(ctx, b)
		w.stop()
	}
	if err != nil {
		row.Failed = firstLine(err)
		d.say("recover: %s: %v", t.name, err)
	}
	return d.emit(row)
}

// An outcome is what became of one call.
type outcome struct {
	id         string
	safe       bool
	start, end time.Time
	err        error
}

// A storm is calls at a steady pace, each on a goroutine, and lists.
type storm struct {
	w    *world
	safe string // published names of the tools
	once string

	mu       sync.Mutex // guards what follows
	sessions []drive.Session
	outcomes []outcome
	lists    int
	short    int
	failed   int // lists that were not answered
	opened   int // sessions after the first ones
}

func (w *world) breakIt(ctx context.Context, b breakage) (map[string]float64, error) {
	if _, _, err := w.ready(ctx); err != nil {
		return nil, err
	}
	own, err := w.startTime(ctx)
	if err != nil {
		return nil, err
	}
	s := &storm{w: w}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	broke := make(chan error, 1)
	fault := time.Now().Add(recoverBefore)
	var could time.Time // when the server could have answered again
	go func() {         // ends within the time of the fault; waited for below
		pause(ctx, time.Until(fault))
		err := b.do(ctx, w)
		could = time.Now().Add(own)
		broke <- err
	}()
	s.run(ctx, fault.Add(recoverAfter))
	if err := <-broke; err != nil {
		return nil, err
	}
	v := s.values(fault)
	v["could_ms"] = millis(could.Sub(fault))
	if recovery, ok := v["recovery_ms"]; ok {
		v["added_ms"] = recovery - v["could_ms"] - recoverWork
	}
	return v, s.countExecutions(v)
}

// startTime is how long the server needs by itself, from its start to its first
// answer; 0 over HTTP, where it says when it is back.
func (w *world) startTime(ctx context.Context) (time.Duration, error) {
	if w.kind != stdio {
		return 0, nil
	}
	begin := time.Now()
	alone, err := drive.Spawn(ctx, w.servers[0].argv)
	if err != nil {
		return 0, err
	}
	defer alone.Close()
	_, err = drive.Tools(ctx, alone)
	return time.Since(begin), err
}

func (s *storm) prepare(ctx context.Context) error {
	first, err := drive.Open(ctx, s.w.http, s.w.urls[0])
	if err != nil {
		return err
	}
	names, err := drive.Tools(ctx, first)
	if err != nil {
		return err
	}
	s.sessions = []drive.Session{first}
	if s.safe, err = drive.Find(names, "", "work_again"); err != nil {
		return err
	}
	s.once, err = drive.Find(names, "", "work")
	return err
}

// run keeps the pace until end, and waits for the last answers.
func (s *storm) run(ctx context.Context, end time.Time) {
	var wg sync.WaitGroup
	tick := time.NewTicker(recoverPace)
	defer tick.Stop()
	for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
		wg.Go(func() { s.call(ctx, fmt.Sprintf("id-%06d", n), n%2 == 0) })
		if n%5 == 0 {
			wg.Go(func() { s.list(ctx) })
		}
		<-tick.C
	}
	wg.Wait()
}

// take hands out an idle session, or opens one.
func (s *storm) take(ctx context.Context) (drive.Session, error) {
	s.mu.Lock()
	n := len(s.sessions)
	if n > 0 {
		one := s.sessions[n-1]
		s.sessions = s.sessions[:n-1]
		s.mu.Unlock()
		return one, nil
	}
	s.opened++
	s.mu.Unlock()
	return drive.Open(ctx, s.w.http, s.w.urls[0])
}

// give takes a session back, unless it is gone, as clients do.
func (s *storm) give(one drive.Session, err error) {
	if errors.Is(err, drive.ErrGone) || one == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, one)
}

func (s *storm) call(ctx context.Context, id string, safe bool) {
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	o := outcome{id: id, safe: safe, start: time.Now()}
	tool := s.once
	if safe {
		tool = s.safe
	}
	one, err := s.take(ctx)
	if err == nil {
		var result []byte
		result, err = one.Call(ctx, "tools/call", drive.ToolCall(tool, fmt.Sprintf(`{"id":%q,"ms":%d}`, id, recoverWork)))
		if err == nil {
			err = drive.Holds(id, 0)(result)
		}
	}
	s.give(one, err)
	o.end, o.err = time.Now(), err
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, o)
}

func (s *storm) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	one, err := s.take(ctx)
	var names []string
	if err == nil {
		names, err = drive.Tools(ctx, one)
	}
	s.give(one, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	switch {
	case err != nil:
		s.failed++
	case len(names) < recoverTools:
		s.short++
	}
}

// values sums up what callers saw, given when the fault was.
func (s *storm) values(fault time.Time) map[string]float64 {
	v := map[string]float64{
		"calls": float64(len(s.outcomes)), "lists": float64(s.lists), "lists_short": float64(s.short), "lists_failed": float64(s.failed),
		"failed_safe": 0, "failed_once": 0,
	}
	slices.SortFunc(s.outcomes, func(a, b outcome) int { return a.start.Compare(b.start) })
	lastBad := fault
	for _, o := range s.outcomes {
		if o.err == nil {
			continue
		}
		if o.safe {
			v["failed_safe"]++
		} else {
			v["failed_once"]++
		}
		if o.start.After(lastBad) {
			lastBad = o.start
		}
	}
	var back time.Time
	var slowest time.Duration
	for _, o := range s.outcomes {
		if slowest = max(slowest, o.end.Sub(o.start)); o.err == nil && o.start.After(lastBad) && (back.IsZero() || o.end.Before(back)) {
			back = o.end
		}
	}
	v["slowest_ms"] = millis(slowest)
	if !back.IsZero() {
		v["recovery_ms"] = millis(back.Sub(fault))
	}
	return v
}

// countExecutions compares the server's own log with what callers were told.
func (s *storm) countExecutions(v map[string]float64) error {
	text, err := os.ReadFile(s.w.execs)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for id := range strings.FieldsSeq(string(text)) {
		times[id]++
	}
	v["executed_twice"], v["executed_but_failed"] = 0, 0
	for _, o := range s.outcomes {
		if !o.safe && times[o.id] > 1 {
			v["executed_twice"]++
		}
		if o.err != nil && times[o.id] > 0 {
			v["executed_but_failed"]++
		}
	}
	return nil
}
