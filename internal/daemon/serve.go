package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
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
	Watch      bool                       // take up changes of the files
	MayServe   func(address string) error // refuses addresses that were not asked for
	Serving    func(url string)           // called once clients are served
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
	if err := e.MayServe(e.Address); err != nil {
		return err
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
	stop, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(stop, StopSignals...)
	if len(reloadSignals) > 0 {
		signal.Notify(reload, reloadSignals...)
	}
	url := "http://" + listener.Addr().String() + "/mcp"
	d, err := start(ctx, parts{
		Options: o, found: found, stateDir: stateDir, socket: socket, endpoint: url, redirect: redirectURI(listener.Addr()), listen: e.Configured, handed: handed, local: loopback(listener.Addr()),
		gateway: gateway.Options{Hosts: e.Hosts, Origins: e.Origins},
	})
	if err != nil {
		listener.Close()
		return err
	}
	if found.Config.Clients == config.ClientsAnyLocal {
		o.Log.Warn("every user of this machine can call every tool: \"clients\" is \"any-local\"")
	}
	own := onlyTheUser(listener, func() config.Clients { return d.hub.Config().Clients }, o.Log)
	d.server = d.serve(d.gateway.Listener(own), d.endpoint())
	if err := d.listenForMetrics(ctx); err != nil {
		o.Log.Error("the metrics have no address of their own", "cause", err)
	}
	if e.Watch {
		d.watchFiles()
	}
	e.Serving(url)
	logWarnings(o.Log, found.Config)
	notifySystemd("READY=1\n" + d.statusLine())
	d.running.Go(d.tellSystemd) // ends with d.base
	return d.untilStopped(ctx, stop, reload)
}

// endpoint is what clients reach: the gateway, and the health of everline.
func (d *daemon) endpoint() http.Handler {
	routes := []gateway.Route{
		{Pattern: "GET /healthz", Serve: d.api.Healthz},
		{Pattern: "GET /startupz", Serve: d.api.Startupz},
		{Pattern: "GET /readyz", Serve: d.api.Readyz},
		{Pattern: "GET /metrics", Serve: d.serveMetrics},
		{Pattern: callbackPath, Serve: d.hub.LoginCallback().ServeHTTP},
	}
	return d.gateway.Handler(routes...)
}

const callbackPath = "/oauth/callback"

// redirectURI is where a browser on this machine reaches the login callback of a
// listener; "" if it does not.
func redirectURI(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() && !tcp.IP.IsUnspecified() {
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
	logWarnings(o.Log, found.Config)
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
