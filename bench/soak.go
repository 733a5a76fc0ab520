package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/echo"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
	"github.com/everline/everline/bench/internal/stat"
	"github.com/everline/everline/bench/internal/svg"
)

const (
	soakServers = 6 // half of them over stdio
	soakCallers = 8
	soakPace    = 20 * time.Millisecond // of each caller
	soakFault   = 5 * time.Second       // the mean time between faults
	soakSample  = 10 * time.Second
	soakAway    = 300 * time.Millisecond
)

// A soak is load and faults on one everline, watched from inside and outside.
type soak struct {
	w     *world
	names []string // of all tools

	calls, failedSafe, failedOnce, faults atomic.Int64

	mu    sync.Mutex // guards first
	first error      // of a call that should not have failed
}

// runSoak puts load and faults on a host for as long as asked, and fails if
// what it holds grows, or if a call failed that may be repeated.
func runSoak(ctx context.Context, d *driver) error {
	hosts := slices.DeleteFunc(builtin(), func(t *target) bool { return t.name != "host" })
	w, err := d.start(ctx, hosts[0], need{kind: mixed, servers: soakServers, tools: startupTools})
	if err != nil {
		return err
	}
	defer w.stop()
	if _, _, err := w.ready(ctx); err != nil {
		return err
	}
	s := &soak{w: w}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	samples, err := s.run(ctx, d.soakFor)
	if err != nil {
		return err
	}
	if d.svg != "" {
		if err := drawSoak(d.svg, samples); err != nil {
			return err
		}
	}
	return errors.Join(s.verdict(), growing(samples))
}

func (s *soak) prepare(ctx context.Context) error {
	one, err := drive.Open(ctx, s.w.http, s.w.urls[0])
	if err != nil {
		return err
	}
	defer one.Close()
	s.names, err = drive.Tools(ctx, one)
	return err
}

// run starts everything, samples, and waits for everything.
func (s *soak) run(ctx context.Context, length time.Duration) ([]record.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for i := range soakCallers {
		wg.Go(func() { s.caller(ctx, i) })
	}
	wg.Go(func() { s.visitors(ctx) })
	wg.Go(func() { s.breakThings(ctx) })
	defer wg.Wait()
	var samples []record.Row
	begin := time.Now()
	tick := time.NewTicker(min(soakSample, length/20))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return samples, nil
		case <-s.w.gateways[0].Ended():
			return samples, fmt.Errorf("the host ended%s", s.w.tail())
		case <-tick.C:
		}
		v, err := s.sample(ctx)
		switch {
		case ctx.Err() != nil: // the time is over
			return samples, nil
		case err != nil:
			return samples, err
		}
		row := record.Row{Mode: "soak", Case: "hour", Target: s.w.t.name, X: time.Since(begin).Seconds(), Values: v}
		if err := s.w.d.emit(row); err != nil {
			return samples, err
		}
		samples = append(samples, row)
		if len(samples)%6 == 0 {
			s.w.d.say("soak: %.0f s, %.0f calls, %.0f faults, RSS %.1f MiB, heap %.1f MiB, %.0f goroutines, %.0f descriptors",
				row.X, v["calls"], v["faults"], v["rss_mib"], v["heap_mib"], v["goroutines"], v["files"])
		}
	}
}

// caller calls random tools of random servers, half of the calls in a way that
// may be repeated.
func (s *soak) caller(ctx context.Context, i int) {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	tick := time.NewTicker(soakPace)
	defer tick.Stop()
	var one drive.Session
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			if one != nil {
				one.Close()
			}
			return
		case <-tick.C:
		}
		var err error
		if one == nil {
			if one, err = drive.Open(ctx, s.w.http, s.w.urls[0]); err != nil {
				s.note(ctx, true, err)
				one = nil
				continue
			}
		}
		safe := n%2 == 0
		err = s.call(ctx, one, r, fmt.Sprintf("c%d-%d", i, n), safe)
		s.note(ctx, safe, err)
		if errors.Is(err, drive.ErrGone) || n%500 == 499 { // and now and then a new client
			one.Close()
			one = nil
		}
	}
}

func (s *soak) call(ctx context.Context, one drive.Session, r *rand.Rand, id string, safe bool) error {
	server := s.w.servers[r.IntN(len(s.w.servers))].name
	tool, arguments, size := "work", fmt.Sprintf(`{"id":%q,"ms":%d}`, id, r.IntN(20)), 0
	switch {
	case safe && r.IntN(50) == 0:
		tool, size = "blob", 1<<(10+r.IntN(11)) // to 1 MiB
		arguments, id = fmt.Sprintf(`{"bytes":%d}`, size), "xxxx"
	case safe:
		tool = "work_again"
	}
	name, err := drive.Find(s.names, server, tool)
	if err != nil {
		return err
	}
	result, err := one.Call(ctx, "tools/call", drive.ToolCall(name, arguments))
	if err != nil {
		return err
	}
	return drive.Holds(id, size)(result)
}

// note counts an outcome, unless it is that of the end.
func (s *soak) note(ctx context.Context, safe bool, err error) {
	s.calls.Add(1)
	if err == nil || ctx.Err() != nil || errors.Is(err, drive.ErrGone) {
		return
	}
	if !safe {
		s.failedOnce.Add(1)
		return
	}
	s.failedSafe.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = err
	}
}

// visitors are clients that come, list, listen for a moment, and go, half of
// them without a word.
func (s *soak) visitors(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, err := drive.Open(ctx, s.w.http, s.w.urls[0])
		if err != nil {
			s.note(ctx, true, err)
			continue
		}
		names, err := drive.Tools(ctx, one)
		if err == nil && len(names) != len(s.names) {
			err = fmt.Errorf("%d tools are listed, not %d", len(names), len(s.names))
		}
		s.note(ctx, true, err)
		if stream, err := drive.Listen(ctx, one); err == nil {
			stream.Close()
		}
		if n%2 == 0 {
			one.Close()
		}
	}
}

// breakThings breaks one server after another, in a way that fits it.
func (s *soak) breakThings(ctx context.Context) {
	r := rand.New(rand.NewPCG(7, 7))
	for {
		pause(ctx, soakFault/2+time.Duration(r.Int64N(int64(soakFault))))
		if ctx.Err() != nil {
			return
		}
		s.faults.Add(1)
		if err := s.breakOne(ctx, r); err != nil && ctx.Err() == nil {
			s.w.d.say("soak: a fault could not be made: %v", err)
		}
	}
}

func (s *soak) breakOne(ctx context.Context, r *rand.Rand) error {
	i := r.IntN(len(s.w.servers))
	if s.w.servers[i].url == "" {
		for _, pid := range s.w.usage(nil).Pids {
			if slices.Equal(proc.CommandLine(pid), s.w.servers[i].argv) {
				return proc.Kill(pid)
			}
		}
		return nil // it is just being started
	}
	if r.IntN(2) == 0 {
		return post(ctx, s.w.http, strings.TrimSuffix(s.w.servers[i].url, "/mcp")+echo.DropPath)
	}
	s.w.sites[i].Kill()
	pause(ctx, soakAway)
	if ctx.Err() != nil {
		return nil
	}
	return s.w.startSite(ctx, i)
}

// sample reads what is held now.
func (s *soak) sample(ctx context.Context) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.w.debugAddress()+"/debug/counts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.w.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var c Counts
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		return nil, err
	}
	pid := s.w.gateways[0].PID()
	st, err := proc.Read(pid)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"goroutines": float64(c.Goroutines), "heap_mib": mib(int64(c.Heap)), "rss_mib": mib(proc.MemoryOf(s.w.pids(), s.w.isServer).RSS), "files": float64(proc.Files(pid)),
		"threads": float64(st.Threads), "processes": float64(s.w.usage(nil).Processes), "calls": float64(s.calls.Load()),
		"faults": float64(s.faults.Load()), "failed_safe": float64(s.failedSafe.Load()), "failed_once": float64(s.failedOnce.Load()),
	}, nil
}

func (s *soak) verdict() error {
	s.w.d.say("soak: %d calls, %d faults, %d calls failed that may be repeated, %d that may not", s.calls.Load(), s.faults.Load(), s.failedSafe.Load(), s.failedOnce.Load())
	if n := s.failedSafe.Load(); n > 0 {
		return fmt.Errorf("%d calls failed that may be repeated, the first: %w", n, s.first)
	}
	return nil
}

// A limit is how much a value may grow over a soak: this much, or a tenth.
type limit struct {
	value string
	least float64
}

var limits = []limit{{"rss_mib", 8}, {"heap_mib", 2}, {"goroutines", 10}, {"files", 10}, {"threads", 6}, {"processes", 3}}

// growing fails if a value grows over the samples, the first fifth of which is
// left out as the time to warm up.
func growing(samples []record.Row) error {
	samples = samples[len(samples)/5:]
	if len(samples) < 8 {
		return fmt.Errorf("%d samples are too few to judge", len(samples))
	}
	var errs []error
	for _, l := range limits {
		var x, y []float64
		for _, r := range samples {
			x, y = append(x, r.X), append(y, r.Values[l.value])
		}
		grown, may := stat.Slope(x, y)*(x[len(x)-1]-x[0]), max(l.least, stat.Median(y)/10)
		if grown > may {
			errs = append(errs, fmt.Errorf("%s grew by %.1f in %.0f s, more than %.1f", l.value, grown, x[len(x)-1]-x[0], may))
		}
	}
	return errors.Join(errs...)
}

// drawSoak writes the graphs of a soak into a folder.
func drawSoak(folder string, samples []record.Row) error {
	line := func(name, value string) svg.Line {
		l := svg.Line{Name: name}
		for _, r := range samples {
			l.X, l.Y = append(l.X, r.X/60), append(l.Y, r.Values[value])
		}
		return l
	}
	x := svg.Axis{Label: "minutes of load and faults", Zero: true}
	return errors.Join(
		draw(filepath.Join(folder, "soak-memory.svg"), svg.Plot{Title: "Soak: memory", X: x, Y: svg.Axis{Label: "MiB", Zero: true}, Lines: []svg.Line{line("resident", "rss_mib"), line("heap", "heap_mib")}}),
		draw(filepath.Join(folder, "soak-counts.svg"), svg.Plot{Title: "Soak: goroutines, descriptors, processes", X: x, Y: svg.Axis{Zero: true}, Lines: []svg.Line{
			line("goroutines", "goroutines"), line("descriptors", "files"), line("threads", "threads"), line("processes", "processes"),
		}}),
	)
}
