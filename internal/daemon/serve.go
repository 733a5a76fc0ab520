package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access/entrance"
	"github.com/everline/everline/internal/activation"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/gateway"
)

// An Endpoint is where and how Serve serves clients.
type Endpoint struct {
	Address    string // host:port
	Configured string // Address if the configuration decided it, else ""
	Hosts      []string
	Origins    []string
	Watch      bool             // take up changes of the files
	Serving    func(url string) // called once clients are served

	// Unauthenticated says that other machines may reach the endpoint though it asks
	// nobody who they are.
	Unauthenticated bool
}

// Serve runs the gateway until a signal or ctx ends it.
func Serve(ctx context.Context, found Loaded, o Options, e Endpoint) error {
	handed, err := activation.Listener() // before a child could inherit it
	if err != nil {
		return err
	}
	if handed != nil {
		defer handed.Close() // the manager has it, too
		e.Address, e.Configured = handed.Addr().String(), ""
	}
	if f := MayServe(found.Config, e.Address, e.Unauthenticated); f != nil {
		return f
	}
	stateDir := found.source.StateDir
	socket, err := admin.Listen(stateDir)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // the program ends with it
	listener := handed
	if listener == nil {
		if listener, err = listen(ctx, e.Address); err != nil {
			return err
		}
	}
	joinChain(found.Files) // itself among its servers would not get the address
	stop, reload := signals()
	base := "http://" + listener.Addr().String()
	if found.Config.TLS.CertFile != "" {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	var d *daemon
	own := entrance.New(entrance.Options{
		StateDir: stateDir, URL: base, Exposed: !loopback(listener.Addr()), Log: o.Log,
		Failed: func(r *http.Request) { d.refusedIdentity(r) }, // nobody comes in before d is there
	})
	own.Use(found.Config)
	d, err = start(ctx, parts{
		Options: o, found: found, stateDir: stateDir, socket: socket, endpoint: base + "/mcp", redirect: redirectURI(listener.Addr(), found.Config), listen: e.Configured, handed: handed, local: loopback(listener.Addr()),
		address: listener.Addr().String(), unauthenticated: e.Unauthenticated, entrance: own,
		gateway: gateway.Options{Hosts: hostsOf(found.Config, e.Hosts), Origins: e.Origins, Entrance: own},
	})
	if err != nil {
		listener.Close()
		return err
	}
	if err := d.open(ctx, listener); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	if err := d.listenForMetrics(ctx); err != nil {
		o.Log.Error("the metrics have no address of their own", "cause", err)
	}
	if e.Watch {
		d.watchFiles()
	}
	e.Serving(base + "/mcp")
	logWarnings(o.Log, found.Config.Warnings)
	notifySystemd("READY=1\n" + d.statusLine())
	d.running.Go(d.tellSystemd)                                                // ends with d.base
	d.running.Go(func() { sayExposed(d.base, o.Log, d.exposed, d.reexposed) }) // likewise
	return d.untilStopped(ctx, stop, reload)
}

// signals are those that end the program, and those that have it read its files.
func signals() (stop, reload chan os.Signal) {
	stop, reload = make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(stop, StopSignals...)
	if len(reloadSignals) > 0 { // without any, Notify would relay all
		signal.Notify(reload, reloadSignals...)
	}
	return stop, reload
}

// open serves clients on the listener, and on the socket that the configuration
// names, if any.
func (d *daemon) open(ctx context.Context, listener net.Listener) error {
	cfg := d.hub.Config()
	bounded := func(l net.Listener) net.Listener {
		users := withUsers(l, func() config.Clients { return d.hub.Config().Clients }, d.parts.Log)
		users.turned = d.turnedAway
		return d.gateway.Listener(users)
	}
	tcp := bounded(listener)
	if cfg.TLS.CertFile != "" {
		certs, err := newCertificates(func() config.TLS { return d.hub.Config().TLS }, d.keepCertificate, d.parts.Log)
		if err != nil {
			_ = listener.Close() // nobody was served
			return err
		}
		tcp = tls.NewListener(tcp, certs.config())
	}
	var socket net.Listener
	if cfg.ListenUnix != "" {
		var err error
		if socket, err = listenUnix(ctx, cfg.ListenUnix); err != nil {
			_ = listener.Close() // nobody was served
			return err
		}
	}
	keys, cancel := context.WithTimeout(ctx, keysWait)
	defer cancel()
	d.parts.entrance.LoadKeys(keys)
	d.running.Go(func() { d.parts.entrance.Run(d.base, d.gateway.Recheck) }) // ends with d.base
	d.server = d.newServer(d.endpoint())
	d.server.ConnContext = identified
	d.serveOn(d.server, tcp)
	if socket != nil {
		d.serveOn(d.server, bounded(socket))
	}
	return nil
}

// keysWait is how long the start waits for the keys of issuers.
const keysWait = 3 * time.Second

// hostsOf are the names under which the endpoint may be reached: those that were
// asked for, and that of its public address.
func hostsOf(c *config.Config, asked []string) []string {
	if u, err := url.Parse(c.PublicURL); err == nil && u.Hostname() != "" {
		return append(slices.Clone(asked), u.Hostname())
	}
	return asked
}

// endpoint is what clients reach: the gateway, and the health of everline.
func (d *daemon) endpoint() http.Handler {
	routes := []gateway.Route{
		{Pattern: "GET /healthz", Serve: d.api.Healthz, Open: true},
		{Pattern: "GET /startupz", Serve: d.api.Startupz, Open: true},
		{Pattern: "GET /readyz", Serve: d.readyz},
		{Pattern: "GET /metrics", Serve: d.serveMetrics, Open: true},                  // which asks for a token of its own
		{Pattern: callbackPath, Serve: d.hub.LoginCallback().ServeHTTP, Public: true}, // an issuer's page leads here
		{Pattern: "GET " + entrance.Metadata, Serve: d.parts.entrance.ServeMetadata, Public: true},
	}
	return d.withPage(d.gateway.Handler(routes...))
}

const callbackPath = "/oauth/callback"

// redirectURI is where a browser reaches the login callback of a listener: at the
// public address, or on this machine; "" if it does not. A certificate need not be
// for an address of this machine, so that an encrypted listener has no other.
func redirectURI(a net.Addr, c *config.Config) string {
	if strings.HasPrefix(c.PublicURL, "https://") {
		return c.PublicURL + callbackPath
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok || c.TLS.CertFile != "" || !tcp.IP.IsLoopback() && !tcp.IP.IsUnspecified() {
		return ""
	}
	host := "127.0.0.1"
	if tcp.IP.IsLoopback() && tcp.IP.To4() == nil {
		host = "[::1]"
	}
	return "http://" + host + ":" + strconv.Itoa(tcp.Port) + callbackPath
}

// A Stdio is what ServeStdio speaks MCP on.
type Stdio struct {
	In    io.Reader
	Out   io.Writer
	Group string // "" for all servers
}

// ServeStdio runs a whole gateway for one client, until its input or ctx ends, or
// a signal comes.
func ServeStdio(ctx context.Context, found Loaded, o Options, s Stdio) error {
	if !joinChain(found.Files) {
		return gateway.ServeLoop(s.In, s.Out)
	}
	ctx, end := signal.NotifyContext(ctx, StopSignals...)
	defer end()
	// Several clients may each start a gateway of their own on the same folder.
	// The first one has it, socket and all; the others keep nothing on disk,
	// because none may depend on another that ends with its client.
	p := parts{Options: o, found: found}
	if socket, err := admin.Listen(found.source.StateDir); err == nil {
		defer func() { _ = socket.Close() }() // the program ends with it
		p.socket, p.stateDir = socket, found.source.StateDir
	} else {
		o.Log.Warn("running without a state folder", "cause", err)
	}
	d, err := start(ctx, p)
	if err != nil {
		return err
	}
	logWarnings(o.Log, found.Config.Warnings)
	d.watchFiles()
	served := serveGroup(ctx, d.gateway, s)
	force, now := signal.NotifyContext(context.Background(), os.Interrupt)
	defer now()
	if err := d.close(force); err != nil && served == nil {
		o.Log.Warn("not everything ended in order", "cause", err)
	}
	return served
}

// serveGroup serves one client from the whole catalog, or from a group.
func serveGroup(ctx context.Context, g *gateway.Gateway, s Stdio) error {
	if s.Group != "" {
		if g = g.Group(s.Group); g == nil {
			return &fault.Fault{
				Kind: fault.NotFound, Op: "serve", Err: fmt.Errorf("the configuration has no group %q", s.Group), Remedy: "everline config shows the groups",
			}
		}
	}
	return g.ServeStdio(ctx, s.In, s.Out)
}
