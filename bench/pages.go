package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
)

const (
	openPages = 10
	pageTopic = "/api/v1/stream?topics=servers,events,tick" // what a page asks for that shows all servers
)

// runPages measures what open pages cost: the calls of clients with and without ten
// of them, in turn, and the CPU of everline that is otherwise idle.
func runPages(ctx context.Context, d *driver) error {
	for _, t := range d.all {
		if t.name != "everline" {
			continue
		}
		w, err := d.start(ctx, t, need{kind: stdio, servers: 10, tools: 10})
		if err != nil {
			return err
		}
		defer w.stop()
		if _, _, err := w.ready(ctx); err != nil {
			return err
		}
		for rep := range d.reps {
			for _, pages := range turn([]int{0, openPages}, rep) {
				if err := w.withPages(ctx, pages, rep+1); err != nil {
					return err
				}
			}
			d.say("pages: %d of %d", rep+1, d.reps)
		}
	}
	return nil
}

func (w *world) withPages(ctx context.Context, pages, rep int) error {
	closePages, err := w.openPages(ctx, pages)
	if err != nil {
		return err
	}
	defer closePages()
	for _, l := range loads[:2] {
		values, err := w.load(ctx, l)
		if err != nil {
			return err
		}
		if err := w.d.emit(record.Row{Mode: "pages", Case: l.name, Target: fmt.Sprintf("%d pages", pages), Rep: rep, Values: values}); err != nil {
			return err
		}
	}
	before, began := proc.Split(w.pids(), w.isServer).Gateway, time.Now()
	pause(ctx, w.d.each)
	used := proc.Split(w.pids(), w.isServer).Gateway - before
	share := map[string]float64{"core_percent": 100 * used.Seconds() / time.Since(began).Seconds()}
	return w.d.emit(record.Row{Mode: "pages", Case: "idle", Target: fmt.Sprintf("%d pages", pages), Rep: rep, Values: share})
}

// openPages reads so many streams, as open tabs do, until they are closed.
func (w *world) openPages(ctx context.Context, n int) (closeAll func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	closeAll = func() {
		cancel()
		reading.Wait()
	}
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address()+pageTopic, nil)
		if err != nil {
			closeAll()
			return nil, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			closeAll()
			return nil, err
		}
		reading.Go(func() { // ends with closeAll
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // it ends with the page
		})
	}
	return closeAll, nil
}
