// Package observe shows what is counted to those who watch: as metrics for
// Prometheus. It counts nothing, and asks no server anything.
package observe

import (
	"cmp"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/meter"
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
	Memory  func(pid int) int64 // of a process and all below it; 0 if that is not known
	Lost    func() uint64       // spans that could not be exported
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
	r.MustRegister(&collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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
type collector struct{ from Source }

// Describe tells which metrics there may be.
func (*collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// A scrape is one answer in the making.
type scrape chan<- prometheus.Metric

func (s scrape) put(f *Family, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if f.Type == "counter" {
		kind = prometheus.CounterValue
	}
	s <- prometheus.MustNewConstMetric(f.desc, kind, v, labels...)
}

// known is put for what may be unknown.
func (s scrape) known(f *Family, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.put(f, float64(t.UnixMilli())/1000, labels...)
	}
}

func (s scrape) spread(f *Family, d meter.Distribution, labels ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	n := uint64(0)
	for i, bound := range d.Bounds {
		n += d.Counts[i]
		buckets[bound.Seconds()] = n
	}
	s <- prometheus.MustNewConstHistogram(f.desc, d.Count(), d.Sum.Seconds(), buckets, labels...)
}

// byCause puts those causes that have happened.
func (s scrape) byCause(f *Family, counts []uint64, server string) {
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
		if st.PID != 0 {
			if held := c.from.Memory(st.PID); held > 0 {
				s.put(memoryBytes, float64(held), st.Name)
			}
		}
		s.lifecycle(st, n, len(all) <= manyServers)
		s.calls(st.Name, n, len(all) <= manyServers)
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
	s.put(streamsCut, float64(n.Slow), "slow")
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
	s.put(telemetryLost, float64(c.from.Lost()), "spans")
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
	}
	for _, p := range st.Handshake {
		s.put(startPhase, p.Took.Seconds(), name, p.Name)
	}
	s.put(inFlight, float64(st.Out), name)
	s.put(waiting, float64(st.Waiting), name)
	s.put(noise, float64(st.Noise), name)
	s.put(stderrRate, st.StderrRate, name)
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
