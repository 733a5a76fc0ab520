// Package endpoint serves a hub to MCP clients: the same endpoint as the
// binary's, within a program. It owns no server and no listener.
package endpoint

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/sessions"
)

// Options make an Endpoint. The zero value works and serves loopback names only.
type Options struct {
	// Name and Version are the serverInfo that clients see; "everline" and
	// "devel" by default.
	Name, Version string
	// Hosts are names, besides the loopback ones, under which the endpoint may
	// be reached: "gw.example.com", with ":port" to allow that port alone.
	Hosts []string
	// Origins are web origins whose pages may use the endpoint:
	// "https://app.example.com".
	Origins []string
	// StateDir is the folder in which sessions of clients outlive the endpoint; it
	// may be that of the hub. "": they end with it.
	StateDir string
	// Warn hears of panics in a request, with the stack, and of what cannot be
	// kept; may be nil. It must not block.
	Warn func(text string)
}

// An Endpoint answers MCP clients of every era from one hub. All its methods
// may be called by many goroutines at a time.
type Endpoint struct {
	gateway  *gateway.Gateway
	sessions *sessions.Store // nil where they end with the endpoint
}

// New returns an endpoint for a hub, which must outlive it. The caller must
// Close it.
func New(hub *everline.Hub, opts Options) *Endpoint {
	warn := opts.Warn
	if warn == nil {
		warn = func(string) {}
	}
	e := &Endpoint{}
	if opts.StateDir != "" {
		var err error
		if e.sessions, err = sessions.OpenStore(opts.StateDir, warn); err != nil {
			warn("sessions end with this endpoint: " + err.Error())
		}
	}
	e.gateway = gateway.ForHub(hub, gateway.Options{
		Name: opts.Name, Version: opts.Version, Hosts: opts.Hosts, Origins: opts.Origins, Warn: opts.Warn, Sessions: e.sessions,
	})
	return e
}

// Handler serves /mcp (Streamable HTTP of every era, 2026-07-28
// basic/transports/streamable-http), /mcp/NAME for each group of the
// configuration, and /sse for clients of HTTP+SSE. Origin and Host are checked
// on every route; who may reach the listener is for the program to decide.
func (e *Endpoint) Handler() http.Handler { return e.gateway.Handler() }

// Listener makes a listener's connections fit for the Handler: a client that
// does not read is cut off instead of waited for.
func (e *Endpoint) Listener(l net.Listener) net.Listener { return e.gateway.Listener(l) }

// ServeStdio serves one client on a pair of streams, a message a line, until
// in ends, out cannot be written to, or ctx or the endpoint ends.
func (e *Endpoint) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return e.gateway.ServeStdio(ctx, in, out)
}

// Close refuses new requests and waits for those in flight until ctx ends;
// what is left then is canceled and answered with what is known about it. It
// is idempotent.
func (e *Endpoint) Close(ctx context.Context) error {
	err := e.gateway.Close(ctx)
	if e.sessions != nil {
		err = errors.Join(err, e.sessions.Close())
	}
	return err
}
