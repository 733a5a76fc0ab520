// Package drill is a client's side of a drill: it calls a server and lists the
// tools of the running everline at a steady rate while that breaks the server
// on purpose, and reports what came of it. It breaks nothing itself.
package drill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// Options say what to drill, and how to look at it.
type Options struct {
	Client   *admin.Client
	Endpoint string // the URL for MCP clients; "" if there is none
	Server   string
	Request  admin.DrillRequest
	Call     *admin.CallRequest // what is called; nil: a request that does nothing
	Every    time.Duration      // between two calls
	Broken   func()             // called once the fault is on; may be nil
	// Live, if not nil, gets the state of the drill a few times a second.
	Live func(Live)
}

// A Live is how it goes.
type Live struct {
	Elapsed  time.Duration
	Step     string // "", broken or over
	Calls    int    // that have ended
	Failed   int
	InFlight int
	Lists    int
	Short    int // lists that failed or lacked a tool
}

// A Report is what the drill has shown. Its Probes are the calls of this
// client as it saw them itself.
type Report struct {
	admin.DrillReport
	Lists Lists `json:"lists"`
	OK    bool  `json:"ok"` // every call was answered, no list was short, and the server is well again
}

// Lists is what a client that lists saw.
type Lists struct {
	Via       string  `json:"via"` // endpoint, or admin where that cannot be used
	Count     int     `json:"count"`
	Failed    int     `json:"failed"`
	Short     int     `json:"short"` // lacked a tool that was there before
	Tools     int     `json:"tools"` // before
	LongestMS float64 `json:"longestMs"`
}

const (
	listEvery = 200 * time.Millisecond
	liveEvery = 200 * time.Millisecond
	maxFlying = 512              // calls in flight; the next one waits for one of them
	grace     = 30 * time.Second // for the calls that are in flight at the end
	listLimit = 10 * time.Second
)

// Run drills a server. When ctx ends, the fault is over at once. Its errors
// are those of the admin API.
func Run(ctx context.Context, o Options) (Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{opts: o, began: time.Now(), flying: make(chan struct{}, maxFlying), answered: make(chan struct{})}
	r.calls.Failed = map[string]int{}
	list, via := openList(ctx, o)
	defer list.close()
	r.lists.Via = via
	first, err := list.names(ctx)
	if err != nil {
		return Report{}, fault.From("list", err)
	}
	r.lists.Tools = len(first)

	looking, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { r.callLoop(looking, ctx) }) // these end with looking, and their last requests with ctx
	work.Go(func() { r.listLoop(looking, ctx, list, first) })
	work.Go(func() { r.liveLoop(looking) })
	r.warmUp(ctx)
	seen, err := o.Client.Drill(ctx, o.Server, o.Request, func(s admin.DrillStep) { r.step(s.What) })
	stop()
	if err != nil {
		cancel()
	}
	late := time.AfterFunc(grace, cancel)
	defer late.Stop()
	work.Wait()
	if err != nil {
		return Report{}, err
	}
	return r.report(seen), nil
}

// A run is one drill from the outside.
type run struct {
	opts     Options
	began    time.Time
	flying   chan struct{} // holds a token for each call in flight
	answered chan struct{} // closed when the first call has ended
	once     sync.Once

	mu    sync.Mutex // guards the rest
	calls admin.DrillCalls
	times []time.Duration
	lists Lists
	now   string
}

// warmUp waits for the first answer, so that calls are under way when the
// fault comes.
func (r *run) warmUp(ctx context.Context) {
	enough := time.NewTimer(time.Second)
	defer enough.Stop()
	select {
	case <-r.answered:
	case <-enough.C:
	case <-ctx.Done():
	}
}

func (r *run) step(what string) {
	r.mu.Lock()
	r.now = what
	r.mu.Unlock()
	if what == "broken" && r.opts.Broken != nil {
		r.opts.Broken()
	}
}

// callLoop starts a call whenever it is time for one, whether or not the last
// one has its answer, until looking ends, and waits for all of them.
func (r *run) callLoop(looking, ctx context.Context) {
	tick := time.NewTicker(r.opts.Every)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		select {
		case r.flying <- struct{}{}:
		case <-looking.Done():
			return
		}
		calls.Go(func() { // ends with ctx
			defer func() { <-r.flying }()
			r.call(ctx)
		})
		select {
		case <-tick.C:
		case <-looking.Done():
			return
		}
	}
}

func (r *run) call(ctx context.Context) {
	began := time.Now()
	var err error
	if c := r.opts.Call; c != nil {
		_, err = r.opts.Client.Call(ctx, *c)
	} else {
		err = r.opts.Client.Ping(ctx, r.opts.Server)
	}
	r.ended(time.Since(began), err)
}

func (r *run) ended(took time.Duration, err error) {
	r.once.Do(func() { close(r.answered) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Calls++
	r.times = append(r.times, took)
	if err == nil || fault.KindOf(err) == fault.RPC {
		r.calls.Answered++
	} else {
		r.calls.Failed[fault.KindOf(err).String()]++
	}
}

// listLoop lists as clients do, until looking ends, and looks whether anything
// is missing.
func (r *run) listLoop(looking, ctx context.Context, list lister, first []string) {
	tick := time.NewTicker(listEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-looking.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, listLimit)
		began := time.Now()
		names, err := list.names(bounded)
		cancel()
		r.listed(time.Since(began), err, lacks(names, first))
	}
}

func (r *run) listed(took time.Duration, err error, short bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists.Count++
	r.lists.LongestMS = max(r.lists.LongestMS, millis(took))
	switch {
	case err != nil:
		r.lists.Failed++
	case short:
		r.lists.Short++
	}
}

// lacks reports whether a name of before is missing.
func lacks(names, before []string) bool {
	return slices.ContainsFunc(before, func(name string) bool { return !slices.Contains(names, name) })
}

func (r *run) liveLoop(ctx context.Context) {
	if r.opts.Live == nil {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.opts.Live(r.live())
		case <-ctx.Done():
			return
		}
	}
}

func (r *run) live() Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Live{
		Elapsed: time.Since(r.began), Step: r.now, Calls: r.calls.Calls, Failed: sum(r.calls.Failed), InFlight: len(r.flying),
		Lists: r.lists.Count, Short: r.lists.Short + r.lists.Failed,
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// report joins what both sides saw: how calls went and how long they took is
// what this side saw, whether they waited or were sent again only the other.
func (r *run) report(seen *admin.DrillReport) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.times)
	if n := len(r.times); n > 0 {
		r.calls.MedianMS, r.calls.LongestMS = millis(r.times[n/2]), millis(r.times[n-1])
	}
	r.calls.Waited, r.calls.Resent = seen.Probes.Waited, seen.Probes.Resent
	out := Report{DrillReport: *seen, Lists: r.lists}
	out.Probes = r.calls
	out.OK = seen.Recovered && !seen.CatalogShort && sum(seen.Clients.Failed)+sum(r.calls.Failed)+r.lists.Short+r.lists.Failed == 0
	return out
}

func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// errNoList: the endpoint does not answer as an MCP server does.
var errNoList = errors.New("the endpoint gave no list")
