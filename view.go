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
	"github.com/everline/everline/internal/upstream"
)

// A view is the part of a hub that one endpoint serves: all servers, or those
// of a group; all of their tools, or two that find and call them. What that is
// follows the configuration that is applied, so a view outlives reloads. What
// it does not have cannot be called, read or heard through it. Package gateway
// gets one by package door.
type view struct {
	hub   *Hub
	group string // "": all servers

	made atomic.Pointer[made]
	mu   sync.Mutex // makes one at a time; nothing waits under it
}

// made is the table of a view for one table of the hub and one configuration.
type made struct {
	from   *Catalog
	cfg    *config.Config
	scope  scope
	table  *Catalog // what is listed and found
	finder func() *catalog.Finder
}

// scope is what the configuration says of a view.
type scope struct {
	exists  bool
	search  bool
	servers []string // nil: all
}

func (s scope) has(server string) bool { return s.servers == nil || slices.Contains(s.servers, server) }

func init() {
	door.View = func(h any, group string) any { return &view{hub: h.(*Hub), group: group} }
	door.Stuck = func(ctx context.Context, h any) []string { return h.(*Hub).fleet.Stuck(ctx) }
	door.Counts = func(h any) map[string]meter.Counts { return h.(*Hub).counts() }
}

// Exists tells whether the configuration that is applied has the view's group.
func (v *view) Exists() bool { return v.scope(v.hub.Config()).exists }

func (v *view) scope(cfg *config.Config) scope {
	if v.group == "" {
		return scope{exists: true, search: cfg.Expose == config.ExposeSearch}
	}
	g, ok := cfg.Group(v.group)
	return scope{exists: ok, search: g.Expose == config.ExposeSearch, servers: append([]string{}, g.Servers...)}
}

// Catalog is what the view publishes now.
func (v *view) Catalog() *Catalog { return v.now().table }

func (v *view) now() *made {
	from, cfg := v.hub.Catalog(), v.hub.Config()
	if m := v.made.Load(); m != nil && m.from == from && m.cfg == cfg {
		return m
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.made.Load()
	if old != nil && old.from == from && old.cfg == cfg {
		return old
	}
	m := v.build(from, cfg, old)
	v.made.Store(m)
	return m
}

func (v *view) build(from *Catalog, cfg *config.Config, old *made) *made {
	m := &made{from: from, cfg: cfg, scope: v.scope(cfg), table: from}
	var last, whole *Catalog
	if old != nil {
		last = old.table
		whole = last.Whole()
	}
	if m.scope.servers != nil {
		m.table = from.Only(m.scope.has, whole)
	}
	if !m.scope.search {
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
		if m.scope.has(s.Name) && !s.Disabled {
			names = append(names, s.Name)
		}
	}
	m.table = all.WithTools(catalog.SearchTools(names), last)
	return m
}

// Do is Hub.Do for what the view has.
func (v *view) Do(ctx context.Context, c *Call) (Answer, error) {
	if f := v.hub.check(c); f != nil {
		return Answer{}, v.hub.refused(c, f)
	}
	m := v.now()
	if c.Method == mcp.ToolsCall && m.scope.search && c.Server == "" {
		switch c.Name {
		case catalog.SearchTool:
			began := time.Now()
			found := m.search(c.Params)
			v.hub.settle(event.CallFacts{Method: c.Method, Name: c.Name, Began: began, Took: time.Since(began), ParamBytes: len(c.Params), Bytes: len(found)})
			return Answer{Result: found}, nil
		case catalog.CallTool:
			return v.callFound(ctx, c)
		}
	}
	if c.Target != nil && m.scope.has(c.Target.Server) {
		return v.hub.send(ctx, *c.Target, c)
	}
	if c.Server != "" && !m.scope.has(c.Server) {
		return Answer{}, v.hub.refused(c, fault.New(fault.NotFound, c.Method, "no server is called "+c.Server))
	}
	return v.hub.find(ctx, v, c)
}

func (v *view) has(server string) bool { return v.now().scope.has(server) }

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
		return Answer{Result: catalog.Text(err.Error(), true)}, nil
	}
	inner := *c
	inner.Name, inner.Params, inner.Target = name, params, nil
	answer, err := v.hub.find(ctx, v, &inner)
	if errors.Is(err, &fault.Fault{Kind: fault.NotFound}) {
		return Answer{Result: catalog.Text("No tool is called "+name+". Find its name with "+catalog.SearchTool+".", true)}, nil
	}
	return answer, err
}

// SubscribeFor is Hub.Subscribe for the resources that the view has, and for a
// session, whose own generation is asked where the server's isolation says that
// it has one.
func (v *view) SubscribeFor(ctx context.Context, session *Session, uri string, fn func(params []byte)) (cancel func(), err error) {
	return v.hub.subscribeIn(ctx, v.Catalog(), session, uri, fn)
}

// WatchTask asks a server for the updates of a task until cancel is called, over
// all generations of the server; id is the server's own. fn gets the params of each
// notification and must not block. A server of 2025-11-25 tells of all its
// tasks unasked; one of the tasks extension need not tell of any.
func (v *view) WatchTask(ctx context.Context, session *Session, server, id string, fn func(params []byte)) (cancel func(), err error) {
	if f := v.hub.closed("tasks"); f != nil {
		return nil, f
	}
	return v.hub.fleet.Subscribe(ctx, session, server, upstream.TaskPrefix+id, fn)
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
		if v.now().scope.has(server) {
			fn(server, params)
		}
	})
}

// SetLevel asks for log messages on behalf of the view's clients. Servers are
// asked for the most talkative level that any view wants.
func (v *view) SetLevel(level string) { v.hub.setLevel("view "+v.group, level) }

// viewLevels are the levels that the views ask for.
type viewLevels struct {
	mu    sync.Mutex // guards wants
	wants map[string]string
}

func (h *Hub) setLevel(who, level string) {
	l := &h.levels
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wants == nil {
		l.wants = map[string]string{}
	}
	l.wants[who] = level
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
