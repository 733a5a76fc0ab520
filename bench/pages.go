package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/proc"
	"github.com/everline/everline/bench/internal/record"
	"github.com/everline/everline/bench/internal/stat"
)

const (
	openPages = 10
	pageTopic = "/api/v1/stream?topics=servers,events,tick" // what a page asks for that shows all servers
)

// The load of pages is one that leaves room on two cores: calls that wait for each
// other would tell of the machine, and not of pages.
const (
	pageSessions = 4
	pageEvery    = 40 * time.Millisecond // of each session
)

// runPages measures what open pages cost: blocks of calls with and without ten of
// them, in turn, and the CPU of everline that is otherwise idle.
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
		blocks := map[int][]drive.Result{}
		for rep := range d.reps {
			for _, pages := range turn([]int{0, openPages}, rep) {
				r, err := w.withPages(ctx, pages, rep+1)
				if err != nil {
					return err
				}
				blocks[pages] = append(blocks[pages], r)
			}
			d.say("pages: %d of %d", rep+1, d.reps)
		}
		for pages, all := range blocks {
			if err := d.emit(record.Row{Mode: "pages", Case: "all blocks", Target: fmt.Sprintf("%d pages", pages), Rep: 1, Values: pooled(all)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// pooled are the calls of all blocks together, and the block in the middle.
func pooled(blocks []drive.Result) map[string]float64 {
	var times []time.Duration
	var each []float64
	for _, b := range blocks {
		times = append(times, b.Times...)
		each = append(each, micros(stat.Quantile(b.Times, .99)))
	}
	slices.Sort(times)
	return map[string]float64{
		"calls": float64(len(times)), "p50_us": micros(stat.Quantile(times, .5)), "p99_us": micros(stat.Quantile(times, .99)), "block_p99_us": stat.Median(each),
	}
}

func (w *world) withPages(ctx context.Context, pages, rep int) (drive.Result, error) {
	closePages, err := w.openPages(ctx, pages)
	if err != nil {
		return drive.Result{}, err
	}
	defer closePages()
	sessions, err := w.open(ctx, pageSessions)
	if err != nil {
		return drive.Result{}, err
	}
	defer closeAll(sessions)
	run, err := loads[0].of(ctx, sessions, w.tools, w.d.each)
	if err != nil {
		return drive.Result{}, err
	}
	run.For, run.Every = w.d.each, pageEvery
	warm := run
	warm.For /= 4
	warm.Run(ctx)
	r := run.Run(ctx)
	if r.First != nil {
		return r, r.First
	}
	before, began := proc.Split(w.pids(), w.isServer).Gateway, time.Now()
	pause(ctx, w.d.each/4)
	used := proc.Split(w.pids(), w.isServer).Gateway - before
	share := map[string]float64{"core_percent": 100 * used.Seconds() / time.Since(began).Seconds()}
	return r, w.d.emit(record.Row{Mode: "pages", Case: "idle", Target: fmt.Sprintf("%d pages", pages), Rep: rep, Values: share})
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
