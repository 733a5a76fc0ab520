package daemon

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/observe"
)

// reloads count what became of the reloads of the configuration.
type reloads struct {
	applied, unchanged, refused atomic.Uint64
	last                        atomic.Int64 // when the files were last applied, in ms
	failed                      atomic.Bool  // those of now are not
}

func (r *reloads) taken(plan config.Plan) {
	if len(plan.Add)+len(plan.Remove)+len(plan.Change) == 0 {
		r.unchanged.Add(1)
	} else {
		r.applied.Add(1)
	}
	r.last.Store(time.Now().UnixMilli())
	r.failed.Store(false)
}

func (r *reloads) refuse() {
	r.refused.Add(1)
	r.failed.Store(true)
}

func (r *reloads) read() observe.Reloads {
	return observe.Reloads{
		Applied: r.applied.Load(), Unchanged: r.unchanged.Load(), Refused: r.refused.Load(),
		OK: !r.failed.Load(), Last: time.UnixMilli(r.last.Load()),
	}
}

// loopback tells whether an address is one that only this machine reaches.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// metrics serves what is counted. The admin API is there when it is asked.
func (d *daemon) metrics() http.Handler {
	return observe.Handler(observe.Source{
		Version: d.parts.Version,
		Status:  d.hub.Status,
		Config:  d.hub.Config,
		Counts:  func() map[string]meter.Counts { return door.Counts(d.hub) },
		Pins:    d.hub.PinChanges,
		Orphans: d.hub.Orphans,
		Catalog: d.hub.Catalog,
		Ready:   func() bool { return d.api.Ready() },
		Reloads: d.reloads.read,
		Events:  d.journal.Kinds,
		Memory:  func(pid int) int64 { return d.api.Memory(pid) },
	})
}
