package everline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/fleet"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/statelock"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/upstream"
)

// A Hub keeps one supervised connection to every configured server. All its
// methods may be called by many goroutines at a time.
type Hub struct {
	fleet    *fleet.Fleet
	lock     *statelock.Lock // of the state folder; nil if there is none
	notifier notifier
	levels   viewLevels
	views    views
	links    links
	nowhere  *meter.Server // counts the calls that no server was meant by
	observe  func(event.CallFacts)
}

// Open starts a hub for the servers of cfg. It returns immediately: servers come
// up behind it, and their last good catalogs are listed from the start. The
// caller must Close the hub. ctx bounds nothing but Open itself. A state folder
// that another hub uses, of this process or another, is refused with kind
// Conflict, and names it; a Config that cannot be meant with kind Invalid.
func Open(ctx context.Context, cfg *config.Config, opts Options) (*Hub, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From("open", err)
	}
	if opts.Name == "" {
		opts.Name = "everline"
	}
	if opts.Version == "" {
		opts.Version = moduleVersion()
	}
	if f := cfg.Check(); f != nil {
		return nil, f
	}
	pins, err := fleet.ReadPins(cfg)
	if err != nil {
		return nil, err
	}
	lock, err := lockState(opts)
	if err != nil {
		return nil, err
	}
	h := &Hub{lock: lock, nowhere: meter.New(), observe: opts.Observe}
	h.notifier.emit = opts.Emit
	h.fleet = fleet.New(cfg, fleet.Options{
		StateDir:       opts.StateDir,
		CredentialsDir: cmp.Or(opts.CredentialsDir, opts.StateDir),
		CredentialsKey: opts.CredentialsKey,
		Pins:           pins,
		Name:           opts.Name,
		Version:        opts.Version,
		RoundTripper:   opts.RoundTripper,
		Browser:        opts.Browser,
		RedirectURI:    func() string { return opts.RedirectURI },
		Emit:           h.notifier.event,
		Observe:        opts.Observe,
		Recorder:       opts.recorder,
		Changed:        h.notifier.changed,
		Announced:      h.notifier.announced,
		Log:            h.notifier.logged,
		Warn:           opts.Warn,
	})
	return h, nil
}

// lockState makes the state folder this hub's alone. A folder that cannot be
// locked is used all the same: it may be full, or on a file system without locks.
func lockState(opts Options) (*statelock.Lock, error) {
	if opts.StateDir == "" {
		return nil, nil
	}
	err := os.MkdirAll(opts.StateDir, 0o700)
	if err == nil {
		var lock *statelock.Lock
		if lock, err = statelock.Take(opts.StateDir, statelock.Hub, opts.Name); err == nil {
			return lock, nil
		}
	}
	if fault.KindOf(err) == fault.Conflict {
		return nil, err
	}
	if opts.Warn != nil {
		opts.Warn("", "the state folder "+opts.StateDir+" is not locked: "+err.Error())
	}
	return nil, nil
}

// moduleVersion is what the build knows of itself: the module's version where
// everline is a dependency or was installed, "devel" elsewhere.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if info.Main.Path == modulePath && info.Main.Version != "" {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == modulePath {
			return d.Version
		}
	}
	return "devel"
}

const modulePath = "github.com/everline/everline"

// Catalog is the merged table that is published now: one atomic load.
func (h *Hub) Catalog() *Catalog { return h.fleet.Table() }

// Config is the configuration that is applied now.
func (h *Hub) Config() *config.Config { return h.fleet.Config() }

// Call sends one request to the server that owns its name and returns the raw
// result. While the server is away the call waits for it as long as that can
// help. Every error is a *fault.Fault: Kind RPC holds the server's own error,
// and Outcome says what is known about the execution of any other.
func (h *Hub) Call(ctx context.Context, c *Call) ([]byte, error) {
	a, err := h.Do(ctx, c)
	return a.Result, err
}

// Do is Call that also says which server has answered.
func (h *Hub) Do(ctx context.Context, c *Call) (Answer, error) {
	if f := h.check(c); f != nil {
		return Answer{}, h.refused(c, slot.Waited{}, f)
	}
	if c.Target != nil {
		return h.send(ctx, *c.Target, c, slot.Waited{})
	}
	return h.find(ctx, h, c)
}

// check is what is wrong with a call, whatever client it is for; nil if it is well.
func (h *Hub) check(c *Call) *fault.Fault {
	if f := h.closed(c.Method); f != nil {
		return f
	}
	return (&upstream.Call{Method: c.Method, Params: c.Params, Capabilities: c.Capabilities}).Check()
}

// A catalogSource is where a client looks names up: the hub, or a view of it.
type catalogSource interface {
	Catalog() *Catalog
	has(server string) bool
	restricted() bool // by policies: then nothing of what the source has not is looked at, so that it cannot be told from what does not exist
}

func (h *Hub) has(string) bool { return true }

func (h *Hub) restricted() bool { return false }

// find sends a call to where its name belongs in this source.
func (h *Hub) find(ctx context.Context, source catalogSource, c *Call) (Answer, error) {
	if all, sure := h.owners(source, c); len(all) > 0 {
		var answer Answer
		err := h.askEach(ctx, all, sure, func(ctx context.Context, t catalog.Target) (err error) {
			answer, err = h.send(ctx, t, c, slot.Waited{})
			return err
		})
		return answer, err
	}
	t, f := h.target(source, c)
	var before slot.Waited
	if f != nil {
		if before, f = h.learn(ctx, f); f == nil {
			t, f = h.target(source, c)
		}
	}
	if f != nil {
		return Answer{}, h.refused(c, before, f)
	}
	return h.send(ctx, t, c, before)
}

// refused counts a call that was sent to no server, and returns why.
func (h *Hub) refused(c *Call, before slot.Waited, f *fault.Fault) error {
	kept := *f
	kept.Outcome = fault.NotSent
	facts := event.CallFacts{
		Method: c.Method, Name: c.Name, Result: event.ResultOf(&kept), Kind: f.Kind, Began: before.Began, Waited: before.For(), ParamBytes: len(c.Params),
	}
	if facts.Began.IsZero() {
		facts.Began = time.Now()
	} else {
		facts.Took = time.Since(facts.Began)
	}
	if f.Kind != fault.NotFound && h.fleet.Slot(f.Server) != nil { // what is not there was meant for none
		facts.Server = f.Server
	}
	h.settle(c, facts)
	return f
}

// exposedOf is the published name by which a call came; "" if it named its server.
func exposedOf(c *Call) string {
	if c.Server == "" && (c.Method == mcp.ToolsCall || c.Method == mcp.PromptsGet) {
		return c.Name
	}
	return ""
}

// settle counts a call that no server's slot has seen, for the server that it was
// meant for.
func (h *Hub) settle(c *Call, f event.CallFacts) {
	f.By, f.Client = c.By, clientOf(c)
	m := h.nowhere
	if f.Server != "" {
		m = cmp.Or(h.fleet.Meter(f.Server), m)
	}
	m.Call(&f)
	if h.observe != nil {
		h.observe(f)
	}
	if c.Observe != nil {
		c.Observe(f)
	}
}

// counts are what was counted until now; see door.Counts.
func (h *Hub) counts() map[string]meter.Counts {
	all := h.fleet.Counts()
	all[""] = h.nowhere.Read()
	return all
}

// closed is the fault of whatever is asked of a hub that has been closed; nil
// before Close.
func (h *Hub) closed(op string) *fault.Fault {
	if !h.fleet.Closed() {
		return nil
	}
	f := fault.New(fault.Closed, op, "the hub is closed")
	f.Outcome = fault.NotSent
	return f
}

// send sends a call to where it goes. before is how it has waited already.
func (h *Hub) send(ctx context.Context, t catalog.Target, c *Call, before slot.Waited) (Answer, error) {
	s, release, err := h.fleet.At(ctx, t.Server, c.Session)
	if err != nil {
		return Answer{}, h.refused(c, before, fault.From(c.Method, err))
	}
	if release != nil {
		defer release()
	}
	var facts *event.CallFacts
	if c.Observe != nil {
		facts = new(event.CallFacts)
	}
	got, err := s.CallGen(ctx, c.Generation, callAs(t, c), t.Replay, before, facts)
	if c.Observe != nil {
		c.Observe(*facts)
	}
	if release == nil && c.Session != nil && h.fleet.Asked(t.Server, c.Session, &got, err) && slot.Harmless(c.Method, t.Replay, t.Hints) {
		return h.send(ctx, t, c, slot.Waited{}) // in the client's own era
	}
	if err != nil {
		return Answer{}, err
	}
	if got.URIs && h.Catalog().Several() {
		h.links.note(t.Server, clientOf(c), got.Raw)
	}
	answer := Answer{Result: got.Raw, Server: t.Server, Generation: got.Gen, Spent: got.Spent, Mortal: got.Mortal}
	if release != nil {
		answer.Client = c.Session.Client.ID()
	}
	return answer, nil
}

// callAs is a call as its server is to get it.
func callAs(t catalog.Target, c *Call) *upstream.Call {
	return &upstream.Call{
		Method:       c.Method,
		Name:         t.Name,
		Sent:         t.Sent,
		Params:       c.Params,
		Headers:      t.Headers,
		Progress:     c.Progress,
		LogLevel:     c.LogLevel,
		Task:         c.Task && t.Tasks.ByClient(),
		Client:       c.Client,
		By:           c.By,
		Exposed:      exposedOf(c),
		Capabilities: c.Capabilities,
	}
}

// target finds where a call goes: a pure lookup in the client's table.
func (h *Hub) target(source catalogSource, c *Call) (catalog.Target, *fault.Fault) {
	table := source.Catalog()
	name, ok := c.Name, true
	if c.Server != "" && strings.HasPrefix(c.Method, "tasks/") {
		return catalog.Target{Server: c.Server, Name: c.Name}, nil
	}
	if c.Server != "" {
		if name, ok = exposed(table, c); !ok && c.Method != mcp.ToolsCall && c.Method != mcp.PromptsGet {
			return catalog.Target{Server: c.Server, Name: c.Name}, nil // a request about no item
		}
	}
	var t catalog.Target
	if ok {
		t, ok = lookUp(table, c, name)
	}
	if !ok {
		return t, h.unknown(source, c)
	}
	return t, nil
}

// unknown says why a name is not found: its server is disabled, has never been
// up, or there is no such name. What belongs to servers that the source does not
// have is as unknown as if they did not exist.
func (h *Hub) unknown(source catalogSource, c *Call) *fault.Fault {
	server := c.Server
	if server == "" && (c.Method == mcp.ToolsCall || c.Method == mcp.PromptsGet) {
		if server, _ = source.Catalog().Server(c.Name); !source.has(server) {
			server = ""
		}
	}
	f := fault.New(fault.NotFound, c.Method, "nothing here is called "+c.Name)
	f.Server, f.Outcome = server, fault.NotSent
	s := h.fleet.Slot(server)
	if s == nil {
		return f
	}
	switch v := s.View(); {
	case v.Seen().Off():
		f.Kind, f.Err, f.Remedy = fault.Disabled, errors.New("the server is disabled"), v.Remedy()
	case v.Catalog == nil:
		f.Kind, f.Err = fault.Unavailable, fmt.Errorf("the server is %s and has not said yet what it offers", v.Seen())
	case c.Method == mcp.ToolsCall && h.withholds(server):
		f.Err, f.Remedy = errors.New("nothing that is approved is called "+c.Name), "everline tools diff "+server
	}
	return f
}

// learn waits for what a name that is not found may still become: its server
// is starting for the first time, or everline itself has just been started. It
// is nil if looking again can help.
func (h *Hub) learn(ctx context.Context, unknown *fault.Fault) (before slot.Waited, f *fault.Fault) {
	s := h.fleet.Slot(unknown.Server)
	switch {
	case unknown.Kind == fault.Unavailable && s != nil:
		var err error
		if before, err = s.Wait(ctx); err != nil {
			return before, fault.From(unknown.Op, err)
		}
	case unknown.Kind == fault.NotFound && s == nil && h.fleet.Pending():
		h.fleet.WaitFirst(ctx)
	default:
		return before, unknown
	}
	return before, fault.From(unknown.Op, h.fleet.Flush(ctx))
}

func lookUp(table *Catalog, c *Call, name string) (catalog.Target, bool) {
	switch {
	case c.Method == mcp.ToolsCall:
		return table.Tool(name)
	case c.Method == mcp.PromptsGet, c.Method == mcp.CompletionComplete && !catalog.RefersToResource(c.Params):
		return table.Prompt(name)
	default:
		return table.Resource(name)
	}
}

// exposed finds the published name of what a server itself calls c.Name.
func exposed(table *Catalog, c *Call) (string, bool) {
	kind := Tools
	if c.Method != mcp.ToolsCall {
		kind = Prompts
	}
	return table.Exposed(kind, c.Server, c.Name)
}

// Subscribe asks for the updates of a resource until cancel is called, over all
// generations of its server. fn gets the params of each notification, in order,
// and one more after a generation was replaced; it must not block.
func (h *Hub) Subscribe(ctx context.Context, uri string, fn func(params []byte)) (cancel func(), err error) {
	return h.subscribeIn(ctx, h, nil, uri, fn)
}

// subscribeIn is Subscribe for what a source has, for a session, whose own
// generation is asked where the server's isolation says that it has one.
func (h *Hub) subscribeIn(ctx context.Context, source catalogSource, session *Session, uri string, fn func(params []byte)) (cancel func(), err error) {
	if f := h.closed(mcp.ResourcesSubscribe); f != nil {
		return nil, f
	}
	all, sure := h.ownersOf(source, uri, clientIn(session))
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, mcp.ResourcesSubscribe, "no server has the resource "+uri)
	}
	err = h.askEach(ctx, all, sure, func(ctx context.Context, t catalog.Target) (err error) {
		cancel, err = h.fleet.Subscribe(ctx, session, t.Server, uri, onlyIf(source, t.Server, func(params []byte) {
			h.links.note(t.Server, clientIn(session), params) // it may be a part of what was subscribed to
			fn(params)
		}))
		return err
	})
	return cancel, err
}

func clientIn(session *Session) uint64 {
	if session == nil || session.Client == nil {
		return 0
	}
	return session.Client.ID()
}

// SetLevel asks all servers for log messages from this level on ("debug" to
// "emergency"); "" asks for nothing.
func (h *Hub) SetLevel(level string) { h.setLevel(nil, level) }

// Apply makes cfg the configuration. Only what changed is touched; the plan
// says what that was. It returns once the new catalog is published. Where cfg
// would make a usable server unusable, or a file that it needs is bad, nothing
// is changed, and the fault says where.
func (h *Hub) Apply(ctx context.Context, cfg *config.Config) (config.Plan, error) {
	if f := cfg.Check(); f != nil {
		return config.Plan{}, f
	}
	plan, err := h.fleet.Apply(ctx, cfg)
	h.notifier.reconfigured()
	return plan, err
}

// Enable lets a disabled server run again. Enabling an enabled one changes nothing.
func (h *Hub) Enable(ctx context.Context, server string) error {
	if f := h.closed("enable"); f != nil {
		return f
	}
	return h.fleet.Do(ctx, server, func(ctx context.Context, s *slot.Slot) error { return s.Enable(ctx) })
}

// Disable unpublishes a server and refuses its calls immediately, and ends it
// behind that, whatever closing it does. Disabling a disabled one changes
// nothing.
func (h *Hub) Disable(ctx context.Context, server string) error {
	if f := h.closed("disable"); f != nil {
		return f
	}
	return h.fleet.Do(ctx, server, func(ctx context.Context, s *slot.Slot) error { return s.Disable(ctx) })
}

// Reconnect replaces a server's generation by a new one now, whatever timer runs.
// A disabled server is refused with kind Conflict.
func (h *Hub) Reconnect(ctx context.Context, server string) error {
	if f := h.closed("reconnect"); f != nil {
		return f
	}
	return h.fleet.Do(ctx, server, func(ctx context.Context, s *slot.Slot) error { return s.Reconnect(ctx) })
}

// Await returns when the server is connected by a generation newer than gen, or
// has come to a state that waits for a person, or when ctx ends.
func (h *Hub) Await(ctx context.Context, server string, gen uint64) (Status, error) {
	if f := h.closed("wait"); f != nil {
		return Status{}, f
	}
	s := h.fleet.Slot(server)
	if s == nil {
		return Status{}, fault.New(fault.NotFound, "wait", "no server is called "+server)
	}
	for {
		v := s.View()
		if v.Settled(gen) {
			err := h.fleet.Flush(ctx) // what it offers is published, too
			return h.status(v), err
		}
		select {
		case <-v.Changed:
		case <-ctx.Done():
			st := h.status(v) // what is counted has grown since the view came out
			return st, unsettled(st, ctx.Err())
		}
	}
}

// unsettled is the fault of who waited for a server in vain.
func unsettled(st Status, err error) *fault.Fault {
	f := &fault.Fault{
		Kind: fault.KindOf(err), Op: "wait", Server: st.Name, Gen: st.Generation, State: string(st.State), Remedy: st.Remedy,
	}
	text := "the server is still " + string(st.State)
	if c := st.Cause; c != nil {
		text += ": " + c.Reason()
		f.Exit, f.Stderr = c.Exit, c.Stderr
	}
	f.Err = errors.New(text)
	if !st.Next.IsZero() {
		f.RetryAfter = max(time.Until(st.Next), 0)
	}
	if f.Remedy == "" {
		f.Remedy = "everline status " + typed.Argument(st.Name)
	}
	return f
}

// Close refuses all calls, ends every server, and waits, bounded by ctx. It is
// idempotent, and names what would not stop.
func (h *Hub) Close(ctx context.Context) error {
	err := h.fleet.Close(ctx)
	h.notifier.close()
	h.lock.Release()
	return err
}
