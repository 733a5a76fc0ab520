// Package gosdk lets programs that use the official Go SDK talk to a hub: as a
// transport of its client, and as a list of its tools. It keeps no state of
// its own, and nothing in everline depends on it.
package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/endpoint"
	"github.com/everline/everline/fault"
)

// Transport connects a client of the SDK to the hub in memory. What the client
// sees is what it would see at the binary's endpoint: every server's tools under
// one name each, calls that outlive the restart of a server, and failures in
// words that a model can read. Each Connect is a client of its own. The hub must
// outlive the sessions.
func Transport(hub *everline.Hub) mcp.Transport { return &transport{hub} }

type transport struct{ hub *everline.Hub }

// closeLimit is how long a closed session waits for what it has in flight.
const closeLimit = 5 * time.Second

// Connect opens one session. Its end ends everything that it started.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	near, far := net.Pipe()
	conn, err := (&mcp.IOTransport{Reader: near, Writer: near, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	c := &connection{Connection: conn, endpoint: endpoint.New(t.hub, endpoint.Options{})}
	c.serving.Go(func() { // ends with the pipe: Close closes it and waits
		c.err = c.endpoint.ServeStdio(context.Background(), far, far)
	})
	return c, nil
}

type connection struct {
	mcp.Connection
	endpoint *endpoint.Endpoint
	serving  sync.WaitGroup
	err      error // of serving; valid once it has ended
	once     sync.Once
}

// Close ends the session: what is in flight is given up.
func (c *connection) Close() error {
	err := c.Connection.Close()
	c.once.Do(func() {
		c.serving.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		err = errors.Join(err, c.endpoint.Close(ctx))
	})
	return err
}

// Tools are the tools that the hub lists now, as the SDK describes them, under
// their published names. A definition that the SDK cannot hold is left out, and
// named in the error beside the others.
func Tools(hub *everline.Hub) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	var errs []error
	for t := range hub.Tools() {
		def := new(mcp.Tool)
		if err := json.Unmarshal(t.Raw, def); err != nil {
			errs = append(errs, &fault.Fault{Kind: fault.Protocol, Op: "tools", Server: t.Server, Err: err})
			continue
		}
		def.Name = t.Name
		all = append(all, def)
	}
	return all, errors.Join(errs...)
}
