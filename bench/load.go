package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
	"github.com/everline/everline/bench/internal/stat"
)

// loadTools is how many tools the server of a load has.
const loadTools = 200

// hundred is a text of 100 bytes.
var hundred = strings.Repeat("0123456789", 10)

// A load is one kind of request, and how many at a time.
type load struct {
	name      string
	at        int    // a time
	sessions  int    // if not as many as at a time
	tool      string // "": tools/list
	arguments string
	holds     string
	size      int
	share     float64 // of the time of one load
}

var loads = []load{
	{name: "echo 100 B, 1 at a time", at: 1, tool: "echo", arguments: `{"text":"` + hundred + `"}`, holds: hundred, share: .75},
	{name: "echo 100 B, 16 at a time", at: 16, tool: "echo", arguments: `{"text":"` + hundred + `"}`, holds: hundred, share: 1},
	{name: "result of 64 KiB, 4 at a time", at: 4, tool: "blob", arguments: `{"bytes":65536}`, holds: "xxxx", size: 65536, share: .6},
	{name: "list of 200 tools, 4 at a time", at: 4, share: .6},
}

// of makes the load for the sessions of a world.
func (l load) of(ctx context.Context, sessions []drive.Session, tools int, each time.Duration) (drive.Load, error) {
	out := drive.Load{Sessions: sessions, For: time.Duration(float64(each) * l.share)}
	if l.tool == "" {
		out.Method, out.Params, out.Check = "tools/list", []byte(`{}`), drive.Lists(tools)
		return out, nil
	}
	names, err := drive.Tools(ctx, sessions[0])
	if err != nil {
		return out, err
	}
	name, err := drive.Find(names, "", l.tool)
	if err != nil {
		return out, err
	}
	out.Method, out.Params, out.Check = "tools/call", drive.ToolCall(name, l.arguments), drive.Holds(l.holds, l.size)
	return out, nil
}

// runLoad measures throughput, latency and CPU of each target under each load.
func runLoad(ctx context.Context, d *driver) error {
	return d.eachKind(func(kind string) error {
		worlds, err := d.startAll(ctx, "load", need{kind: kind, servers: 1, tools: loadTools})
		defer stopAll(worlds)
		for _, l := range loads {
			if d.wanted(kind + ", " + l.name) {
				err = errors.Join(err, d.loadAll(ctx, kind+", "+l.name, l, worlds))
			}
		}
		for _, w := range worlds {
			err = errors.Join(err, w.profiles(ctx))
		}
		return err
	})
}

// startAll starts every target that can do it, ready for use. What cannot start
// is written down and left out.
func (d *driver) startAll(ctx context.Context, mode string, n need) ([]*world, error) {
	var worlds []*world
	for _, t := range d.all {
		w, err := d.start(ctx, t, n)
		if err == nil && !w.direct {
			if _, _, err = w.ready(ctx); err != nil {
				w.stop()
			}
		}
		switch {
		case err == nil:
			worlds = append(worlds, w)
		case errors.Is(err, errSkip):
		default:
			d.say("%s: %v", t.name, err)
			if err := d.emit(record.Row{Mode: mode, Case: n.kind, Target: t.name, Failed: firstLine(err)}); err != nil {
				return worlds, err
			}
		}
	}
	return worlds, ctx.Err()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func stopAll(worlds []*world) {
	for _, w := range worlds {
		w.stop()
	}
}

// loadAll puts one load on all worlds in turn, as often as there are repetitions.
func (d *driver) loadAll(ctx context.Context, name string, l load, worlds []*world) error {
	for rep := range d.reps {
		for _, w := range turn(worlds, rep) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			row := record.Row{Mode: "load", Case: name, Target: w.t.name, Rep: rep + 1}
			values, err := w.load(ctx, l)
			if row.Values = values; err != nil {
				row.Failed = firstLine(err)
				d.say("%s: %s: %v", name, w.t.name, err)
			}
			if err := d.emit(row); err != nil {
				return err
			}
		}
		d.say("%s: %d of %d", name, rep+1, d.reps)
	}
	return nil
}

// load measures one load on one world, after a warm-up of a tenth of the time.
func (w *world) load(ctx context.Context, l load) (map[string]float64, error) {
	n := l.at
	if l.sessions > 0 {
		n = l.sessions
	}
	sessions, err := w.open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer closeAll(sessions)
	run, err := l.of(ctx, sessions, w.tools, w.d.each)
	if err != nil {
		return nil, err
	}
	warm := run
	warm.For /= 10
	if r := warm.Run(ctx); len(r.Times) == 0 && r.First != nil {
		return nil, r.First
	}
	return w.measure(ctx, run, sessions[0])
}

// measure runs a load and tells what it cost, and whom.
func (w *world) measure(ctx context.Context, run drive.Load, first drive.Session) (map[string]float64, error) {
	before, self, machine := w.usage(first), proc.Self(), proc.Machine()
	r := run.Run(ctx)
	after, selfAfter, machineAfter := w.usage(first), proc.Self(), proc.Machine()
	if len(r.Times) == 0 {
		return nil, fmt.Errorf("no call was good; %d errors, the first: %w", r.Errors, r.First)
	}
	mem := proc.MemoryOf(w.pids(), w.isServer)
	per := func(d time.Duration) float64 { return micros(d) / float64(len(r.Times)) }
	gateway, servers, driver := after.Gateway-before.Gateway, after.Servers-before.Servers, selfAfter-self
	values := map[string]float64{
		"per_s": r.PerSecond(), "calls": float64(len(r.Times)), "errors": float64(r.Errors),
		"p50_us": micros(stat.Quantile(r.Times, .5)), "p90_us": micros(stat.Quantile(r.Times, .9)),
		"p99_us": micros(stat.Quantile(r.Times, .99)), "p999_us": micros(stat.Quantile(r.Times, .999)), "max_us": micros(stat.Quantile(r.Times, 1)),
		"server_cpu_us": per(servers), "driver_cpu_us": per(driver),
		"other_cores": max(0, (machineAfter-machine-gateway-servers-driver).Seconds()/r.Took.Seconds()),
	}
	if len(w.gateways) > 0 {
		values["cpu_us"], values["rss_mib"], values["pss_mib"] = per(gateway), mib(mem.RSS), mib(mem.PSS)
	}
	if r.Errors > 0 {
		return values, fmt.Errorf("%d of %d calls failed, the first: %w", r.Errors, r.Errors+len(r.Times), r.First)
	}
	return values, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
func mib(n int64) float64            { return float64(n) / (1 << 20) }

// profiles writes what Go can tell of a host to -profile.
func (w *world) profiles(ctx context.Context) error {
	if w.d.profile == "" || w.t.name != "host" {
		return nil
	}
	var errs []error
	for _, name := range []string{"allocs", "heap", "goroutine", "mutex", "block"} {
		errs = append(errs, w.fetch(ctx, "/debug/pprof/"+name, filepath.Join(w.d.profile, w.kind+"."+name+".pprof")))
	}
	return errors.Join(errs...)
}

func (w *world) fetch(ctx context.Context, path, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.debugAddress()+path, nil)
	if err != nil {
		return err
	}
	resp, err := w.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, resp.Body)
	return errors.Join(err, out.Close())
}
