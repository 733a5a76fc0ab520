package daemon

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/observe"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/usage"
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

// serveMetrics serves them at the endpoint: to those who have the token or, where
// none is configured, to whoever may come in and see all servers.
func (d *daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	switch cfg := d.hub.Config(); {
	case !cfg.Metrics:
		http.Error(w, "everline serves no metrics here: metrics is false", http.StatusNotFound)
	case cfg.MetricsTokenFile != "":
		d.serveToBearer(w, r, cfg.MetricsTokenFile)
	case !cfg.Access.Demanded && !d.parts.local:
		d.clients.Auth.Add(1)
		http.Error(w, "everline serves metrics only to its own machine; metricsTokenFile or metricsListen lets others in", http.StatusForbidden)
	default:
		switch who := d.parts.entrance.Enter(w, r); {
		case who == nil:
			d.clients.Auth.Add(1)
		case d.seesAll(who):
			d.scraped.ServeHTTP(w, r)
		default:
			http.Error(w, "the metrics tell of all servers, and this client may not see all; metricsTokenFile or metricsListen lets it in", http.StatusForbidden)
		}
	}
}

// seesAll tells whether an identity may know of every server.
func (d *daemon) seesAll(who *access.Identity) bool { return policy.New(d.hub.Config()).For(who).All() }

// readyz names servers to whoever may know of all.
func (d *daemon) readyz(w http.ResponseWriter, r *http.Request) {
	if d.seesAll(access.From(r.Context())) {
		d.api.Readyz(w, r)
		return
	}
	d.api.ReadyzBriefly(w, r)
}

func (d *daemon) serveToBearer(w http.ResponseWriter, r *http.Request, path string) {
	text, err := os.ReadFile(path)
	want := strings.TrimSpace(string(text))
	if err != nil || want == "" {
		d.parts.Log.Error("metricsTokenFile has no token: nobody gets the metrics", "path", path, "cause", err)
		http.Error(w, "everline cannot read its token", http.StatusInternalServerError)
		return
	}
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		d.clients.Auth.Add(1)
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	d.scraped.ServeHTTP(w, r)
}

// listenForMetrics serves them at an address of their own, if there is one.
func (d *daemon) listenForMetrics(ctx context.Context) error {
	cfg := d.hub.Config()
	if cfg.MetricsListen == "" {
		return nil
	}
	l, err := listen(ctx, cfg.MetricsListen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if token := d.hub.Config().MetricsTokenFile; token != "" {
			d.serveToBearer(w, r, token)
			return
		}
		d.scraped.ServeHTTP(w, r)
	})
	d.metricsServer = d.serve(l, mux)
	return nil
}

// metrics are what is counted. The admin API is there when they are asked.
func (d *daemon) metrics() *prometheus.Registry {
	return observe.Registry(observe.Source{
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
		Clients: d.clients.Read,
		Audit: func() (uint64, bool) {
			_, err := d.audit.Problem()
			return d.audit.Lost(), err != nil
		},
		Viewers: func() int { return d.site.Viewers() },
		Lost:    d.telemetry.Lost,
		Trees:   usage.Read,
	})
}
