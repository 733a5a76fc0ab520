package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/mcp"
)

// daemonOptions say what a daemon is made of.
type daemonOptions struct {
	config   *config.Config
	files    []string
	load     func() (*config.Config, error) // reads the files again
	stateDir string
	endpoint string // the URL for clients; "" for a gateway on stdio alone
	listen   string // as the configuration named it; "" if it did not decide
	gateway  gateway.Options
	socket   net.Listener // of the admin API; nil for none
	log      *slog.Logger
}

// A daemon is a hub with what stands around it. Its long-lived goroutines are
// the logger, and one for each listener that is served.
type daemon struct {
	opts    daemonOptions
	hub     *everline.Hub
	gateway *gateway.Gateway
	api     *admin.API
	journal *admin.Journal

	reloading chan struct{} // holds one token while the files are read and applied

	// ballast is never read or written, and so is no memory but a number for
	// the collector, which would else begin anew with each few megabytes: an
	// idle everline lives in three. It takes a fifth of the CPU from results of
	// 64 KiB, and costs some megabytes under load.
	ballast []byte

	base                context.Context // of every request of the admin API
	end                 context.CancelFunc
	server, adminServer *http.Server // nil for one that is not served
	running             sync.WaitGroup
}

const ballastSize = 8 << 20

func startDaemon(ctx context.Context, o daemonOptions) (*daemon, error) {
	d := &daemon{opts: o, journal: admin.NewJournal(), reloading: make(chan struct{}, 1), ballast: make([]byte, ballastSize)}
	hub, err := everline.Open(ctx, o.config, everline.Options{
		StateDir: o.stateDir, Name: "everline", Version: buildVersion(), Emit: d.journal.Record,
		Warn: func(server, text string) { o.log.Warn(text, "server", server) },
	})
	if err != nil {
		return nil, err
	}
	d.hub = hub
	o.gateway.Group = func(name string) gateway.Backend {
		if v := hub.View(name); v.Exists() {
			return v
		}
		return nil
	}
	o.gateway.Keep = hub.KeepResults
	o.gateway.Instance = mcp.Instance()
	d.gateway = gateway.New(hub.View(""), o.gateway)
	d.api = admin.New(admin.Options{
		Hub: hub, Journal: d.journal, Endpoint: o.endpoint, Version: buildVersion(),
		StateDir: o.stateDir, Config: absolute(o.files), Listen: o.listen, Reload: d.reload,
	})
	d.base, d.end = context.WithCancel(context.Background())
	d.running.Go(d.logEvents) // ends with d.base; close waits for it
	if o.socket != nil {
		d.adminServer = d.serve(o.socket, d.api.Handler())
	}
	return d, nil
}

// absolute names files so that a command in another folder finds them, too.
func absolute(files []string) []string {
	all := slices.Clone(files)
	for i, file := range files {
		if path, err := filepath.Abs(file); err == nil {
			all[i] = path
		}
	}
	return all
}

// serve answers HTTP on a listener until close.
func (d *daemon) serve(l net.Listener, h http.Handler) *http.Server {
	s := gateway.Server(h)
	s.BaseContext = func(net.Listener) context.Context { return d.base }
	s.ErrorLog = slog.NewLogLogger(d.opts.log.Handler(), slog.LevelDebug)
	d.running.Go(func() { // ends with the server's Shutdown or Close
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			d.opts.log.Error("the endpoint has failed", "address", l.Addr().String(), "cause", err)
		}
	})
	return s
}

// eventLevels are the levels of events that are not plain information.
var eventLevels = map[string]slog.Level{
	"connecting":    slog.LevelDebug,
	"start_failed":  slog.LevelWarn,
	"lost":          slog.LevelWarn,
	"stopped":       slog.LevelError,
	"list_failed":   slog.LevelWarn,
	"unapproved":    slog.LevelWarn,
	"close_failed":  slog.LevelWarn,
	"call_replayed": slog.LevelWarn,
	"call_failed":   slog.LevelWarn,
}

// logEvents writes events as log lines. It reads from the journal, so that a
// stderr that nobody empties holds up nothing: events are then left out.
func (d *daemon) logEvents() {
	var seen uint64
	for {
		events, more := d.journal.After(seen)
		for _, e := range events {
			if e.Seq > seen+1 {
				d.opts.log.Warn("events were left out of this log", "count", e.Seq-seen-1)
			}
			seen = e.Seq
			d.opts.log.LogAttrs(d.base, eventLevels[e.Kind], d.api.Hide(e.Text),
				slog.String("server", e.Server), slog.Uint64("generation", e.Generation), slog.String("event", e.Kind))
		}
		select {
		case <-more:
		case <-d.base.Done():
			return
		}
	}
}

func logWarnings(log *slog.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings {
		log.Warn(w.Text, "server", w.Server, "at", w.Origin.String())
	}
}

const (
	// stopMargin is how long servers may take to end once their calls are over.
	stopMargin = 10 * time.Second
	// hurryMargin is the same once somebody is in a hurry: long enough to end
	// processes by force, so that none is left behind.
	hurryMargin = 4 * time.Second
	// lastAnswers is how long the answers may take that are being written in the end.
	lastAnswers = time.Second
)

// close lets what is in flight finish until the drain deadline, and ends the
// servers. The endpoint is the last to go: until then it tells clients when to
// come again, where they would else be refused. When hurry ends, calls are no
// longer waited for, and servers only as long as it takes to kill them.
func (d *daemon) close(hurry context.Context) error {
	drain, cancel := context.WithTimeout(hurry, d.hub.Config().DrainTimeout)
	defer cancel()
	d.api.EndStreams()
	var closing sync.WaitGroup
	closing.Go(func() { shutDown(drain, d.adminServer) }) // ends with drain
	failed := d.gateway.Close(drain)
	closing.Wait()
	stop, cancelStop := context.WithTimeout(context.Background(), stopMargin)
	defer cancelStop()
	defer context.AfterFunc(hurry, func() { time.AfterFunc(hurryMargin, cancelStop) })()
	if err := d.hub.Close(stop); err != nil {
		failed = err
	}
	last, cancelLast := context.WithTimeout(context.Background(), lastAnswers)
	defer cancelLast()
	shutDown(last, d.server)
	d.end()
	d.running.Wait()
	return failed
}

// shutDown ends a server in order until ctx ends, and then at once. A nil one
// was never started.
func shutDown(ctx context.Context, s *http.Server) {
	if s != nil && s.Shutdown(ctx) != nil {
		_ = s.Close() // Shutdown has failed, and this cannot
	}
}
