package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
	"github.com/everline/everline/bench/internal/stat"
)

const (
	stallFor   = 3 * time.Second
	stallPace  = 10 * time.Millisecond
	stallHung  = 8 // calls that wait for the hung server
	stallTools = 5
)

// runStall freezes one of two servers and measures the other one, the list,
// and a new session meanwhile.
func runStall(ctx context.Context, d *driver) error {
	return d.eachKind(func(kind string) error {
		for rep := range d.reps {
			for _, t := range turn(d.all, rep) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := d.stallOnce(ctx, t, kind, rep+1); err != nil {
					return err
				}
			}
			d.say("stall, %s: %d of %d", kind, rep+1, d.reps)
		}
		return nil
	})
}

func (d *driver) stallOnce(ctx context.Context, t *target, kind string, rep int) error {
	row := record.Row{Mode: "stall", Case: kind + ", one of two servers hangs for 3 s", Target: t.name, Rep: rep}
	w, err := d.start(ctx, t, need{kind: kind, servers: 2, tools: stallTools})
	if errors.Is(err, errSkip) {
		return nil
	}
	if err == nil {
		if len(w.gateways) != 1 { // of a process for each server nothing is to be learned
			w.stop()
			return nil
		}
		row.Values, err = w.stall(ctx)
		w.stop()
	}
	if err != nil {
		row.Failed = firstLine(err)
		d.say("stall: %s: %v", t.name, err)
	}
	return d.emit(row)
}

func (w *world) stall(ctx context.Context) (map[string]float64, error) {
	if _, _, err := w.ready(ctx); err != nil {
		return nil, err
	}
	sessions, err := w.open(ctx, 2+stallHung)
	if err != nil {
		return nil, err
	}
	defer closeAll(sessions)
	good, bad, err := w.neighbours(ctx, sessions[0])
	if err != nil {
		return nil, err
	}
	hung, err := w.pidOf(1)
	if err != nil {
		return nil, err
	}
	if err := proc.Freeze(hung); err != nil {
		return nil, err
	}
	var waiting sync.WaitGroup
	for _, s := range sessions[2:] {
		waiting.Go(func() { _ = echoOnce(ctx, s, bad) }) // what becomes of these is not measured
	}
	v := w.beside(ctx, sessions[0], sessions[1], good)
	err = proc.Thaw(hung)
	waiting.Wait()
	return v, err
}

// neighbours are the echo tools of both servers, each called once.
func (w *world) neighbours(ctx context.Context, s drive.Session) (good, bad string, err error) {
	names, err := drive.Tools(ctx, s)
	if err != nil {
		return "", "", err
	}
	if good, err = drive.Find(names, w.servers[0].name, "echo"); err != nil {
		return "", "", err
	}
	if bad, err = drive.Find(names, w.servers[1].name, "echo"); err != nil {
		return "", "", err
	}
	return good, bad, errors.Join(echoOnce(ctx, s, good), echoOnce(ctx, s, bad))
}

// pidOf finds the process of server i.
func (w *world) pidOf(i int) (int, error) {
	if w.kind == overHTTP {
		return w.sites[i].PID(), nil
	}
	for _, pid := range w.usage(nil).Pids {
		if slices.Equal(proc.CommandLine(pid), w.servers[i].argv) {
			return pid, nil
		}
	}
	return 0, errors.New("the server's process is not found")
}

func echoOnce(ctx context.Context, s drive.Session, tool string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stallFor)
	defer cancel()
	r, err := s.Call(ctx, "tools/call", drive.ToolCall(tool, `{"text":"`+hundred+`"}`))
	if err != nil {
		return err
	}
	return drive.Holds(hundred, 0)(r)
}

// beside measures what does not need the server that hangs.
func (w *world) beside(ctx context.Context, caller, lister drive.Session, tool string) map[string]float64 {
	var calls, lists []time.Duration
	failed := 0
	tick := time.NewTicker(stallPace)
	defer tick.Stop()
	for end := time.Now().Add(stallFor); time.Now().Before(end) && ctx.Err() == nil; <-tick.C {
		at := time.Now()
		err := echoOnce(ctx, caller, tool)
		calls = append(calls, time.Since(at))
		at = time.Now()
		_, err2 := drive.Tools(ctx, lister)
		lists = append(lists, time.Since(at))
		if err != nil || err2 != nil {
			failed++
		}
	}
	at := time.Now()
	if _, err := countTools(ctx, w.http, w.urls[0]); err != nil {
		failed++
	}
	fresh := time.Since(at)
	slices.Sort(calls)
	slices.Sort(lists)
	return map[string]float64{
		"p50_us": micros(stat.Quantile(calls, .5)), "max_ms": millis(stat.Quantile(calls, 1)), "list_max_ms": millis(stat.Quantile(lists, 1)),
		"session_ms": millis(fresh), "failed": float64(failed), "calls": float64(len(calls)),
	}
}
