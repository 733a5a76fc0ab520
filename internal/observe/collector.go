// Package observe shows what is counted to those who watch: as metrics for
// Prometheus. It counts nothing, and asks no server anything.
package observe

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/usage"
)

// A Source is where the facts come from. Its funcs are called for each scrape, by
// many goroutines at a time; they wait for nothing.
type Source struct {
	Version string
	Status  func() []everline.Status
	Config  func() *config.Config
	Counts  func() map[string]meter.Counts // by server; "" for what none was meant by
	Pins    func() []everline.PinChange
	Orphans func() []everline.Orphan
	Catalog func() *everline.Catalog
	Ready   func() bool
	Reloads func() Reloads
	Events  func() map[string]uint64 // by kind
	Clients func() meter.EndpointCounts
	Audit   func() (lost uint64, failing bool)
	Viewers func() int               // pages that are open
	Lost    func() map[string]uint64 // what could not be exported, by signal

	Trees func() usage.Trees // as they are now
}

// Reloads are what became of the reloads of the configuration.
type Reloads struct {
	Applied, Unchanged, Refused uint64
	OK                          bool      // the files as they are now are applied
	Last                        time.Time // when they last were
}

// Registry has the metrics of everline and of its own process.
func Registry(s Source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{from: s, used: map[string]time.Duration{}}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves metrics.
func Handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes})
}

// maxScrapes is how many may run at a time: each holds the text of all metrics.
const maxScrapes = 4

// manyServers is above how many servers the histograms of single ones are left
// out, which are most of what a scrape holds.
const manyServers = 200

// A collector makes the metrics of one scrape from what is counted then.
type collector struct {
	from Source

	mu     sync.Mutex               // guards the rest; held while the processes are looked at, so that one looks for all
	trees  usage.Trees              // as of looked
	over   map[string]time.Duration // by server: what had been used by then by what has ended
	used   map[string]time.Duration // by server: the most CPU time that was said
	looked time.Time
}

// treeAge is how old what is said of processes may be: a look costs time in proportion
// to all that run on the machine.
const treeAge = 5 * time.Second

// Describe tells which metrics there may be.
func (*collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// A scrape is one answer in the making.
type scrape chan<- prometheus.Metric

func (s scrape) put(f *family, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if f.kind == "counter" {
		kind = prometheus.CounterValue
	}
	s <- prometheus.MustNewConstMetric(f.desc, kind, v, labels...)
}

// known is put for what may be unknown.
func (s scrape) known(f *family, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.put(f, float64(t.UnixMilli())/1000, labels...)
	}
}

func (s scrape) spread(f *family, d meter.Distribution, labels ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	n := uint64(0)
	for i, bound := range d.Bounds {
		n += d.Counts[i]
		buckets[bound.Seconds()] = n
	}
	m := prometheus.MustNewConstHistogram(f.desc, d.Count(), d.Sum.Seconds(), buckets, labels...)
	if shown := exemplars(d); len(shown) > 0 {
		m = prometheus.MustNewMetricWithExemplars(m, shown...)
	}
	s <- m
}

func exemplars(d meter.Distribution) (all []prometheus.Exemplar) {
	for _, e := range d.Exemplars {
		if e != nil {
			all = append(all, prometheus.Exemplar{Value: e.Took.Seconds(), Labels: prometheus.Labels{"trace_id": hex.EncodeToString(e.Trace[:])}, Timestamp: e.At})
		}
	}
	return all
}

// byCause puts those causes that have happened.
func (s scrape) byCause(f *family, counts []uint64, server string) {
	for cause, n := range counts {
		if n > 0 {
			s.put(f, float64(n), server, meter.Cause(cause).String())
		}
	}
}

// Collect makes all metrics.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s, counts := scrape(ch), c.from.Counts()
	c.itself(s)
	cfg, all := c.from.Config(), c.from.Status()
	pins, conflicts := c.pins(), map[string]int{}
	for _, x := range c.from.Catalog().Conflicts() {
		conflicts[x.Server]++
	}
	perServer := cfg.MetricsPerServer == config.PerServerOn || cfg.MetricsPerServer != config.PerServerOff && len(all) <= manyServers
	c.processes(s, all, counts)
	var park meter.Distribution
	starts, sends := map[string]*meter.Distribution{}, map[string]*meter.Distribution{}
	for _, st := range all {
		n, ok := counts[st.Name]
		if !ok {
			continue // it has just been added
		}
		spec, _ := cfg.Server(st.Name)
		s.server(st, spec)
		s.catalog(st, conflicts[st.Name])
		s.put(unapproved, float64(pins[st.Name].all), st.Name)
		s.put(withheld, float64(pins[st.Name].withheld), st.Name)
		s.lifecycle(st, n, perServer)
		s.calls(st.Name, n, perServer)
		s.links(st.Name, n)
		park.Add(n.Park)
		add(starts, string(st.Transport), n.StartTimes)
		add(sends, string(st.Transport), n.Upstream)
	}
	none := counts[""]
	for i, results := range c.from.Clients().Own {
		for j, n := range results {
			none.Calls[i][j] += n
		}
	}
	s.outcomes("", none)
	if len(all) == 0 {
		return
	}
	s.spread(parkTime, park)
	for transport, d := range starts {
		s.spread(startDuration, *d, transport)
		s.spread(upstreamTime, *sends[transport], transport)
	}
}

// processes tells of the servers' processes, those that sessions have of them included.
func (c *collector) processes(s scrape, all []everline.Status, counts map[string]meter.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look(all, counts)
	used := map[string]time.Duration{}
	for _, st := range all {
		tree, over := c.trees.Of(pids(st)...), counts[st.Name].Links.CPU
		if tree.Processes > 0 {
			s.put(processes, float64(tree.Processes), st.Name)
			s.put(memoryBytes, float64(tree.Resident), st.Name)
		}
		if over != c.over[st.Name] {
			tree.CPU = 0 // something has ended since the look, and would be in both
		}
		if d := max(over+tree.CPU, c.used[st.Name]); d > 0 { // what has just ended is known a moment later
			used[st.Name] = d
			s.put(cpuTime, d.Seconds(), st.Name)
		}
	}
	c.used = used
}

// look looks at the machine's processes where any of them is a server's, behind counts:
// none is in both.
func (c *collector) look(all []everline.Status, counts map[string]meter.Counts) {
	if time.Since(c.looked) < treeAge || !slices.ContainsFunc(all, func(st everline.Status) bool { return pids(st) != nil }) {
		return
	}
	c.trees, c.looked, c.over = c.from.Trees(), time.Now(), map[string]time.Duration{}
	for name, n := range counts {
		c.over[name] = n.Links.CPU
	}
}

// pids are the processes of a server that serve.
func pids(st everline.Status) (all []int) {
	if st.PID != 0 {
		all = append(all, st.PID)
	}
	for _, own := range st.Sessions {
		if own.PID != 0 {
			all = append(all, own.PID)
		}
	}
	return all
}

func add(to map[string]*meter.Distribution, key string, d meter.Distribution) {
	if to[key] == nil {
		to[key] = &meter.Distribution{}
	}
	to[key].Add(d)
}

// itself is about everline.
func (c *collector) itself(s scrape) {
	s.put(buildInfo, 1, c.from.Version, revision(), runtime.Version())
	s.put(ready, one(c.from.Ready()))
	lost, failing := c.from.Audit()
	s.put(auditLost, float64(lost))
	s.put(auditFailing, one(failing))
	r := c.from.Reloads()
	s.put(reloadOK, one(r.OK))
	s.known(reloadTime, r.Last)
	s.put(reloads, float64(r.Applied), "applied")
	s.put(reloads, float64(r.Unchanged), "unchanged")
	s.put(reloads, float64(r.Refused), "refused")
	for kind, n := range c.from.Events() {
		s.put(events, float64(n), kind)
	}
	n := c.from.Clients()
	s.put(sessions, float64(n.Sessions))
	for result, k := range n.Ends {
		s.put(sessionsTotal, float64(k), result)
	}
	s.spread(sessionDuration, n.Lasted)
	for reason, k := range n.Cut {
		s.put(streamsCut, float64(k), reason)
	}
	s.put(viewers, float64(c.from.Viewers()))
	for transport, d := range n.Overhead {
		s.spread(overhead, d, transport)
	}
	for kind, k := range n.Streams {
		s.put(streams, float64(k), kind)
	}
	for reason, k := range n.Refused {
		s.put(refused, float64(k), reason)
	}
	for by, k := range n.Policies {
		s.put(policyRefused, float64(k), by.Policy, by.Reason)
	}
	for direction, k := range n.Bytes {
		s.put(clientBytes, float64(k), direction)
	}
	left := map[bool]int{}
	for _, o := range c.from.Orphans() {
		left[o.Ended]++
	}
	s.put(leftovers, float64(left[true]), "true")
	s.put(leftovers, float64(left[false]), "false")
	unexported := c.from.Lost()
	for _, signal := range []string{"spans", "logs", "metrics"} {
		s.put(telemetryLost, float64(unexported[signal]), signal)
	}
}

// states are all that a server can be in.
var states = []event.State{
	event.StateDisabled, event.StateIdle, event.StateConnecting, event.StateConnected, event.StateReconnecting,
	event.StateDisconnected, event.StateDisabling, event.StateAuthRequired, event.StateMisconfigured, event.StateFailed,
}

// server is how a server is seen now.
func (s scrape) server(st everline.Status, spec config.Server) {
	name := st.Name
	for _, state := range states {
		s.put(serverState, one(state == st.State), name, string(state))
	}
	if !st.State.Off() {
		s.put(serverUp, one(st.State == event.StateConnected || st.State == event.StateIdle), name)
	}
	isolation := cmp.Or(string(spec.Isolation), string(config.IsolationShared))
	s.put(serverInfo, 1, name, string(st.Transport), string(st.Era), st.Version, strconv.FormatBool(spec.Required), isolation)
	s.put(generation, float64(st.Generation), name)
	s.put(attempts, float64(st.Attempt), name)
	s.known(stateSince, st.Since, name)
	s.known(awaySince, st.AwaySince, name)
	s.known(nextAttempt, st.Next, name)
	if st.Auth != nil {
		s.known(tokenExpiry, st.Auth.ExpiresAt, name)
		s.put(refreshes, float64(st.Auth.Refreshes), name, "ok")
		s.put(refreshes, float64(st.Auth.Failures), name, "failed")
	}
	for _, p := range st.Handshake {
		s.put(startPhase, p.Took.Seconds(), name, p.Name)
	}
	s.put(inFlight, float64(st.Out), name)
	s.put(waiting, float64(st.Waiting), name)
}

func (s scrape) catalog(st everline.Status, conflicts int) {
	for i, kind := range []string{"tool", "prompt", "resource", "template"} {
		s.put(catalogItems, float64(st.Offered[i]), st.Name, kind)
	}
	s.known(catalogTime, st.CatalogAt, st.Name)
	s.put(catalogTokens, float64(st.Tokens), st.Name)
	s.put(catalogConflict, float64(conflicts), st.Name)
}

// lifecycle is what a server has been through.
func (s scrape) lifecycle(st everline.Status, n meter.Counts, spread bool) {
	s.byCause(generations, n.Starts[:], st.Name)
	s.byCause(losses, n.Losses[:], st.Name)
	s.byCause(startFailures, n.StartFailures[:], st.Name)
	s.byCause(catalogFailures, n.ListFailures[:], st.Name)
	s.put(catalogChanges, float64(n.Changes), st.Name)
	s.put(outage, st.Outage.Seconds(), st.Name)
	if spread {
		s.spread(recovery, n.Recovered, st.Name)
	}
}

// calls is what became of the requests to a server.
func (s scrape) calls(name string, n meter.Counts, spread bool) {
	s.outcomes(name, n)
	if spread {
		s.spread(callDuration, n.Took, name)
	}
	for i, result := range meter.Parked {
		s.put(parked, float64(n.Parked[i]), name, result)
	}
	s.byCause(repeated, n.Repeated[:], name)
	for _, by := range []event.Saved{event.ByReplay, event.ByParking} {
		s.put(saved, float64(n.Saved[by]), name, by.String())
	}
	s.put(limited, float64(n.Limited), name)
	s.put(pings, float64(n.Heard), name, "ok")
	s.put(pings, float64(n.Missed), name, "missed")
	s.put(limitPause, n.Paused.Seconds(), name)
	s.put(bytes, float64(n.Sent), name, "sent")
	s.put(bytes, float64(n.Received), name, "received")
}

// links is what came over the server's connections beside answers, and what is done
// to it on purpose.
func (s scrape) links(name string, n meter.Counts) {
	s.put(lateAnswers, float64(n.Links.Late), name)
	s.put(noise, float64(n.Links.Noise), name)
	s.put(ignored, float64(n.Links.Ignored), name)
	s.put(stderrBytes, float64(n.Links.Stderr), name)
	for fault, k := range n.Drills {
		s.put(drills, float64(k), name, fault)
	}
	for tool, results := range n.Tools {
		for result, k := range results {
			if k > 0 {
				s.put(toolCalls, float64(k), name, tool, event.CallResult(result).String())
			}
		}
	}
}

// outcomes has all outcomes of tools/call, so that the first one of each is an
// increase, and of other methods what has happened.
func (s scrape) outcomes(name string, n meter.Counts) {
	for i, method := range meter.Methods {
		for outcome := range event.CallResults {
			if k := n.Calls[i][outcome]; k > 0 || i == 0 && name != "" {
				s.put(calls, float64(k), name, method, event.CallResult(outcome).String())
			}
		}
	}
	for kind, k := range n.Failures {
		if k > 0 {
			s.put(callFailures, float64(k), name, fault.Kind(kind).String())
		}
	}
}

type pinned struct{ all, withheld int }

func (c *collector) pins() map[string]pinned {
	by := map[string]pinned{}
	for _, p := range c.from.Pins() {
		n := by[p.Server]
		n.all++
		if p.Withheld {
			n.withheld++
		}
		by[p.Server] = n
	}
	return by
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// revision is the commit that the program was built from; "" if that is not known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
