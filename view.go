package everline

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/upstream"
)

// A view is the part of a hub that one client sees at one endpoint: all servers, or
// those of a group; of these what policies grant; all of their tools, or two that find
// and call them. What that is follows the configuration that is applied, so a view
// outlives reloads. What it does not have is unknown through it: it is not listed,
// called, read, completed or heard of. Package gateway gets one by package door.
type view struct {
	hub   *Hub
	group string         // "": all servers
	who   policy.Subject // nil: who may do everything

	made atomic.Pointer[made]
}

// made is the table of a view for one table of the hub and one configuration. Views
// of the same group and policies share it.
type made struct {
	from   *Catalog
	cfg    *config.Config
	scope  *scope
	table  *Catalog // what is listed and found
	finder func() *catalog.Finder
}

// scope is what the configuration says of a view.
type scope struct {
	exists  bool
	search  bool
	servers []string      // nil: all
	may     *policy.Scope // nil: nothing is granted
}

// Server tells whether a view has a server; with Whole and Tool it is what
// catalog.Filter asks.
func (s *scope) Server(server string) bool {
	return s.may != nil && (s.servers == nil || slices.Contains(s.servers, server)) && s.may.Server(server)
}

// Whole tells whether a view has all that a server has.
func (s *scope) Whole(server string) bool { return s.Server(server) && s.may.Whole(server) }

// Tool tells whether a view has a tool.
func (s *scope) Tool(server, name string, readOnly bool) bool {
	return s.Server(server) && s.may.Tool(server, name, readOnly)
}

func init() {
	door.View = func(h any, group string, who policy.Subject) any { return &view{hub: h.(*Hub), group: group, who: who} }
	door.Stuck = func(ctx context.Context, h any) []string { return h.(*Hub).fleet.Stuck(ctx) }
	door.Counts = func(h any) map[string]meter.Counts { return h.(*Hub).counts() }
	door.Record = func(o any, r tracing.Recorder) { o.(*Options).recorder = r }
}

// Exists tells whether the configuration that is applied has the view's group: for
// who sees none of its servers it has not.
func (v *view) Exists() bool { return v.now().scope.exists }

// May is what policies grant now; nil for nothing.
func (v *view) May() *policy.Scope { return v.now().scope.may }

// Catalog is what the view publishes now.
func (v *view) Catalog() *Catalog { return v.now().table }

// Decide is what policies say of a request with a method: for a server and what the
// server calls by this name, or, for "", for what a client does, whether or not the
// view has that.
func (v *view) Decide(method, server, name string) policy.Decision {
	m := v.now()
	target, known := Target{Server: server, Name: name}, server != ""
	switch method {
	case mcp.ToolsCall:
		if server != "" {
			name, _ = m.from.Exposed(Tools, server, name) // "" has no tool
		}
		if found, ok := m.from.Tool(name); ok {
			target, known = found, true
		}
	case mcp.PromptsGet:
		if found, ok := m.from.Prompt(name); ok && server == "" {
			target, known = found, true
		}
	case mcp.ResourcesRead:
		if found, ok := m.from.Resource(name); ok && server == "" {
			target, known = found, true
		}
	}
	if !known {
		return policy.Decision{}
	}
	tool := ""
	if method == mcp.ToolsCall {
		tool = target.Name
	}
	d := m.scope.may.Decide(target.Server, tool, target.ReadOnly)
	if d.Allowed && !m.scope.Server(target.Server) {
		return m.scope.may.Refused(policy.ReasonGroup)
	}
	return d
}

// CatalogFor is Catalog for the calls of a session, which may be nil: a client that is
// served in its own era sees what its server lists there.
func (v *view) CatalogFor(s *Session) *Catalog { return v.nowFor(s).table }

func (v *view) now() *made {
	from, cfg := v.hub.Catalog(), v.hub.Config()
	if m := v.made.Load(); m != nil && m.from == from && m.cfg == cfg {
		return m
	}
	m := v.hub.views.make(v.group, v.who, from, cfg, nil)
	v.made.Store(m)
	return m
}

// Warnings are those of the configuration that is applied, and of what only the
// lists of the servers show of it: globs of policies that match no tool.
func (h *Hub) Warnings() []config.Warning {
	cfg := h.Config()
	return slices.Concat(cfg.Warnings, policy.Unmatched(cfg, func(server string) (names []string, known bool) {
		s := h.fleet.Slot(server)
		if s == nil || s.View().Catalog == nil {
			return nil, false
		}
		for _, item := range s.View().Catalog.Items[Tools] {
			names = append(names, item.Name)
		}
		return names, true
	}))
}

func (v *view) nowFor(s *Session) *made {
	base := v.hub.Catalog()
	from := v.hub.fleet.TableFor(s, base)
	if from == base {
		return v.now()
	}
	return v.hub.views.make(v.group, v.who, from, v.hub.Config(), s)
}

// A sessionView is a view for one session.
type sessionView struct {
	*view
	session *Session
}

func (v sessionView) Catalog() *Catalog { return v.CatalogFor(v.session) }

// views makes what views show, once for all of the same group and policies.
type views struct {
	mu    sync.Mutex // guards the rest; makes one at a time; nothing waits under it
	of    *config.Config
	rules *policy.Rules // of that configuration
	made  map[viewKey]*made
}

type viewKey struct {
	group, policies string
	session         *Session // that has a table of its own; else nil
}

// maxViews bounds what is kept, which is made again where it is asked for.
const maxViews = 64

func (vs *views) make(group string, who policy.Subject, from *Catalog, cfg *config.Config, session *Session) *made {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.of != cfg {
		vs.of, vs.rules = cfg, policy.New(cfg)
	}
	may := vs.rules.For(who)
	key := viewKey{group, may.Name(), session}
	old := vs.made[key]
	if old != nil && old.from == from && old.cfg == cfg {
		return old
	}
	if vs.made == nil {
		vs.made = map[viewKey]*made{}
	}
	for other := range vs.made {
		if old != nil || len(vs.made) < maxViews {
			break
		}
		delete(vs.made, other)
	}
	m := build(newScope(group, may, cfg, old), from, cfg, old)
	vs.made[key] = m
	return m
}

// newScope is what cfg says of a view; that of before where cfg is the same.
func newScope(group string, may *policy.Scope, cfg *config.Config, old *made) *scope {
	if old != nil && old.cfg == cfg {
		return old.scope
	}
	if group == "" {
		return &scope{exists: true, search: cfg.Expose == config.ExposeSearch, may: may}
	}
	g, ok := cfg.Group(group)
	s := &scope{exists: ok, search: g.Expose == config.ExposeSearch, servers: append([]string{}, g.Servers...), may: may}
	s.exists = ok && (may == policy.Everything || slices.ContainsFunc(g.Servers, s.Server))
	return s
}

func build(s *scope, from *Catalog, cfg *config.Config, old *made) *made {
	m := &made{from: from, cfg: cfg, scope: s, table: from}
	var last, whole *Catalog
	if old != nil {
		last = old.table
		whole = last.Whole()
	}
	if s.servers != nil || s.may != policy.Everything {
		m.table = from.Only(s, whole)
	}
	if !s.search {
		return m
	}
	all := m.table
	if old != nil && old.finder != nil && whole.Hash(Tools) == all.Hash(Tools) {
		m.finder = old.finder // outage marks do not move tools
	} else {
		m.finder = sync.OnceValue(func() *catalog.Finder { return catalog.NewFinder(all) })
	}
	var names []string
	for _, s := range cfg.Servers {
		if m.scope.Server(s.Name) && !s.Disabled {
			names = append(names, s.Name)
		}
	}
	m.table = all.WithTools(catalog.SearchTools(names), last)
	return m
}

// Do is Hub.Do for what the view has.
func (v *view) Do(ctx context.Context, c *Call) (Answer, error) {
	if f := v.hub.check(c); f != nil {
		return Answer{}, v.hub.refused(c, slot.Waited{}, f)
	}
	m := v.nowFor(c.Session)
	if c.Method == mcp.ToolsCall && m.scope.search && c.Server == "" {
		switch c.Name {
		case catalog.SearchTool:
			began := time.Now()
			found := m.search(c.Params)
			v.hub.settle(c, event.CallFacts{Method: c.Method, Name: c.Name, Began: began, Took: time.Since(began), ParamBytes: len(c.Params), Bytes: len(found)})
			return Answer{Result: found}, nil
		case catalog.CallTool:
			return v.callFound(ctx, c)
		}
	}
	if c.Target != nil && m.scope.Server(c.Target.Server) {
		return v.hub.send(ctx, *c.Target, c, slot.Waited{})
	}
	if c.Server != "" && !m.scope.Server(c.Server) {
		return Answer{}, v.hub.refused(c, slot.Waited{}, fault.New(fault.NotFound, c.Method, "no server is called "+c.Server))
	}
	if c.Server != "" && c.Name == "" && !m.scope.Whole(c.Server) {
		return Answer{}, v.hub.refused(c, slot.Waited{}, fault.New(fault.Unsupported, c.Method, "nobody serves "+c.Method+" for this client")) // who knows what it does
	}
	return v.hub.find(ctx, v.of(c.Session), c)
}

// of is where the names of a session's calls are looked up.
func (v *view) of(s *Session) catalogSource {
	if s == nil {
		return v
	}
	return sessionView{v, s}
}

func (v *view) has(server string) bool { return v.now().scope.Server(server) }

func (v *view) restricted() bool { return v.now().scope.may != policy.Everything }

// search answers a call of the search tool.
func (m *made) search(params []byte) []byte {
	query, limit, err := catalog.ReadSearch(params)
	if err != nil {
		return catalog.Text(err.Error(), true)
	}
	whole := m.table.Whole()
	var lines [][]byte
	for _, i := range m.finder().Find(query, limit) {
		lines = append(lines, whole.Listed(Tools, i))
	}
	if len(lines) == 0 {
		return catalog.Text("No tool matches. Try other or fewer words.", false)
	}
	return catalog.Text(string(bytes.Join(lines, []byte{'\n'})), false)
}

// callFound makes the call that a call of the call tool stands for.
func (v *view) callFound(ctx context.Context, c *Call) (Answer, error) {
	name, params, err := catalog.ReadCall(c.Params)
	if err != nil {
		text := catalog.Text(err.Error(), true)
		v.hub.settle(c, event.CallFacts{Method: c.Method, Name: c.Name, Result: event.CallToolError, Began: time.Now(), ParamBytes: len(c.Params), Bytes: len(text)})
		return Answer{Result: text}, nil
	}
	inner := *c
	inner.Name, inner.Params, inner.Target = name, params, nil
	answer, err := v.hub.find(ctx, v.of(c.Session), &inner)
	if errors.Is(err, &fault.Fault{Kind: fault.NotFound}) {
		return Answer{Result: catalog.Text("No tool is called "+name+". Find its name with "+catalog.SearchTool+".", true)}, nil
	}
	return answer, err
}

// SubscribeFor is Hub.Subscribe for the resources that the view has, and for a
// session, whose own generation is asked where the server's isolation says that
// it has one.
func (v *view) SubscribeFor(ctx context.Context, session *Session, uri string, fn func(params []byte)) (cancel func(), err error) {
	return v.hub.subscribeIn(ctx, v.of(session), session, uri, fn)
}

// WatchTask asks a server for the updates of a task until cancel is called, over
// all generations of the server; id is the server's own. fn gets the params of each
// notification and must not block. A server of 2025-11-25 tells of all its
// tasks unasked; one of the tasks extension need not tell of any.
func (v *view) WatchTask(ctx context.Context, session *Session, server, id string, fn func(params []byte)) (cancel func(), err error) {
	if f := v.hub.closed("tasks"); f != nil {
		return nil, f
	}
	if !v.has(server) {
		return nil, fault.New(fault.NotFound, "tasks", "no server is called "+server)
	}
	return v.hub.fleet.Subscribe(ctx, session, server, upstream.TaskPrefix+id, onlyIf(v, server, fn))
}

// Notify writes a notification of the call's client to the generation that its server has
// for the session alone, and waits for nothing else. It is a fault, with the outcome
// NotSent, that there is none now: a server would take what one client says on a connection that
// many share for what all say, and might ask another one in return.
func (v *view) Notify(ctx context.Context, c *Call) error {
	if f := v.hub.closed(c.Method); f != nil {
		return f
	}
	if !v.has(c.Server) {
		return fault.New(fault.NotFound, c.Method, "no server is called "+c.Server)
	}
	own := v.hub.fleet.Own(c.Server, c.Session)
	if own == nil {
		f := fault.New(fault.Unavailable, c.Method, "the server has no generation for this client alone")
		f.Server, f.Outcome = c.Server, fault.NotSent
		return f
	}
	return own.Notify(ctx, c.Method, c.Params)
}

// onlyIf is fn as long as a source has the server, of which fn hears.
func onlyIf(source catalogSource, server string, fn func(params []byte)) func(params []byte) {
	return func(params []byte) {
		if source.has(server) {
			fn(params)
		}
	}
}

// KeepResults is how long a server wants the outcomes of its tool calls to be
// kept for clients that lost their connection; 0: not at all.
func (v *view) KeepResults(server string) time.Duration {
	s := v.hub.fleet.Slot(server)
	if s == nil {
		return 0
	}
	return s.View().Server.KeepResults
}

// WaitFirst lets the very first list of a hub that has just been opened be
// complete: it waits for servers that have never had a catalog, until
// config.FirstListWait after Open. Later it returns immediately.
func (v *view) WaitFirst(ctx context.Context) { v.hub.fleet.WaitFirst(ctx) }

// OnChange calls fn after what the view publishes has changed, with the kinds
// whose lists differ. fn must not block. cancel ends it.
func (v *view) OnChange(fn func(kinds []Kind)) (cancel func()) {
	var mu sync.Mutex // guards last, and orders the calls of fn
	var last *Catalog
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		next := v.Catalog()
		kinds := catalog.Changed(last, next)
		last = next
		if len(kinds) > 0 {
			fn(kinds)
		}
	}
	mu.Lock()
	ends := []func(){
		add(&v.hub.notifier, &v.hub.notifier.changes, func([]Kind) { look() }),
		add(&v.hub.notifier, &v.hub.notifier.applies, look),
		add(&v.hub.notifier, &v.hub.notifier.says, func(server string, kinds []Kind) {
			if v.has(server) {
				fn(kinds)
			}
		}),
	}
	last = v.Catalog() // after the registration, or a change in between would wait for the next one
	mu.Unlock()
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// OnLog is Hub.OnLog for the servers that the view has.
func (v *view) OnLog(fn func(server string, params []byte)) (cancel func()) {
	return v.hub.OnLog(func(server string, params []byte) {
		if v.has(server) {
			fn(server, params)
		}
	})
}

// SetLevel asks for log messages on behalf of the view's clients. Servers are
// asked for the most talkative level that any view wants.
func (v *view) SetLevel(level string) { v.hub.setLevel(v, level) }

// viewLevels are the levels that the views ask for.
type viewLevels struct {
	mu    sync.Mutex       // guards wants
	wants map[*view]string // the hub's own has nil
}

func (h *Hub) setLevel(who *view, level string) {
	l := &h.levels
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wants == nil {
		l.wants = map[*view]string{}
	}
	l.wants[who] = level
	if level == "" {
		delete(l.wants, who)
	}
	levels := mcp.Levels[1:]
	lowest := len(levels)
	for _, want := range l.wants {
		if i := slices.Index(levels, want); i >= 0 {
			lowest = min(lowest, i)
		}
	}
	if lowest == len(levels) {
		h.fleet.SetLevel("")
		return
	}
	h.fleet.SetLevel(levels[lowest]) // does not wait
}
