package catalog

import (
	"crypto/sha256"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcp"
)

// A fragment is what one server adds to a table, encoded.
type fragment struct {
	key    fragmentKey
	pieces [len(Kinds)]*piece // nil where the server lists nothing
	offers [len(Kinds)]bool

	// Of one that Only has made.
	from *fragment
	by   Filter
}

// A fragmentKey is all that a fragment depends on.
type fragmentKey struct {
	Entry
	naming Naming
	label  string // "" where names stay as they are
}

func (k fragmentKey) same(o fragmentKey) bool {
	k.Away, o.Away = nil, nil // marks are not part of fragments
	k.Hidden, o.Hidden = false, false
	return k.label == o.label && k.naming == o.naming && k.Same(o.Entry)
}

// A piece is what one server adds to one list. It is never changed.
type piece struct {
	server    string
	replay    config.Replay
	decides   bool // whether a call becomes a task is the server's matter: it has the extension
	all       []Listed
	targets   map[string]Target // tools and prompts, by exposed name
	templates []template        // templates, by item
	sent      map[string][]byte // Item.Sent of resources, by URI, where there is one
	conflicts []Conflict
	text      []byte // the listed items, joined by commas
	ends      []int  // where each listed item ends in text
	hash      [32]byte

	marks atomic.Pointer[marks] // the last text with outage marks
}

type marks struct {
	away *Away
	text []byte
}

func newFragment(key fragmentKey) *fragment {
	f := &fragment{key: key, offers: declared(key.Catalog.Capabilities)}
	for _, k := range Kinds {
		if len(key.Catalog.Items[k]) == 0 {
			continue
		}
		f.offers[k] = true
		p := &piece{server: key.Server, replay: key.Replay}
		switch k {
		case Tools:
			p.name(key, k, key.Rules)
		case Prompts:
			p.name(key, k, config.Tools{})
		default:
			p.keep(key, k)
		}
		p.encode(k)
		f.pieces[k] = p
	}
	return f
}

// declared reads which kinds a server's capabilities speak of.
func declared(capabilities []byte) (has [len(Kinds)]bool) {
	if !json.Valid(capabilities) {
		return has
	}
	o, ok := parseObject(capabilities)
	if !ok {
		return has
	}
	has[Tools] = kindOf(o.get("tools")) == '{'
	has[Prompts] = kindOf(o.get("prompts")) == '{'
	has[Resources] = kindOf(o.get("resources")) == '{'
	has[Templates] = has[Resources]
	return has
}

// A claim is one item that asks for an exposed name.
type claim struct {
	local  local
	hashed bool   // has a hash in its name anyway
	name   string // what it got
}

// name gives tools or prompts their exposed names. Names that need no hash
// are given first and the rest by own name, so that the order in which the
// server lists them decides nothing.
func (p *piece) name(key fragmentKey, k Kind, rules config.Tools) {
	items := key.Catalog.Items[k]
	claims := make(map[string]*claim, len(items))
	order := make([]*claim, 0, len(items))
	for i := range items {
		own := items[i].Name
		if claims[own] != nil || !allowed(rules, own) {
			continue
		}
		c := &claim{local: wanted(rules, own)}
		_, c.hashed = key.naming.expose(key.label, key.Server, c.local, "")
		claims[own] = c
		order = append(order, c)
	}
	slices.SortFunc(order, func(a, b *claim) int {
		if a.hashed != b.hashed {
			if b.hashed {
				return -1
			}
			return 1
		}
		return strings.Compare(a.local.own, b.local.own)
	})
	taken := make(map[string]bool, len(order))
	for _, c := range order {
		c.name = unique(taken, func(salt string) string {
			c.local.contested = c.local.contested || salt != ""
			name, _ := key.naming.expose(key.label, key.Server, c.local, salt)
			return name
		})
	}
	p.publish(key, k, rules, claims)
}

// publish lists the items under the names that they got. An item whose own
// name another one has already is shadowed; Read lets none through.
func (p *piece) publish(key fragmentKey, k Kind, rules config.Tools, claims map[string]*claim) {
	p.targets = make(map[string]Target, len(claims))
	tasks := tasksOf(key.Catalog.Capabilities)
	for _, item := range key.Catalog.Items[k] {
		c := claims[item.Name]
		if c == nil {
			continue // not allowed
		}
		if _, taken := p.targets[c.name]; taken {
			p.conflict(Conflict{Kind: k, Name: item.Name})
			continue
		}
		replay, ok := rules.Replay[item.Name]
		if !ok {
			replay = key.Replay
		}
		p.targets[c.name] = Target{
			Server: key.Server, Name: item.Name, Sent: item.Sent, Hints: item.Hints, Headers: item.Headers, Replay: replay,
			Tasks: tasks(item.Raw),
		}
		p.decides = p.decides || p.targets[c.name].Tasks == TasksDecided
		p.all = append(p.all, Listed{
			Exposed: c.name, Server: key.Server, Item: item, Hidden: matches(rules.Hide, item.Name),
		})
		if c.local.contested {
			p.conflict(Conflict{Kind: k, Name: item.Name, Exposed: c.name})
		}
	}
}

// conflict notes a conflict between two items of this server.
func (p *piece) conflict(c Conflict) {
	c.Server, c.Winner = p.server, p.server
	p.conflicts = append(p.conflicts, c)
}

// keep publishes resources or templates, whose URIs are their names.
func (p *piece) keep(key fragmentKey, k Kind) {
	seen := make(map[string]bool, len(key.Catalog.Items[k]))
	for _, item := range key.Catalog.Items[k] {
		if seen[item.Name] {
			p.conflict(Conflict{Kind: k, Name: item.Name})
			continue
		}
		seen[item.Name] = true
		if item.Sent != nil {
			if p.sent == nil {
				p.sent = map[string][]byte{}
			}
			p.sent[item.Name] = item.Sent
		}
		p.all = append(p.all, Listed{Exposed: item.Name, Server: key.Server, Item: item})
	}
}

// encode makes the text of the list and all that follows from it.
func (p *piece) encode(k Kind) {
	size := 0
	for i := range p.all {
		l := &p.all[i]
		// A decoded name can be longer than its text: broken UTF-8 is.
		size += len(l.Item.Raw) + max(len(l.Exposed)-len(l.Item.Name), 0) + 1
	}
	p.text = make([]byte, 0, size)
	for _, l := range p.all {
		if k == Templates {
			p.templates = append(p.templates, newTemplate(l.Item.Name))
		}
		if l.Hidden {
			continue
		}
		if len(p.ends) > 0 {
			p.text = append(p.text, ',')
		}
		p.text = append(p.text, renamed(l.Item, k, l.Exposed)...)
		p.ends = append(p.ends, len(p.text))
	}
	p.hash = sha256.Sum256(p.text)
}

// without returns the piece without the items of these URIs.
func (p *piece) without(shadowed map[string]bool) *piece {
	q := &piece{server: p.server, replay: p.replay, conflicts: p.conflicts, sent: p.sent}
	begin := 0
	for i, l := range p.all {
		item := p.text[begin:p.ends[i]]
		begin = p.ends[i] + 1
		if shadowed[l.Exposed] {
			continue
		}
		if p.templates != nil {
			q.templates = append(q.templates, p.templates[i])
		}
		if len(q.ends) > 0 {
			q.text = append(q.text, ',')
		}
		q.text = append(q.text, item...)
		q.ends = append(q.ends, len(q.text))
		q.all = append(q.all, l)
	}
	q.hash = sha256.Sum256(q.text)
	return q
}

// only returns the fragment with the tools that a filter lets through. last, which
// may be nil, is what was made of the server's fragment before.
func (f *fragment) only(filter Filter, last *fragment) *fragment {
	if last != nil && last.from == f && last.by == filter {
		return last
	}
	n := &fragment{key: f.key, pieces: f.pieces, offers: f.offers, from: f, by: filter}
	n.pieces[Tools] = f.pieces[Tools].only(func(l Listed) bool { return filter.Tool(l.Server, l.Item.Name, l.Item.ReadOnly) })
	return n
}

// only returns the piece with the named items that are kept, the piece itself if that
// is all of them. What was told apart by a name stays so.
func (p *piece) only(keep func(Listed) bool) *piece {
	q := &piece{server: p.server, replay: p.replay, decides: p.decides, targets: map[string]Target{}}
	begin, listed := 0, 0
	for _, l := range p.all {
		var item []byte
		if !l.Hidden {
			item = p.text[begin:p.ends[listed]]
			begin = p.ends[listed] + 1
			listed++
		}
		if !keep(l) {
			continue
		}
		q.all = append(q.all, l)
		q.targets[l.Exposed] = p.targets[l.Exposed]
		if l.Hidden {
			continue
		}
		if len(q.ends) > 0 {
			q.text = append(q.text, ',')
		}
		q.text = append(q.text, item...)
		q.ends = append(q.ends, len(q.text))
	}
	if len(q.all) == len(p.all) {
		return p
	}
	q.hash = sha256.Sum256(q.text)
	return q
}

// textOf is the text with an outage mark where the server is away.
func (p *piece) textOf(away *Away) []byte {
	if away == nil {
		return p.text
	}
	return p.marked(away)
}

// marked is the text with an outage mark in each item's _meta. The last one
// is kept: lists are read more often than servers change their state.
func (p *piece) marked(away *Away) []byte {
	if m := p.marks.Load(); m != nil && sameAway(m.away, away) {
		return m.text
	}
	mark := away.mark()
	m := &marks{away: away, text: make([]byte, 0, len(p.text)+len(p.ends)*(len(mark)+len(mcp.MetaAvailability)+16))}
	begin := 0
	for i, end := range p.ends {
		if i > 0 {
			m.text = append(m.text, ',')
		}
		m.text = append(m.text, withMeta(p.text[begin:end], mcp.MetaAvailability, mark)...)
		begin = end + 1
	}
	p.marks.Store(m)
	return m.text
}

// mark is the outage mark: {"state":...,"since":...,"cause":...}, the time in
// RFC 3339, the cause left out if it is not known.
func (a *Away) mark() []byte {
	b := append([]byte(`{"state":`), quote(a.State)...)
	b = append(b, `,"since":"`...)
	b = a.Since.UTC().AppendFormat(b, time.RFC3339)
	b = append(b, '"')
	if a.Cause != "" {
		b = append(append(b, `,"cause":`...), quote(a.Cause)...)
	}
	return append(b, '}')
}

// withMeta sets a key of an item's _meta and keeps every other byte.
func withMeta(item []byte, key string, value []byte) []byte {
	o, ok := parseObject(item)
	if !ok {
		return item
	}
	index := o.find("_meta")
	if index < 0 {
		return o.extended("_meta", append(append(append([]byte{'{'}, append(quote(key), ':')...), value...), '}'))
	}
	meta, ok := parseObject(o.members[index].Value)
	if !ok {
		return item
	}
	if i := meta.find(key); i >= 0 {
		return o.replaced(index, meta.replaced(i, value))
	}
	return o.replaced(index, meta.extended(key, value))
}

// renamed is an item's text under its exposed name.
func renamed(item Item, k Kind, exposed string) []byte {
	if item.Name == exposed {
		return item.Raw
	}
	o, ok := parseObject(item.Raw)
	if !ok {
		return item.Raw
	}
	i := o.find(identifier(k))
	if i < 0 {
		return item.Raw
	}
	return o.replaced(i, quote(exposed))
}

// identifier is the member that names an item.
func identifier(k Kind) string {
	return [...]string{"name", "name", "uri", "uriTemplate"}[k]
}

// allowed reports whether the rules publish a tool of that own name.
func allowed(rules config.Tools, own string) bool {
	return !matches(rules.Deny, own) && (len(rules.Allow) == 0 || matches(rules.Allow, own))
}

// matches reports whether one of the globs matches.
func matches(globs []string, own string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return Matches(glob, own) })
}

// Matches reports whether a glob matches a name. A '*' matches slashes too: tool names are
// not paths, and deny: ["*"] must mean all. A glob that is malformed matches itself alone.
func Matches(glob, name string) bool {
	if glob == name || glob == "*" {
		return true
	}
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x1f") }
	ok, err := path.Match(flat(glob), flat(name))
	return err == nil && ok
}
