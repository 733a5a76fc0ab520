package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/tracing"
)

// Backend is what the endpoint needs of a hub: see ViewOf. Its methods are
// called by many goroutines at a time.
type Backend interface {
	// Do sends one request to the server that owns its name and returns the
	// answer, or a *fault.Fault.
	Do(ctx context.Context, c *everline.Call) (everline.Answer, error)
	// Catalog is what is published now. It does not wait.
	Catalog() *everline.Catalog
	// CatalogFor is Catalog for a session, which may be nil: what is served to it by
	// generations of its own era is as they list it. It does not wait.
	CatalogFor(session *everline.Session) *everline.Catalog
	// WaitFirst waits, within the hub's own bound, for the very first catalogs.
	WaitFirst(ctx context.Context)
	// SubscribeFor asks for the updates of a resource, of the session's own
	// generation where there is one, until cancel is called; fn gets the params of each
	// notification and does not block.
	SubscribeFor(ctx context.Context, session *everline.Session, uri string, fn func(params []byte)) (cancel func(), err error)
	// WatchTask asks a server for the news of one of its tasks until cancel is
	// called; fn gets the params of each notification and does not block.
	WatchTask(ctx context.Context, session *everline.Session, server, id string, fn func(params []byte)) (cancel func(), err error)
	// Notify writes a notification to the generation that a server has for the call's
	// session alone; it starts none.
	Notify(ctx context.Context, c *everline.Call) error
	// OnChange calls fn, which does not block, after what is published changed.
	OnChange(fn func(kinds []everline.Kind)) (cancel func())
	// OnLog calls fn, which does not block, with each notifications/message.
	OnLog(fn func(server string, params []byte)) (cancel func())
	// Exists tells whether the configuration has what this is a view of.
	Exists() bool
	// May is what its client is granted now; nil for nothing. It does not wait.
	May() *policy.Scope
	// Decide is what policies say of a request: for a server's own name, or for the
	// name that a client has used where server is "". It does not wait.
	Decide(method, server, name string) policy.Decision
	// SetLevel asks all servers for log messages from this level on; "" for
	// none. It does not wait.
	SetLevel(level string)
}

// An Entrance knows who may come in.
type Entrance interface {
	// Enter is whose a request is, by its connection and its header: the body has
	// not been read. One that is refused has been answered, and nil is returned.
	// The request's context carries the identity from there on; see access.From.
	Enter(w http.ResponseWriter, r *http.Request) *access.Identity
	// Admits tells whether an identity that Enter has returned once would be let in
	// today, whatever has expired since. It does not wait.
	Admits(who *access.Identity) bool
	// NothingGranted adds to the header of a 403 how the client could get an identity
	// that is granted something, if it can. It does not wait.
	NothingGranted(h http.Header, r *http.Request, who *access.Identity)
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
	SessionIdle  time.Duration // a legacy session without a request or a stream is put away after this, and ends with it where Sessions is nil; 30 min
	KeepAlive    time.Duration // silence on a stream after which a comment is sent; 15 s
	ReadTimeout  time.Duration // how long a client may take to send a body; 60 s
	WriteTimeout time.Duration // how long a client may take to read what is sent to it; 30 s. See Listener
	ListTTL      time.Duration // how long modern clients may cache a list; 0: not at all

	// Part returns what an identity has at the address of a group, "" for that of all
	// servers; nil if there is no such group. It does not wait. The first Backend of
	// each is kept. nil: there are no groups, and all identities have the same.
	Part func(group string, who *access.Identity) Backend

	// Entrance says who the requests over HTTP are of. nil: all are of the user that
	// everline runs as, because nobody else reaches the listener. What comes over
	// stdio is that user's.
	Entrance Entrance

	// Watch returns what observes a call with these params: next, unless its arguments
	// are to be seen as well. nil: they never are.
	Watch func(params []byte, next func(event.CallFacts)) func(event.CallFacts)

	// Keep says how long the outcomes of a server's tool calls are kept for
	// clients that lost their connection; nil or 0: not at all.
	Keep func(server string) time.Duration

	// Sessions keeps the sessions of clients beyond the end of this endpoint; the
	// caller closes it after the endpoint. nil: a session ends with the endpoint.
	Sessions *sessions.Store

	// Recorder takes what is recorded of requests; nil: nothing is.
	Recorder tracing.Recorder
	// Audit records what clients do; nil: nothing is recorded.
	Audit *audit.Log

	// Meter counts for the endpoint; nil: one of its own.
	Meter *meter.Endpoint

	// Emit hears of clients that were refused; may be nil. It must not block.
	Emit func(event.Event)

	// Warn hears of panics in a request, with the stack, and of what cannot be kept;
	// may be nil. It must not block.
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
	if o.Meter == nil {
		o.Meter = meter.NewEndpoint()
	}
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
