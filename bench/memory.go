package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
)

const (
	memorySessions = 10_000
	memoryStreams  = 1_000
)

// runMemory measures what idle clients cost a gateway: 10,000 sessions, and
// then streams that some of them keep open.
func runMemory(ctx context.Context, d *driver) error {
	for rep := range d.reps {
		for _, t := range turn(d.all, rep) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if t.name == "direct" || t.name == "rawproxy" {
				continue // the sessions would be the server's
			}
			if err := d.memoryOnce(ctx, t, rep+1); err != nil {
				return err
			}
		}
		d.say("memory: %d of %d", rep+1, d.reps)
	}
	return nil
}

func (d *driver) memoryOnce(ctx context.Context, t *target, rep int) error {
	row := record.Row{Mode: "memory", Case: fmt.Sprintf("%d idle sessions, %d of them with a stream", memorySessions, memoryStreams), Target: t.name, Rep: rep}
	w, err := d.start(ctx, t, need{kind: stdio, servers: 1, tools: startupTools})
	if errors.Is(err, errSkip) {
		return nil
	}
	switch {
	case err != nil:
	case t.spawns:
		w.stop()
		err = errors.New("it starts a server for each session")
	default:
		row.Values, err = w.clients(ctx)
		w.stop()
	}
	if err != nil {
		row.Failed = firstLine(err)
		d.say("memory: %s: %v", t.name, err)
	}
	return d.emit(row)
}

func (w *world) clients(ctx context.Context) (map[string]float64, error) {
	if _, _, err := w.ready(ctx); err != nil {
		return nil, err
	}
	pause(ctx, settle)
	base := w.memory()
	sessions, err := w.open(ctx, memorySessions)
	if err != nil {
		return nil, err
	}
	w.http.CloseIdleConnections()
	pause(ctx, settle)
	idle := w.memory()
	v := map[string]float64{"base_mib": mib(base), "sessions_mib": mib(idle), "session_kib": float64(idle-base) / memorySessions / 1024}
	streams, err := listenAll(ctx, sessions[:memoryStreams])
	defer func() {
		for _, s := range streams {
			s.Close()
		}
	}()
	if err != nil {
		return v, err
	}
	pause(ctx, settle)
	v["stream_kib"] = float64(w.memory()-idle) / memoryStreams / 1024
	return v, nil
}

// memory is what the gateway holds without counting shared pages twice.
func (w *world) memory() int64 { return proc.MemoryOf(w.pids(), w.isServer).PSS }

func listenAll(ctx context.Context, sessions []drive.Session) ([]io.Closer, error) {
	var streams []io.Closer
	for _, s := range sessions {
		stream, err := drive.Listen(ctx, s)
		if err != nil {
			return streams, err
		}
		streams = append(streams, stream)
	}
	return streams, nil
}

const (
	tailSize    = 16 << 20
	tailCallers = 8
)

// runTail measures small calls while results of 16 MiB go through, and the
// pauses of everline's garbage collection meanwhile.
func runTail(ctx context.Context, d *driver) error {
	return d.eachKind(func(kind string) error {
		for rep := range d.reps {
			for _, t := range turn(d.all, rep) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := d.tailOnce(ctx, t, kind, rep+1); err != nil {
					return err
				}
			}
			d.say("tail, %s: %d of %d", kind, rep+1, d.reps)
		}
		return nil
	})
}

func (d *driver) tailOnce(ctx context.Context, t *target, kind string, rep int) error {
	for _, big := range []bool{false, true} {
		name := kind + ", 8 callers of 100 B"
		if big {
			name += ", and results of 16 MiB beside them"
		}
		row := record.Row{Mode: "tail", Case: name, Target: t.name, Rep: rep}
		w, err := d.startWith(ctx, t, need{kind: kind, servers: 1, tools: startupTools}, func(w *world) { w.godebug = "gctrace=1" })
		if errors.Is(err, errSkip) {
			return nil
		}
		if err == nil {
			row.Values, err = w.tailValues(ctx, big)
			w.stop()
		}
		if err != nil {
			row.Failed = firstLine(err)
			d.say("tail: %s: %v", t.name, err)
		}
		if err := d.emit(row); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) tailValues(ctx context.Context, big bool) (map[string]float64, error) {
	if !w.direct {
		if _, _, err := w.ready(ctx); err != nil {
			return nil, err
		}
	}
	sessions, err := w.open(ctx, tailCallers+1)
	if err != nil {
		return nil, err
	}
	defer closeAll(sessions)
	each := w.d.each
	small, err := loads[1].of(ctx, sessions[:tailCallers], w.tools, each)
	if err != nil {
		return nil, err
	}
	large := load{tool: "blob", arguments: fmt.Sprintf(`{"bytes":%d}`, tailSize), holds: "xxxx", size: tailSize, share: 1}
	run, err := large.of(ctx, sessions[tailCallers:], w.tools, each+time.Minute)
	if err != nil {
		return nil, err
	}
	beside, end := context.WithCancel(ctx)
	var blobs drive.Result
	done := make(chan struct{})
	go func() { // ends with beside, at the end of the small ones
		defer close(done)
		if big {
			blobs = run.Run(beside)
		}
	}()
	v, err := w.measure(ctx, small, sessions[0])
	end()
	<-done
	if err != nil {
		return nil, err
	}
	v["large"] = float64(len(blobs.Times))
	if blobs.First != nil {
		return v, blobs.First
	}
	return v, w.addPauses(v)
}
