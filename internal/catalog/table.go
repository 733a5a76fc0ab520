package catalog

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcp"
)

// An Entry is what one configured server adds to a table. There is one for
// every configured server, in the order of the configuration, also for those
// that publish nothing: whether names carry a server's name follows from the
// configuration, not from who is up.
type Entry struct {
	Server    string
	Rules     config.Tools // for tools alone; prompts and resources have no rules
	Replay    config.Replay
	Catalog   *Catalog // last good; nil if there never was one
	Away      *Away    // nil: available
	Published bool     // false: disabled; nothing of it is listed or found
	Hidden    bool     // away for too long: nothing of it is listed, but all of it is found
}

// Away says why a server cannot be called just now.
type Away struct {
	State string // as in status: "reconnecting", "failed"
	Since time.Time
	Cause string // "" if not known
}

// A Target is where a request goes.
type Target struct {
	Server string
	Name   string // the server's own name: of the tool or prompt; the URI of a resource
	Sent   []byte // as in Item
	Hints
	Headers []mcp.HeaderParam
	Tasks   Tasks
	Replay  config.Replay // the tool's, where the configuration names it, else the server's
}

// Listed is one item of a table.
type Listed struct {
	Exposed string // the published name; the URI or URI template of a resource or template
	Server  string
	Item    Item
	Hidden  bool // can be called but is not listed
}

// A Conflict is an item that did not get what it asked for because another one
// has it. Nothing is dropped that does not show up here.
type Conflict struct {
	Kind    Kind
	Server  string
	Name    string // the server's own name, URI or URI template
	Exposed string // the name it got instead; "" if it is shadowed: neither listed nor reachable
	Winner  string // the server that has what was asked for
}

// A Table is the merge of all catalogs. It is never changed, and safe for use
// by many goroutines. Arrays and instructions are encoded by the first who
// asks for them. Who is away, hidden or shadowed is decided when it is made.
type Table struct {
	naming    Naming // filled
	entries   []Entry
	fragments []*fragment       // by entry; nil where nothing is published
	only      *fragment         // the only configured server's; nil if there are more
	labels    []string          // by entry; "" if there is one server
	byLabel   map[string]int    // entry by label; nil if there is one server
	lists     [len(Kinds)]*list // by Kind
	lone      int               // the entry that has every resource; -1 if there are several or none
	text      func() string     // instructions, once
	offers    [len(Kinds)]bool  // some published server offers this kind
	conflicts []Conflict
	whole     *Table // see WithTools; nil elsewhere
}

// Tool finds a published or hidden tool by its exposed name, or by another name
// that can only mean it; see alias.
func (t *Table) Tool(exposed string) (Target, bool) { return t.named(Tools, exposed) }

// Prompt finds a prompt in the same way.
func (t *Table) Prompt(exposed string) (Target, bool) { return t.named(Prompts, exposed) }

func (t *Table) named(k Kind, exposed string) (Target, bool) {
	f, i := t.only, t.owner(exposed)
	if i >= 0 {
		f = t.fragments[i]
	}
	if f != nil && f.pieces[k] != nil {
		if target, ok := f.pieces[k].targets[exposed]; ok {
			return target, true
		}
	}
	return t.alias(k, exposed, i)
}

// alias finds what a name that nothing is published under means all the same:
// the only server's, with the label that it would have beside others, or one
// from before a rename. Clients keep names over a change of the configuration. A
// name without a label means none of several servers, whoever is up just now.
func (t *Table) alias(k Kind, name string, owner int) (Target, bool) {
	label := ""
	switch {
	case owner >= 0:
		label = t.labels[owner]
	case len(t.entries) == 1:
		owner, label = 0, t.naming.label(t.entries[0].Server)
	default:
		return Target{}, false
	}
	f := t.fragments[owner]
	if f == nil || f.pieces[k] == nil {
		return Target{}, false
	}
	own := strings.TrimPrefix(name, label+t.naming.Separator)
	for _, l := range f.pieces[k].all {
		if l.Item.Name == own || l.Exposed == own {
			return f.pieces[k].targets[l.Exposed], true
		}
	}
	return Target{}, false
}

// owner is the entry whose label the name begins with; -1 if there is none.
func (t *Table) owner(exposed string) int {
	end := strings.Index(exposed, t.naming.Separator)
	if end < 0 {
		return -1
	}
	if i, ok := t.byLabel[exposed[:end]]; ok {
		return i
	}
	return -1
}

// Exposed returns the published name of a server's own tool or prompt.
func (t *Table) Exposed(k Kind, server, own string) (string, bool) {
	for i := range t.entries {
		f := t.fragments[i]
		if t.entries[i].Server != server || f == nil || f.pieces[k] == nil {
			continue
		}
		for _, l := range f.pieces[k].all {
			if l.Item.Name == own {
				return l.Exposed, true
			}
		}
	}
	return "", false
}

// Definition is the definition of a server's own tool, in the form that pins are made
// of; nil if it is not published.
func (t *Table) Definition(server, own string) []byte {
	for l := range t.Whole().Items(Tools) {
		if l.Server != server || l.Item.Name != own {
			continue
		}
		if form, ok := Canonical(l.Item.Raw); ok {
			return form
		}
		return l.Item.Raw
	}
	return nil
}

// Server returns the configured server that an exposed name of a tool or
// prompt belongs to by its form, whether or not there is such a thing or the
// server is published.
func (t *Table) Server(exposed string) (string, bool) {
	if i := t.owner(exposed); i >= 0 {
		return t.entries[i].Server, true
	}
	if t.byLabel == nil && len(t.entries) == 1 {
		return t.entries[0].Server, true
	}
	return "", false
}

// Resource finds the owner of a URI: the first server that lists it, else the
// first that has a template for it, both in the order of the configuration. A
// URI that nobody claims goes to the only server that has resources, if there
// is only one: servers may serve more than they list. See Owners for others.
func (t *Table) Resource(uri string) (Target, bool) {
	if i, ok := t.lists[Resources].part.owners[uri]; ok {
		return t.resource(t.lists[Resources].part.pieces[i], uri), true
	}
	if target, ok := t.claimed(uri); ok {
		return target, true
	}
	if t.lone >= 0 {
		e := &t.entries[t.lone]
		return Target{Server: e.Server, Name: uri, Replay: e.Replay}, true
	}
	return Target{}, false
}

// claimed finds the owner of a URI that nobody lists: by a template, or a server
// whose lists are not shown.
func (t *Table) claimed(uri string) (Target, bool) {
	for _, p := range t.lists[Templates].part.pieces {
		for i := range p.templates {
			if p.templates[i].match(uri) {
				return t.resource(p, uri), true
			}
		}
	}
	return t.hiddenResource(uri)
}

// Several reports whether more than one server is configured.
func (t *Table) Several() bool { return len(t.entries) > 1 }

// Hides reports whether a server's items are not listed because it is away.
func (t *Table) Hides(server string) bool {
	return slices.ContainsFunc(t.entries, func(e Entry) bool { return e.Server == server && e.Hidden && e.Published })
}

// hiddenResource finds the first server that is hidden and has the URI.
func (t *Table) hiddenResource(uri string) (Target, bool) {
	for i, f := range t.fragments {
		if f == nil || !t.entries[i].Hidden {
			continue
		}
		if p := f.pieces[Resources]; p != nil && slices.ContainsFunc(p.all, func(l Listed) bool { return l.Exposed == uri }) {
			return t.resource(p, uri), true
		}
		if p := f.pieces[Templates]; p != nil && slices.ContainsFunc(p.templates, func(m template) bool { return m.match(uri) }) {
			return t.resource(p, uri), true
		}
	}
	return Target{}, false
}

func (t *Table) resource(p *piece, uri string) Target {
	return Target{Server: p.server, Name: uri, Sent: p.sent[uri], Replay: p.replay}
}

// Array is the JSON array of a list result: every listed item as its server
// sent it, under its exposed name, with an outage mark where the server is
// away. The caller must not change it.
func (t *Table) Array(k Kind) []byte { return t.lists[k].array() }

// Len is the number of items in Array.
func (t *Table) Len(k Kind) int { return t.lists[k].part.n }

// Hash identifies what Array shows, but for outage marks: a server that goes
// and comes back with the same catalog changes nothing.
func (t *Table) Hash(k Kind) [32]byte { return t.lists[k].part.hash }

// Has reports whether some published server lists or says that it has this kind.
func (t *Table) Has(k Kind) bool { return t.offers[k] }

// Capabilities yields what each published server has declared, raw, with its name.
func (t *Table) Capabilities() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i, e := range t.entries {
			if t.fragments[i] != nil && len(e.Catalog.Capabilities) > 0 && !yield(e.Server, e.Catalog.Capabilities) {
				return
			}
		}
	}
}

// Instructions are those of all published servers under their names; those of
// an only configured server as they are. "" if there are none.
func (t *Table) Instructions() string { return t.text() }

// Conflicts lists what had to be told apart or is shadowed, by kind and then in the
// order of the configuration. The caller must not change it.
func (t *Table) Conflicts() []Conflict { return t.conflicts }

// Items yields what is published of a kind, hidden tools included, in the
// order of the list.
func (t *Table) Items(k Kind) iter.Seq[Listed] {
	return func(yield func(Listed) bool) {
		for _, p := range t.lists[k].part.pieces {
			for _, l := range p.all {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// instructions joins the servers' instructions.
func (t *Table) instructions() string {
	var b strings.Builder
	for i, f := range t.fragments {
		if f == nil || t.entries[i].Hidden || strings.TrimSpace(f.key.Catalog.Instructions) == "" {
			continue
		}
		if len(t.entries) == 1 {
			return f.key.Catalog.Instructions
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("## " + t.entries[i].Server + "\n\n" + strings.TrimSpace(f.key.Catalog.Instructions))
	}
	return b.String()
}

// A list is one kind of a table, with the marks of servers that are away. It
// is shared by tables as long as nothing in it changes.
type list struct {
	part *part
	away []*Away // by piece
	once sync.Once
	text []byte

	taskOnce sync.Once
	taskText []byte // see TaskArray
}

func (l *list) array() []byte {
	l.once.Do(func() { l.text = l.join((*piece).textOf) })
	return l.text
}

// join is the array of what its pieces add.
func (l *list) join(textOf func(p *piece, away *Away) []byte) []byte {
	size := 2 + len(l.part.pieces)
	for _, p := range l.part.pieces {
		size += len(p.text)
	}
	b := append(make([]byte, 0, size), '[')
	for i, p := range l.part.pieces {
		text := textOf(p, l.away[i])
		if len(b) > 1 && len(text) > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
	}
	return append(b, ']')
}
