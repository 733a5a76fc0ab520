package upstream

import (
	"context"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/transport"
)

// Options say which server to start and who hears from it. The func fields
// are called on the reader's goroutine and must not block; nil is allowed.
type Options struct {
	Server  config.Server
	Gen     uint64
	Name    string // our own name and version, for clientInfo
	Version string
	Era     Era // what an earlier generation found; zero if unknown. Tried first, and found anew if it is no longer true

	Changed   func(catalog.Kind)              // a list_changed arrived, or notifications may have been lost
	Announced func(catalog.Kind)              // a list_changed arrived; before Changed
	Updated   func(uri string, params []byte) // notifications/resources/updated
	Log       func(params []byte)             // notifications/message, the whole params
	Stderr    func(line string)
	Pinged    func(answered bool)              // a server that was silent was asked for a sign of life
	Modern    func()                           // the probe was answered after the handshake went on without it: the next generation may be modern
	Spawned   func(pid int)                    // a process was started; a handshake may use up two
	Linked    func(info func() transport.Info) // a link is open, likewise; info describes it as it is when it is called
	Failed    func(Era, []Phase)               // the start has failed, and this is how far it came

	// Asked: a modern server has asked its client in the way of the older
	// versions, over a connection on which that can be seen.
	Asked func()

	// Owner is the one client that the generation is for: what the server says by
	// itself goes there. nil: the generation is shared, and only calls have clients.
	Owner Client
	// Capabilities are what initialize declares: a raw object. nil: nothing for the
	// Owner; of a shared generation, what everline serves for whoever calls.
	Capabilities []byte

	// Faults can break the server's links on purpose; may be nil.
	Faults *transport.Injector

	// Open opens a transport to Server. Required.
	Open func(context.Context, transport.Kind, transport.Options) (transport.Conn, error)
}

// A Client is who a call is made for. What the server asks and logs during the
// call goes there, and nowhere else. Its methods are called by many goroutines
// at once.
type Client interface {
	// ID tells clients apart: see door.NewClientID.
	ID() uint64
	// Ask puts a request of the server to the client and returns the raw
	// result. Every error is a *fault.Fault: kind RPC is the client's own
	// error, Unsupported a request that the client has not declared to serve;
	// methods of extensions come as well.
	// It returns when ctx ends.
	Ask(ctx context.Context, method string, params []byte) ([]byte, error)
	// Notify gets notifications that belong to the call: notifications/message,
	// those of extensions, and notifications/elicitation/complete, which may come
	// later. It must not block.
	Notify(method string, params []byte)
}
