package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
)

const (
	startupServers = 10
	startupTools   = 5
	settle         = 2 * time.Second
)

// runStartup measures the time from the start of a gateway to the first list
// and to the first complete one, for a first start and for one after another
// ("warm"), and what the gateway holds once it is idle.
func runStartup(ctx context.Context, d *driver) error {
	return d.eachKind(func(kind string) error {
		name := fmt.Sprintf("%s, %d servers", kind, startupServers)
		for rep := range d.reps {
			for _, t := range turn(d.all, rep) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := d.startupOnce(ctx, t, kind, name, rep+1); err != nil {
					return err
				}
			}
			d.say("startup, %s: %d of %d", name, rep+1, d.reps)
		}
		return nil
	})
}

func (d *driver) startupOnce(ctx context.Context, t *target, kind, name string, rep int) error {
	row := record.Row{Mode: "startup", Case: name, Target: t.name, Rep: rep}
	w, err := d.start(ctx, t, need{kind: kind, servers: startupServers, tools: startupTools})
	if errors.Is(err, errSkip) {
		return nil
	}
	if err == nil {
		row.Values, err = w.startupValues(ctx)
		w.stop()
	}
	if err != nil {
		row.Failed = firstLine(err)
		d.say("startup: %s: %v", t.name, err)
	}
	return d.emit(row)
}

func (w *world) startupValues(ctx context.Context) (map[string]float64, error) {
	if w.direct {
		return w.serversAlone(ctx)
	}
	first, full, err := w.ready(ctx)
	if err != nil {
		return nil, err
	}
	v := map[string]float64{"first_ms": millis(first), "full_ms": millis(full)}
	if len(w.gateways) == 0 {
		return v, nil
	}
	pause(ctx, settle)
	idle, begin := w.usage(nil), time.Now()
	pause(ctx, settle)
	v["idle_cpu_percent"] = 100 * (w.usage(nil).Gateway - idle.Gateway).Seconds() / time.Since(begin).Seconds()
	mem := proc.MemoryOf(w.pids(), w.isServer)
	v["rss_mib"], v["pss_mib"] = mib(mem.RSS), mib(mem.PSS)
	if err := w.relaunch(ctx); err != nil {
		return v, err
	}
	first, full, err = w.ready(ctx)
	v["warm_first_ms"], v["warm_full_ms"] = millis(first), millis(full)
	return v, err
}

// serversAlone starts all servers at once and lists each directly: the limit
// for everyone.
func (w *world) serversAlone(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var wg sync.WaitGroup
	took, errs := make([]time.Duration, len(w.servers)), make([]error, len(w.servers))
	sessions := make([]drive.Session, len(w.servers))
	begin := time.Now()
	for i, s := range w.servers {
		wg.Go(func() {
			if sessions[i], errs[i] = drive.Spawn(ctx, s.argv); errs[i] == nil {
				_, errs[i] = drive.Tools(ctx, sessions[i])
				took[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	var slowest time.Duration
	for i, s := range sessions {
		if slowest = max(slowest, took[i]); s != nil {
			s.Close()
		}
	}
	return map[string]float64{"full_ms": millis(slowest)}, errors.Join(errs...)
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
