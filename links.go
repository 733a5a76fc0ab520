package everline

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
)

// links remembers which server has handed out a URI: what a result links to
// need not be listed (server/tools, "Resource Links"). It forgets the oldest.
type links struct {
	mu            sync.Mutex // guards what follows; nothing waits under it
	recent, older map[link]string
	size          int // bytes of the URIs in recent
}

// A link is a URI as one client knows it; client is 0 for what anybody was given.
type link struct {
	client uint64
	uri    string
}

// maxLinkBytes is how much of URIs is remembered at least; at most twice as much.
const maxLinkBytes = 1 << 20

// note remembers the links of what a server has sent to a client.
func (l *links) note(server string, client uint64, content []byte) {
	for uri := range catalog.Links(content) {
		l.mu.Lock()
		l.putLocked(link{0, uri}, server)
		if client != 0 {
			l.putLocked(link{client, uri}, server)
		}
		l.mu.Unlock()
	}
}

func (l *links) putLocked(key link, server string) {
	if l.recent[key] == server {
		return
	}
	if l.size >= maxLinkBytes || l.recent == nil {
		l.older, l.recent, l.size = l.recent, map[link]string{}, 0
	}
	l.recent[key] = server
	l.size += len(key.uri) + 64
}

// server returns which server has handed out the URI last, to the client and to
// anybody; "" if that is not known.
func (l *links) server(client uint64, uri string) (to, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	find := func(key link) string {
		if s, ok := l.recent[key]; ok {
			return s
		}
		return l.older[key]
	}
	if client != 0 {
		to = find(link{client, uri})
	}
	return to, find(link{0, uri})
}

// codeOfPython is what servers of the Python SDK give to each of their errors.
const codeOfPython = 0

// hasNot tells whether a server has said that it does not have a resource.
func hasNot(f *fault.Fault) bool {
	if f.Kind == fault.Unsupported {
		return true
	}
	if f.RPC == nil {
		return false
	}
	switch f.RPC.Code {
	case mcp.CodeResourceNotFound, mcp.CodeInvalidParams, mcp.CodeMethodNotFound, codeOfPython:
		return true
	default:
		return false
	}
}

// guessLimit is how long one of several servers that may have a resource can
// keep the others waiting.
const guessLimit = 10 * time.Second

// owners returns who may have the resource that a call is about, best first; nil
// if it is about none. sure tells that the first one has claimed it.
func (h *Hub) owners(source catalogSource, c *Call) (all []catalog.Target, sure bool) {
	switch {
	case c.Server != "":
		return nil, false
	case c.Method == mcp.ResourcesRead, c.Method == mcp.ResourcesSubscribe, c.Method == mcp.ResourcesUnsubscribe:
	case c.Method == mcp.CompletionComplete && catalog.RefersToResource(c.Params):
	default:
		return nil, false
	}
	return h.ownersOf(source, c.Name, clientOf(c))
}

func (h *Hub) ownersOf(source catalogSource, uri string, client uint64) (all []catalog.Target, sure bool) {
	table := source.Catalog()
	lister := h.Catalog().Lister(uri)
	if lister != "" && table.Lister(uri) == "" && !source.restricted() {
		return nil, false // it belongs to a server that the client's view does not have
	}
	to, last := h.links.server(client, uri)
	return table.Owners(uri, to, last)
}

func clientOf(c *Call) uint64 {
	if c.Client == nil {
		return 0
	}
	return c.Client.ID()
}

// askEach asks one server after the other until one has the resource. The answer
// of the best one counts if none has. Unless the best one is sure, nobody waits
// for a server that is away or slow while another one may have it: such a server
// is asked behind all others.
func (h *Hub) askEach(ctx context.Context, all []catalog.Target, sure bool, ask func(context.Context, catalog.Target) error) error {
	var first *fault.Fault
	var later *catalog.Target
	for i, t := range all {
		s, guess := h.fleet.Slot(t.Server), i > 0 || !sure
		if guess && s != nil && s.View().Away() {
			later = cmp.Or(later, &all[i])
			continue
		}
		f, slow := askOne(ctx, t, guess && len(all) > 1, ask)
		switch {
		case f == nil:
			return nil
		case slow:
			later = cmp.Or(later, &all[i])
		case ctx.Err() != nil || !hasNot(f):
			return f
		}
		first = cmp.Or(first, f)
	}
	if later != nil {
		return ask(ctx, *later)
	}
	return first
}

// askOne asks one server, in a limited time if others may come behind it.
func askOne(ctx context.Context, t catalog.Target, limited bool, ask func(context.Context, catalog.Target) error) (f *fault.Fault, slow bool) {
	if !limited {
		return fault.From("", ask(ctx, t)), false
	}
	short, cancel := context.WithTimeout(ctx, guessLimit)
	defer cancel()
	f = fault.From("", ask(short, t))
	return f, f != nil && f.Kind == fault.Deadline && ctx.Err() == nil
}
