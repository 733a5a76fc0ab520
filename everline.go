// Package everline keeps one supervised connection to every MCP server and
// offers all of them as one: a Hub. It does not listen on anything; the
// endpoint for MCP clients, package endpoint, is built on this API.
package everline

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/fleet"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/upstream"
	"github.com/everline/everline/internal/visible"
)

// Options make a Hub. The zero value works.
type Options struct {
	// StateDir keeps the last good catalogs, so that a restart lists them at
	// once. "": nothing is kept.
	StateDir string
	// CredentialsDir is the folder of the logins to servers, which any number of
	// programs may share. It must be the user's alone. "": StateDir.
	CredentialsDir string
	// CredentialsKey is a file with the key that the logins are encrypted with: 32
	// bytes, or a line for each key in base64 or hex, the one in use first. "": one
	// of systemd's credentials, or of the keyring, or a file beside them.
	CredentialsKey string
	// Name and Version go into clientInfo toward servers; "everline" and the
	// module's version by default.
	Name, Version string
	// RoundTripper changes how a server at a URL is reached: it returns what sends
	// the requests of one generation, most often something that adds headers or a
	// token of the program's own and hands on to base. The context of a request is
	// that of the call that it belongs to, values included, or one of the hub's own
	// for what no call has caused. As with any http.RoundTripper a request is
	// cloned before it is changed, and streams have no end. An error that is a
	// *fault.Fault is passed on as it is; any other is classified by what base has
	// written. nil, and where it returns nil: base.
	RoundTripper func(server string, base http.RoundTripper) http.RoundTripper
	// Browser opens a URL for a person. With it a server that wants a login has one
	// begun by itself, and the call that met that waits for it. nil: nothing is ever
	// opened, and logins begin with Hub.Login or everline auth login.
	Browser func(ctx context.Context, url string) error
	// RedirectURI is where browsers reach Hub.LoginCallback; "": each login listens
	// on a port of its own.
	RedirectURI string
	// Emit receives every event, in order per server; it must not block. May be nil.
	Emit func(event.Event)
	// Observe gets the facts of each call once it has ended, on the goroutine that
	// made it; it must not block. nil: they are counted, and not told.
	Observe func(event.CallFacts)
	// Warn hears of state files that could not be read or written; may be nil.
	Warn func(server, text string)

	recorder tracing.Recorder // see door.Record
}

// A Call is one request of one client to one server.
type Call struct {
	Method string // tools/call, prompts/get, resources/read, completion/complete, or an extension method
	// Name is the exposed name of a tool or prompt, or a resource's URI, and
	// decides where the call goes.
	Name   string
	Params []byte // the raw params object; its name member may still be the exposed one
	// Target is what Catalog found for Name, where the caller has looked already.
	// nil: it is looked up.
	Target *Target
	// Server sends the call to this server whatever Name is, with Name as the
	// server's own. "": Name decides.
	Server string
	// Progress gets the params of progress notifications, in order, with the
	// client's own progressToken; it must not block. Those before the answer
	// come before the call returns; where the call was given up, the last may
	// come as it returns, and those of a task go on with the task. nil: not
	// wanted.
	Progress func(params []byte)
	// LogLevel is the level from which the client wants notifications/message
	// during this call (modern era); "": none.
	LogLevel string
	// Client is who the call is made for: what the server asks and logs during
	// the call goes there, and to no other. nil: its requests are refused, and no
	// other client is asked while it is out on a connection that does not say
	// whose a request is.
	Client Client
	// Session is whose own slot of a server serves the call, where the server's
	// isolation is "session", or the client is of an older revision than the server
	// is spoken to in. nil: the shared one.
	Session *Session
	// Generation makes the call one for this generation alone:
	// another is not asked, and the fault is NotFound. 0: any.
	Generation uint64
	// By is what is known of who makes the call, for whoever observes it. nil: nothing.
	By *event.Caller
	// Observe gets the facts of this call once it has ended, before Do returns: once
	// for each server that is asked, as Options.Observe does. May be nil.
	Observe func(event.CallFacts)
	// Task says that the client takes a task in place of the result of a tool, in the
	// words of 2025-11-25 (basic/utilities/tasks) or of the extension
	// io.modelcontextprotocol/tasks, whichever its server speaks. A server of
	// 2025-11-25 is asked for one where its tool says that it may be called so; for the
	// extension Capabilities must declare it.
	Task bool
	// Capabilities are the client capabilities that a modern server is told of
	// where Params have none in _meta: a raw object. nil: none.
	Capabilities []byte
}

// An Answer is the result of a call, and which generation of which server has
// answered.
type Answer struct {
	Result     []byte // raw, as the server sent it
	Server     string
	Client     uint64 // whose alone the server is; 0: it is shared
	Generation uint64
	Spent      time.Duration // of the call's time, at the server and waiting: the rest is everline's
	Mortal     bool          // what the server remembers ends with this generation
}

// A Client is who a call is made for: it serves what servers ask for during its
// calls (elicitation/create, sampling/createMessage, roots/list), and hears what
// they log. It is an interface whose methods are called by many goroutines at
// once:
//
//	// ID tells clients apart: calls whose clients have the same are of one
//	// client, and where a server does not say whose call a request of its own
//	// belongs to, it gets there only while that client alone has calls in flight.
//	ID() uint64
//	// Ask puts a request of the server to the client and returns the raw
//	// result; methods of extensions come as well. Every error is a *fault.Fault: kind RPC is the client's own
//	// error, Unsupported a request that the client has not declared to serve.
//	// It returns when ctx ends.
//	Ask(ctx context.Context, method string, params []byte) ([]byte, error)
//	// Notify gets notifications that belong to the call: notifications/message,
//	// those of extensions, and notifications/elicitation/complete, which may come
//	// later. It must not block.
//	Notify(method string, params []byte)
//
// NewClient makes one of funcs.
type Client = upstream.Client

// NewClient returns a Client that serves what servers ask for by ask; notify,
// which may be nil, hears what they log. See Client for both.
func NewClient(ask func(ctx context.Context, method string, params []byte) ([]byte, error), notify func(method string, params []byte)) Client {
	return &client{id: door.NewClientID(), ask: ask, notify: notify}
}

type client struct {
	id     uint64
	ask    func(ctx context.Context, method string, params []byte) ([]byte, error)
	notify func(method string, params []byte)
}

func (c *client) ID() uint64 { return c.id }

func (c *client) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	return c.ask(ctx, method, params)
}

func (c *client) Notify(method string, params []byte) {
	if c.notify != nil {
		c.notify(method, params)
	}
}

// A Session is one client between its first call and its end; servers whose
// isolation is "session" have a slot of their own for each, and servers that speak
// both eras one for clients of the older that they can ask. Its fields are
//
//	Client       Client        // gets what its own servers ask and log outside of any call; required
//	Capabilities func() []byte // what the client has declared to serve, a raw object; may be nil
//	Older        func() []byte // the same of a client of the revisions up to 2025-11-25, nil of another; may be nil
//
// Whoever makes one must call its End.
type Session = fleet.Session

// Catalog is the merged, immutable table of all servers, safe for use by many
// goroutines. Array(kind) is the published list as raw JSON, Items(kind) ranges
// over it, Tool, Prompt and Resource find by name or URI, Hash(kind) tells lists
// apart, Instructions is what servers say of themselves, and Conflicts are the
// items that did not get the name that they would have had alone.
type Catalog = catalog.Table

// A Target is where a call goes: see Catalog. Its fields are
//
//	Server  string        // the configured server
//	Name    string        // the server's own name of the tool or prompt; the URI of a resource
//	Headers []HeaderParam // the arguments of a tool that a modern server wants in headers as well
//	Replay  config.Replay // what may be repeated
type Target = catalog.Target

// Listed is one item of a Catalog. Its fields are
//
//	Exposed string // the published name; the URI or URI template of a resource or template
//	Server  string // the configured server that it is of
//	Item    struct // Name, the server's own, and Raw, the object as the server sent it
//	Hidden  bool   // it can be called but is not listed
type Listed = catalog.Listed

// Tokens estimates what so many bytes of definitions cost a model that reads
// them: a token for each 4 bytes.
func Tokens(bytes int) int { return catalog.Tokens(bytes) }

// Visible returns a text in which characters that do not show, or that change
// the order of others, are written out as <U+200B>.
func Visible(s string) string { return visible.Text(s) }

// Kind is a kind of listed item.
type Kind = catalog.Kind

// The four kinds.
const (
	Tools     = catalog.Tools
	Prompts   = catalog.Prompts
	Resources = catalog.Resources
	Templates = catalog.Templates
)

// A Status is what is known about one server now.
type Status struct {
	Name         string
	State        event.State // as in the lifecycle: connected, reconnecting, disconnected, …
	Generation   uint64
	Transport    config.Transport // of the serving generation, else as configured
	PID          int
	URL          string
	Era          Era              // "" if not known yet
	Version      string           // negotiated protocol version
	ServerInfo   ServerInfo       // who the server says that it is, with its last good catalog, as are the next two
	Capabilities json.RawMessage  // what it has declared (2026-07-28 server capabilities); nil: nothing yet
	Instructions string           // what it tells models about itself; "" while pins withhold it
	Counts       [4]int           // by Kind: how many of its items clients see listed
	Offered      [4]int           // by Kind: how many it lists itself; rules, pins and other servers' URIs may keep some from clients
	Tokens       int              // estimate of what its listed tools cost a model that reads them: a token for each 4 bytes
	Handshake    []HandshakePhase // how the serving generation came up, in order; nil if none serves
	CatalogAt    time.Time        // when its catalog was last listed, or found to be still the same; zero: never
	Since        time.Time        // when the state began
	AwaySince    time.Time        // since when no generation serves that should, over all attempts; zero if one does, or none is wanted now
	Next         time.Time        // next attempt; zero if none is due
	Attempt      int              // generations lost in a row since health was last proven
	Cause        *fault.Fault     // nil if all is well
	Out          int              // calls in flight
	Waiting      int              // calls that wait for the server
	Calls        uint64           // calls that have ended since Open, however they did
	Outcomes     Outcomes         // the same by how they ended
	Saved        uint64           // calls that were answered, and had failed without everline: sent again, or parked while the server was away
	Repeated     uint64           // sends beyond the first of a call
	Parked       uint64           // waits of calls for a generation, however they ended
	Starts       uint64           // generations started since Open
	Outage       time.Duration    // for how long the server was away since Open, over all outages and as AwaySince counts one
	P50, P95     time.Duration    // how long the newest 256 answers took, waiting included; 0 if there was none yet
	Noise        uint64           // lines or events that were no messages, skipped: of the serving generation; while the server is away, of the newest start
	LastNoise    string           // the newest of them, cut
	Ignored      uint64           // messages, of the same generation, that meant nothing: notifications that no revision defines, progress of what is over
	StderrRate   float64          // bytes a second that the process writes to stderr, of late
	Warnings     []string
	Origin       config.Origin
	Sessions     []SessionStatus // the slots that not all clients share, by isolation or by eras, the oldest first
	Auth         *Credential     // what it is shown; nil of a command
	Remedy       string          // a command to type; "" if none is needed
}

// Era is which of the two ways of MCP a server speaks.
type Era string

const (
	EraLegacy Era = "legacy" // 2025-11-25 and older: initialize and sessions
	EraModern Era = "modern" // 2026-07-28: stateless
)

// Outcomes are how many calls have ended, by how they did: see event.CallResult.
type Outcomes struct {
	Answered, ToolError, RPCError, NotSent, Unknown, Refused, Canceled uint64
}

// ServerInfo is who a server says that it is (Implementation).
type ServerInfo struct {
	Name, Title, Version string
	Raw                  json.RawMessage `json:"-"` // the whole object; nil if the server did not say
}

// A HandshakePhase is one part of how a generation came up: "spawn" (until its
// process ran), "first byte" (from then until it first answered), "era" (the
// probe for it), "initialize" and "list". Those that it did not go through are
// left out.
type HandshakePhase = upstream.Phase

// A SessionStatus is what is known about the slot of a server that one client has
// for itself, or that clients of an older revision share. Generations count within
// it.
type SessionStatus struct {
	Client     uint64 // the ID of the session's Client; 0: clients share it
	Clients    int    // that have it
	Era        Era    // in which the server is spoken to there, where it is another than elsewhere; "" else
	State      event.State
	Generation uint64
	PID        int
	Since      time.Time    // when the state began
	AwaySince  time.Time    // as in Status
	Out        int          // calls in flight
	Cause      *fault.Fault // nil if all is well
}
