// Package daemon is everline as a process that runs: it loads the configuration,
// serves the hub to clients and to the admin API, watches the files, reloads, and
// stops in order. It supervises no server itself; the hub does.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access/entrance"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/history"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/observe"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/telemetry"
	"github.com/everline/everline/internal/web"
)

// Options say what a daemon is made of.
type Options struct {
	Version        string
	Log            *slog.Logger
	CredentialsKey string // a file; "": everline finds or makes a key
}

// parts are what start makes a daemon of.
type parts struct {
	Options
	found    Loaded
	stateDir string // "" keeps nothing on disk
	endpoint string // the URL for clients; "" for a gateway on stdio alone
	redirect string // where browsers reach the endpoint's login callback; "" if they do not
	listen   string // as the configuration named it; "" if it did not decide
	gateway  gateway.Options
	entrance *entrance.Entrance // who comes in over HTTP; nil where nobody does

	address         string       // that the endpoint is reached at; "" for a gateway on stdio alone
	unauthenticated bool         // as Endpoint has it
	socket          net.Listener // of the admin API; nil for none

	handed net.Listener // of the endpoint, if the service manager has its socket and keeps that open; else nil
	local  bool         // only this machine reaches the endpoint
}

// A daemon is a hub with what stands around it. Its long-lived goroutines are
// the logger, the watch of the files, and one for each listener that is served.
type daemon struct {
	parts   parts
	hub     *everline.Hub
	gateway *gateway.Gateway
	api     *admin.API
	journal *admin.Journal
	reloads reloads
	clients *meter.Endpoint // of the endpoint
	scraped http.Handler    // what is counted, for Prometheus

	telemetry *telemetry.Telemetry // nil: nothing is recorded
	registry  atomic.Pointer[prometheus.Registry]

	history  *history.History
	capture  *history.Capture
	site     *web.Site       // nil without an endpoint
	sessions *sessions.Store // nil where nothing is kept on disk
	audit    *audit.Log      // nil where nothing is recorded
	hide     atomic.Pointer[func(string) string]

	reexposed chan struct{} // one slot: another configuration is applied

	load      func() (*config.Config, error) // reads the files again
	reloading chan struct{}                  // holds one token while the files are read and applied
	warnable  chan struct{}                  // one slot: there may be warnings that were not logged

	// ballast is never read or written, so it is no memory but a number for the
	// collector, which would otherwise run again for each few megabytes: an idle
	// everline uses three. It takes a fifth of the CPU from results of
	// 64 KiB, and costs some megabytes under load.
	ballast []byte

	base                               context.Context // of every request of the admin API
	end                                context.CancelFunc
	server, adminServer, metricsServer *http.Server // nil for one that is not served
	running                            sync.WaitGroup
}

const ballastSize = 8 << 20

func start(ctx context.Context, p parts) (*daemon, error) {
	d := &daemon{parts: p, load: p.found.again, journal: admin.NewJournal(), clients: meter.NewEndpoint(), history: history.New(), reloading: make(chan struct{}, 1), warnable: make(chan struct{}, 1), reexposed: make(chan struct{}, 1), ballast: make([]byte, ballastSize)}
	if err := d.openAudit(); err != nil {
		return nil, err
	}
	options := everline.Options{
		StateDir: p.stateDir, CredentialsDir: p.found.source.StateDir, CredentialsKey: p.CredentialsKey, Name: "everline", Version: p.Version, Emit: d.emit, Observe: d.history.Call, RedirectURI: p.redirect,
		Warn: func(server, text string) { p.Log.Warn(text, "server", server) },
	}
	if d.telemetry = d.openTelemetry(ctx); d.telemetry != nil {
		door.Record(&options, d.telemetry)
		p.gateway.Recorder = d.telemetry
	}
	hub, err := everline.Open(ctx, p.found.Config, options)
	if err != nil {
		_ = d.audit.Close(ctx) // nothing has happened
		return nil, errors.Join(err, d.closeTelemetry())
	}
	d.hub = hub
	warn := func(text string) { p.Log.Warn(text) }
	if p.stateDir != "" {
		if d.sessions, err = sessions.OpenStore(p.stateDir, warn); err != nil {
			p.Log.Warn("sessions end with this process", "cause", err)
		}
	}
	p.gateway.Version, p.gateway.Sessions = p.Version, d.sessions
	p.gateway.Meter, p.gateway.Emit, p.gateway.Warn = d.clients, d.journal.Record, warn
	d.capture = history.NewCapture(d.keepable)
	p.gateway.Audit, p.gateway.Watch = d.audit, d.capture.Watch
	d.gateway = gateway.ForHub(hub, p.gateway)
	d.reloads.last.Store(time.Now().UnixMilli())
	registry := d.metrics()
	d.scraped = observe.Handler(registry)
	o := admin.Options{
		Hub: hub, Journal: d.journal, Endpoint: p.endpoint, Version: p.Version,
		StateDir: p.stateDir, Config: Absolute(p.found.Files), Listen: p.listen, Reload: d.reload, Metrics: d.scraped, Stuck: d.stuck, Audit: d.audit, Watch: d.capture.Watch, Exposed: d.exposed,
	}
	if p.endpoint != "" {
		o.Page = pageOf{d}
	}
	d.api = admin.New(o)
	if p.endpoint != "" {
		d.site = d.page()
	}
	d.registry.Store(registry) // what it asks is there from now on
	hide := d.api.Hide
	d.hide.Store(&hide)
	d.audit.Note(systemRecord(audit.Start))
	d.base, d.end = context.WithCancel(context.Background())
	d.running.Go(d.logEvents)       // ends with d.base; close waits for it
	d.running.Go(d.logLateWarnings) // likewise
	if d.telemetry.Logs() {
		d.running.Go(d.exportEvents) // likewise
	}
	if p.socket != nil {
		d.adminServer = d.serve(p.socket, d.api.Handler())
	}
	return d, nil
}

// serve answers HTTP on a listener until close.
func (d *daemon) serve(l net.Listener, h http.Handler) *http.Server {
	s := d.newServer(h)
	d.serveOn(s, l)
	return s
}

func (d *daemon) newServer(h http.Handler) *http.Server {
	s := gateway.Server(h)
	s.BaseContext = func(net.Listener) context.Context { return d.base }
	s.ErrorLog = slog.NewLogLogger(d.parts.Log.Handler(), slog.LevelDebug)
	return s
}

func (d *daemon) serveOn(s *http.Server, l net.Listener) {
	d.running.Go(func() { // ends with the server's Shutdown or Close
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			d.parts.Log.Error("the endpoint has failed", "address", l.Addr().String(), "cause", err)
		}
	})
}
