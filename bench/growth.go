package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/record"
	"github.com/everline/everline/bench/internal/stat"
	"github.com/everline/everline/bench/internal/svg"
)

var (
	growServers = []int{1, 10, 100, 1000}
	growClients = []int{1, 10, 100, 1000, 10_000}
	growSizes   = []int{100, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
)

// manyProcesses is how many servers may be processes of their own; more are
// served over HTTP by one process, as remote servers would be.
const manyProcesses = 100

// settleEach is how long it takes, for each server, until what was listed is on
// disk and all is quiet.
const settleEach = 15 * time.Millisecond

// names of the cases, which the graphs are made from.
const (
	caseServers = "servers"
	caseClients = "clients"
	caseSizes   = "bytes of a result"
)

// runGrowth measures how cost grows with servers, clients and sizes.
func runGrowth(ctx context.Context, d *driver) error {
	err := d.eachKind(func(kind string) error {
		return errors.Join(d.grow(ctx, kind, caseServers, growServers, d.growServers),
			d.grow(ctx, kind, caseClients, growClients, d.growClients), d.grow(ctx, kind, caseSizes, growSizes, d.growSizes))
	})
	if d.svg != "" && err == nil {
		err = drawGrowth(d.svg, d.rows)
	}
	return err
}

// grow runs one measurement for each number, target and repetition.
func (d *driver) grow(ctx context.Context, kind, what string, numbers []int, one func(ctx context.Context, t *target, kind string, n int) (map[string]float64, error)) error {
	name := kind + ", " + what
	if !d.wanted(name) {
		return nil
	}
	for _, n := range numbers {
		for rep := range d.reps {
			for _, t := range turn(d.all, rep) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				row := record.Row{Mode: "growth", Case: name, Target: t.name, Rep: rep + 1, X: float64(n)}
				values, err := one(ctx, t, kind, n)
				if errors.Is(err, errSkip) {
					continue
				}
				if row.Values = values; err != nil {
					row.Failed = firstLine(err)
					d.say("growth: %s %d: %s: %v", name, n, t.name, err)
				}
				if err := d.emit(row); err != nil {
					return err
				}
			}
		}
		d.say("growth, %s: %d", name, n)
	}
	return nil
}

// growServers measures a start, a list, an idle second and calls to one server
// among n.
func (d *driver) growServers(ctx context.Context, t *target, kind string, n int) (map[string]float64, error) {
	if kind == stdio && n > manyProcesses || t.name == "direct" || t.name == "rawproxy" {
		return nil, errSkip
	}
	w, err := d.start(ctx, t, need{kind: kind, servers: n, tools: startupTools, shared: true})
	if err != nil {
		return nil, err
	}
	defer w.stop()
	if len(w.gateways) != 1 {
		return nil, errSkip
	}
	_, full, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	pause(ctx, settle+time.Duration(n)*settleEach)
	idle, begin := w.usage(nil), time.Now()
	pause(ctx, 2*settle)
	percent := 100 * (w.usage(nil).Gateway - idle.Gateway).Seconds() / time.Since(begin).Seconds()
	v, err := w.load(ctx, loads[0])
	if err != nil {
		return nil, err
	}
	v["full_ms"], v["idle_cpu_percent"] = millis(full), percent
	v["list_us"], err = w.listTime(ctx)
	return v, err
}

// listTime is the median time of a list of everything.
func (w *world) listTime(ctx context.Context) (float64, error) {
	sessions, err := w.open(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer closeAll(sessions)
	r := drive.Load{Sessions: sessions, Method: "tools/list", Params: []byte(`{}`), Check: drive.Holds("", 0), For: w.d.each / 4}.Run(ctx)
	return micros(stat.Quantile(r.Times, .5)), r.First
}

// growClients measures n clients that all call at once.
func (d *driver) growClients(ctx context.Context, t *target, kind string, n int) (map[string]float64, error) {
	if t.name == "direct" && kind == stdio || t.spawns && n > manyProcesses {
		return nil, errSkip // a server over stdio has one client
	}
	return d.loadOnce(ctx, t, kind, load{at: n, tool: "echo", arguments: `{"text":"` + hundred + `"}`, holds: hundred, share: 1})
}

// growSizes measures results of n bytes, one at a time.
func (d *driver) growSizes(ctx context.Context, t *target, kind string, n int) (map[string]float64, error) {
	return d.loadOnce(ctx, t, kind, load{at: 1, tool: "blob", arguments: fmt.Sprintf(`{"bytes":%d}`, n), holds: "xxxx", size: n, share: .75})
}

func (d *driver) loadOnce(ctx context.Context, t *target, kind string, l load) (map[string]float64, error) {
	w, err := d.start(ctx, t, need{kind: kind, servers: 1, tools: startupTools})
	if err != nil {
		return nil, err
	}
	defer w.stop()
	if !w.direct {
		if _, _, err := w.ready(ctx); err != nil {
			return nil, err
		}
	}
	return w.load(ctx, l)
}

// A graph is one picture of the growth.
type graph struct {
	file, title string
	kase, value string
	x, y        svg.Axis
}

func graphs() []graph {
	log := func(label string) svg.Axis { return svg.Axis{Label: label, Log: true} }
	zero := func(label string) svg.Axis { return svg.Axis{Label: label, Zero: true} }
	return []graph{
		{"servers-call", "Calls to one server among n", caseServers, "p50_us", log("servers"), zero("median, us")},
		{"servers-start", "From the start to the complete list", caseServers, "full_ms", log("servers"), log("ms")},
		{"servers-list", "A list of all tools, 5 of each server", caseServers, "list_us", log("servers"), log("median, us")},
		{"servers-memory", "Memory with n servers", caseServers, "pss_mib", log("servers"), log("MiB")},
		{"clients-rate", "Clients that all call at once: throughput", caseClients, "per_s", log("clients"), zero("calls/s")},
		{"clients-p99", "Clients that all call at once: 99 of 100 answers", caseClients, "p99_us", log("clients"), log("us")},
		{"sizes-time", "Size of a result: time", caseSizes, "p50_us", log("bytes"), log("median, us")},
		{"sizes-cpu", "Size of a result: CPU of the gateway", caseSizes, "cpu_us", log("bytes"), log("us per call")},
	}
}

// drawGrowth writes the graphs of both kinds into a folder.
func drawGrowth(folder string, rows []record.Row) error {
	cells := record.Cells(rows)
	for _, kind := range []string{stdio, overHTTP} {
		for _, g := range graphs() {
			p := svg.Plot{Title: g.title + " (" + kind + ")", X: g.x, Y: g.y, Lines: g.lines(kind, cells)}
			if len(p.Lines) == 0 {
				continue
			}
			if err := draw(filepath.Join(folder, "growth-"+kind+"-"+g.file+".svg"), p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g graph) lines(kind string, cells []*record.Cell) []svg.Line {
	var lines []svg.Line
	for _, c := range cells {
		v := c.Median(g.value)
		if c.Mode != "growth" || c.Case != kind+", "+g.kase || math.IsNaN(v) || g.y.Log && v <= 0 {
			continue
		}
		i := slices.IndexFunc(lines, func(l svg.Line) bool { return l.Name == c.Target })
		if i < 0 {
			lines, i = append(lines, svg.Line{Name: c.Target}), len(lines)
		}
		lines[i].X, lines[i].Y = append(lines[i].X, c.X), append(lines[i].Y, v)
	}
	return lines
}

func draw(file string, p svg.Plot) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(p.Write(f), f.Close())
}
