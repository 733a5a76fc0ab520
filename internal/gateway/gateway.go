// Package gateway is the endpoint toward MCP clients: sessions, streams, both
// protocol eras, and the one table from faults to JSON-RPC errors. It knows no
// server: everything that it serves comes from a Backend, and params and
// results pass through it as raw bytes.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/sessions"
)

// Backend is what the endpoint needs of a hub; *everline.Hub is one. Its
// methods are called by many goroutines at once.
type Backend interface {
	// Do sends one request to the server that owns its name and returns the
	// answer, or a *fault.Fault.
	Do(ctx context.Context, c *everline.Call) (everline.Answer, error)
	// Catalog is what is published now. It does not wait.
	Catalog() *everline.Catalog
	// WaitFirst waits, within the hub's own bound, for the very first catalogs.
	WaitFirst(ctx context.Context)
	// SubscribeFor asks for the updates of a resource, of the session's own life
	// where there is one, until cancel is called; fn gets the params of each
	// notification and does not block.
	SubscribeFor(ctx context.Context, of *everline.Session, uri string, fn func(params []byte)) (cancel func(), err error)
	// WatchTask asks a server for the news of one of its tasks until cancel is
	// called; fn gets the params of each notification and does not block.
	WatchTask(ctx context.Context, of *everline.Session, server, id string, fn func(params []byte)) (cancel func(), err error)
	// OnChange calls fn, which does not block, after what is published changed.
	OnChange(fn func(kinds []everline.Kind)) (cancel func())
	// OnLog calls fn, which does not block, with each notifications/message.
	OnLog(fn func(server string, params []byte)) (cancel func())
	// SetLevel asks all servers for log messages from this level on; "" for
	// none. It does not wait.
	SetLevel(level string)
}

// Options make a Gateway. The zero value works and serves loopback names only.
type Options struct {
	Name, Version string // serverInfo; "everline" and "devel" by default
	// Instance is the name under which the hub behind the endpoint shakes hands
	// with servers: the endpoint is none of them. "": that is not looked at.
	Instance string

	// Hosts are names, besides the loopback ones, under which the endpoint may
	// be reached: "gw.example.com", with ":port" to allow that port alone.
	// "*" allows every name.
	Hosts []string
	// Origins are web origins, besides the endpoint's own, whose pages may use the
	// endpoint: "https://app.example.com", "http://localhost:6274". "*" allows
	// every origin.
	Origins []string

	MaxBody      int64         // bytes of one message from a client; 64 MiB
	MaxBodies    int64         // bytes of all messages over HTTP that are being read or served; 256 MiB
	MaxPeer      int           // connections from one address; 8,192. See Listener
	MaxSSE       int           // open streams of HTTP+SSE; 1,000
	MaxSessions  int           // legacy sessions; 10,000
	MaxListens   int           // subscriptions/listen streams over HTTP; 10,000
	MaxInFlight  int           // requests at a time on one stdio or HTTP+SSE connection; 1,024
	SessionIdle  time.Duration // a legacy session without a request or a stream ends after this; 30 min
	KeepAlive    time.Duration // silence on a stream after which a comment is sent; 15 s
	ReadTimeout  time.Duration // how long a client may take to send a body; 60 s
	WriteTimeout time.Duration // how long a client may take to read what is sent to it; 30 s. See Listener
	ListTTL      time.Duration // how long modern clients may cache a list; 0: not at all

	// Group returns what /mcp/<name> serves, nil if there is no such endpoint;
	// it does not wait. The first Backend of a name is kept. May be nil.
	Group func(name string) Backend

	// Keep says how long the outcomes of a server's tool calls are kept for
	// clients that lost their connection; nil or 0: not at all.
	Keep func(server string) time.Duration

	// Sessions keeps the sessions of clients beyond the end of this endpoint; the
	// caller closes it after the endpoint. nil: a session ends with the endpoint.
	Sessions *sessions.Store

	// Warn hears of panics in a request, with the stack; may be nil. It must
	// not block.
	Warn func(text string)
}

func (o Options) filled() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.SessionIdle, 30*time.Minute)
	def(&o.KeepAlive, 15*time.Second)
	def(&o.ReadTimeout, time.Minute)
	def(&o.WriteTimeout, 30*time.Second)
	if o.Name == "" {
		o.Name = "everline"
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 64 << 20
	}
	if o.MaxBodies <= 0 {
		o.MaxBodies = bodyBudget
	}
	if o.MaxPeer <= 0 {
		o.MaxPeer = 8192
	}
	if o.MaxSSE <= 0 {
		o.MaxSSE = 1000
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 10_000
	}
	if o.MaxListens <= 0 {
		o.MaxListens = 10_000
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 1024
	}
	return o
}

// A Gateway serves MCP clients from one Backend. It has no goroutine of its
// own; a request runs on the goroutine that its transport gives it.
type Gateway struct {
	backend   Backend
	opts      Options
	info      []byte // serverInfo, encoded
	envs      [len(listMembers)]listEnvelope
	guard     guard
	lists     *stream.ListVersions
	levels    levels
	table     sessionTable
	inflight  inflight
	inputs    inputs
	peers     peers
	listens   atomic.Int64 // open streams of subscriptions/listen over HTTP
	results   results
	tasks     task.Table
	responses stream.ResponseStore
	offered   atomic.Pointer[offered]
	groups    groups
	shared    *shared

	endpoint   string // the group's name; "" for all
	background background

	stop     chan struct{} // closed by Close: streams end in order
	stopOnce sync.Once
	unhook   [2]func()
}

// shared is what an endpoint counts together with those of its groups.
type shared struct {
	bodies budget
	sse    atomic.Int64 // open streams of HTTP+SSE
}

// New returns a gateway on b. The caller must Close it.
func New(b Backend, opts Options) *Gateway {
	opts = opts.filled()
	return newGateway("", b, opts, &shared{bodies: budget{limit: opts.MaxBodies}})
}

func newGateway(endpoint string, b Backend, opts Options, sh *shared) *Gateway {
	g := &Gateway{backend: b, opts: opts, shared: sh, endpoint: endpoint, stop: make(chan struct{})}
	g.background.init()
	g.info = implementation(g.opts.Name, g.opts.Version)
	g.guard = newGuard(g.opts.Hosts, g.opts.Origins)
	g.levels.set = b.SetLevel
	g.envs = listEnvelopes(g.info, g.opts.ListTTL)
	g.inputs.sealer = newSealer()
	g.lists = stream.NewListVersions()
	g.inflight.init(g.results.awaited)
	g.table.init(g.opts.MaxSessions, g.opts.SessionIdle)
	g.unhook = [2]func(){b.OnChange(g.changed), b.OnLog(g.forwardLog)}
	return g
}

// Close refuses new requests, ends the streams in order, and waits for the
// requests that are in flight until ctx ends; those that are left then are
// canceled and answered with what is known about them. It is idempotent. The
// error tells how many had to be canceled.
func (g *Gateway) Close(ctx context.Context) error {
	g.stopOnce.Do(func() {
		close(g.stop)
		for _, cancel := range g.unhook {
			cancel()
		}
	})
	parts := make(chan error, 1)
	go func() { parts <- g.groups.close(ctx) }() // ends with ctx; waited for below
	err := g.inflight.drain(ctx)
	g.inputs.close()
	g.background.close()
	g.table.close()
	g.tasks.Close()
	g.responses.Close()
	return errors.Join(err, <-parts)
}

// changed announces what is published now.
func (g *Gateway) changed(kinds []everline.Kind) {
	var lists stream.Lists
	for _, k := range kinds {
		lists |= listsOfKinds[k]
	}
	g.lists.Publish(lists)
}

// listsOfKinds are the lists that the kinds of items are in, for clients.
var listsOfKinds = map[everline.Kind]stream.Lists{
	everline.Tools: stream.Tools, everline.Prompts: stream.Prompts, everline.Resources: stream.Resources, everline.Templates: stream.Resources,
}

func (g *Gateway) closing() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// A Route is one path of an endpoint, as http.ServeMux takes it.
type Route struct {
	Pattern string
	Serve   http.HandlerFunc
}

// Handler serves /mcp for Streamable HTTP of both eras, /sse and /messages for
// clients of HTTP+SSE, the same below /groups/<group> for each group, and
// further routes. /mcp/<group> is the older name of /groups/<group>/mcp. Origin
// and Host are checked on every route. The server must be one of Server, and
// accept its connections from Listener.
func (g *Gateway) Handler(more ...Route) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", g.serveMCP)
	mux.HandleFunc("/mcp/{group}", g.ofGroup((*Gateway).serveMCP))
	mux.HandleFunc("/groups/{group}/mcp", g.ofGroup((*Gateway).serveMCP))
	for prefix, of := range map[string]func(func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc{
		"": g.ofAll, "/groups/{group}": g.ofGroup,
	} {
		mux.HandleFunc(prefix+"/sse", only(http.MethodGet, of((*Gateway).serveSSE)))
		messages := only(http.MethodPost, of((*Gateway).serveMessages))
		mux.HandleFunc(prefix+"/messages", messages)
		mux.HandleFunc(prefix+"/sse/messages", messages) // of a client that was given "/sse/"
	}
	for _, r := range more {
		mux.HandleFunc(r.Pattern, r.Serve)
	}
	mux.HandleFunc("/{$}", g.serveRoot)
	mux.HandleFunc("/", g.lost)
	return g.unread(g.guard.wrap(tidy(mux)))
}

// only refuses all other methods: HEAD as well, which is a GET to a ServeMux, and
// would open a session.
func only(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	}
}

// errPanic is why a request ends whose code panicked.
var errPanic = fault.New(fault.Internal, "serve", "a panic")

// guarded calls fn, and returns errPanic if it panics: that ends the request
// whose goroutine this is, and not the process.
func (g *Gateway) guarded(what string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.panicked(what, p)
			err = errPanic
		}
	}()
	fn()
	return nil
}

func (g *Gateway) panicked(what string, p any) {
	if g.opts.Warn != nil {
		g.opts.Warn(fmt.Sprintf("panic in %s: %v\n%s", what, p, debug.Stack()))
	}
}

// exchange returns the exchange of a message, for its transport to complete. It
// is here that a tool is looked up, once.
func (g *Gateway) exchange(m *message.Message) *exchange {
	x := &exchange{Message: m, name: m.Fields.Meta.Session}
	if m.Method != mcp.ToolsCall {
		return x
	}
	name, _ := m.ItemName()
	x.target, _ = g.backend.Catalog().Tool(name)
	if x.known() && g.opts.Keep != nil {
		x.keep = g.opts.Keep(x.target.Server)
	}
	return x
}

// rescue turns a panic of this request into its answer; the others go on.
func (g *Gateway) rescue(x *exchange, a *message.Answer) {
	p := recover()
	if p == nil {
		return
	}
	g.panicked(x.Method, p)
	*a = x.Failure(errPanic)
}
