package upstream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

const (
	maxPages      = 1000
	maxItems      = 100_000
	emptyPause    = 500 * time.Millisecond // before an unexpected empty list is asked for again
	lenientWait   = 5 * time.Second        // for a server that lists tools without saying so
	maxTTLSeconds = 365 * 24 * 3600
)

// List fetches the kinds that are named, all if none is, with all their pages;
// others are taken from old, the last good catalog, which may be nil. Kinds
// that the server did not declare are empty and not asked for. A listing that
// never ends counts, as far as it came, only where there is no old one, and a
// server that declares nothing loses its tools only by saying so.
func (u *Upstream) List(ctx context.Context, old *catalog.Catalog, kinds ...catalog.Kind) (*catalog.Catalog, error) {
	out := &catalog.Catalog{
		Instructions: u.hello.instructions,
		ServerInfo:   u.hello.serverInfo,
		Capabilities: u.hello.capabilities,
		At:           time.Now(),
	}
	for _, k := range catalog.Kinds {
		if len(kinds) > 0 && !slices.Contains(kinds, k) {
			if old != nil {
				out.Items[k], out.Warnings[k], out.TTL[k] = old.Items[k], old.Warnings[k], old.TTL[k]
			}
			continue
		}
		p, f := u.listKind(ctx, old, k)
		if f != nil {
			return nil, u.hello.beside(f)
		}
		out.Items[k], out.Warnings[k], out.TTL[k] = p.items, p.warnings, p.ttl
	}
	return out, nil
}

// pages is one complete listing of one kind.
type pages struct {
	items    []catalog.Item
	warnings []string
	ttl      time.Duration
}

// listKind lists one kind. An empty list that nobody expects is asked for a
// second time: some servers answer before they have registered their tools.
func (u *Upstream) listKind(ctx context.Context, old *catalog.Catalog, k catalog.Kind) (pages, *fault.Fault) {
	if !u.listed.lists(k) {
		if k == catalog.Tools {
			return u.listUndeclared(ctx, old), nil
		}
		return pages{}, nil
	}
	had := itemsOf(old, k)
	p, f := u.listPages(ctx, k, had)
	if f != nil {
		return pages{}, f
	}
	first := u.listed.noteKind(k)
	if len(p.items) > 0 || !first || len(had) == 0 && k != catalog.Tools {
		return p, nil
	}
	if f := u.pause(ctx, emptyPause, k.Method()); f != nil {
		return pages{}, f
	}
	return u.listPages(ctx, k, had)
}

func itemsOf(old *catalog.Catalog, k catalog.Kind) []catalog.Item {
	if old == nil {
		return nil
	}
	return old.Items[k]
}

// listUndeclared asks a server that declared nothing at all for its tools.
// A failure means that it has none, unless it had some: it has none any more
// where it does not know the method, and is asked again otherwise.
func (u *Upstream) listUndeclared(ctx context.Context, old *catalog.Catalog) pages {
	if u.listed.source() != unasked || u.declares("prompts") || u.declares("resources") {
		return pages{}
	}
	ctx, cancel := context.WithTimeout(ctx, lenientWait)
	defer cancel()
	p, f := u.listPages(ctx, catalog.Tools, nil)
	found, had := noTools, itemsOf(old, catalog.Tools)
	switch {
	case f == nil:
		found = hasTools
		p.warnings = append(p.warnings, "the server lists tools, but did not declare them")
	case len(had) > 0 && (f.RPC == nil || f.RPC.Code != mcp.CodeMethodNotFound):
		found, p.items = unasked, had
		p.warnings = []string{"the server did not declare tools, and now does not list them: " + f.Reason() + "; the last good list is kept"}
	}
	u.listed.setSource(found)
	return p
}

// listPages reads all pages of one kind. If the server does not know a cursor
// any more, it begins anew, once (server/utilities/pagination).
func (u *Upstream) listPages(ctx context.Context, k catalog.Kind, had []catalog.Item) (pages, *fault.Fault) {
	p, f := u.readPages(ctx, k, had)
	if f == errStaleCursor {
		p, f = u.readPages(ctx, k, had)
	}
	if f == errStaleCursor {
		f = u.blame(k.Method(), fault.New(fault.Protocol, k.Method(), "the server does not know its own cursors"))
	}
	if f != nil {
		return pages{}, f
	}
	var warnings []string
	p.items, warnings = catalog.Unique(k, p.items)
	p.warnings = append(p.warnings, warnings...)
	if k == catalog.Tools && u.era.Modern && u.era.Transport == transport.HTTP {
		p.items, warnings = catalog.DropBadHeaders(p.items)
		p.warnings = append(p.warnings, warnings...)
	}
	return p, nil
}

// errStaleCursor: a page after the first was refused as a bad cursor.
var errStaleCursor = fault.New(fault.Protocol, "", "stale cursor")

func (u *Upstream) readPages(ctx context.Context, k catalog.Kind, had []catalog.Item) (pages, *fault.Fault) {
	var p pages
	var cursor []byte
	seen := map[string]bool{}
	for n := 0; ; n++ {
		next, f := u.readPage(ctx, k, cursor, &p)
		if f != nil {
			return pages{}, f
		}
		if next == nil {
			return p, nil
		}
		bad := ""
		switch {
		case seen[string(next)]:
			bad = "the server names the same next page again"
		case n+1 >= maxPages || len(p.items) >= maxItems:
			bad = "the list does not end"
		}
		if bad != "" {
			return endless(k, p, had, bad), nil
		}
		seen[string(next)] = true
		cursor = next
	}
}

// readPage reads one page into p and returns the cursor of the next, nil if
// this was the last.
func (u *Upstream) readPage(ctx context.Context, k catalog.Kind, cursor []byte, p *pages) ([]byte, *fault.Fault) {
	call := &Call{Method: k.Method()}
	if cursor != nil {
		call.Params = wire.Set(nil, cursor, "cursor")
	}
	msg, f := u.request(ctx, call)
	if f != nil {
		return nil, f
	}
	if msg.Error != nil {
		f := u.doubts.refusal(ctx, k.Method(), msg.Error)
		switch {
		case f.RPC == nil:
			return nil, f
		case f.RPC.Code == mcp.CodeMethodNotFound && k != catalog.Tools && cursor == nil:
			return nil, nil // declared for something else, such as reading by URI
		case f.RPC.Code == mcp.CodeInvalidParams && cursor != nil:
			return nil, errStaleCursor
		}
		return nil, f
	}
	u.listed.note()
	items, next, warnings, err := catalog.ReadSent(k, msg.Result, wire.Get(msg.Sent, "result"))
	if err != nil {
		f := *u.blame(k.Method(), err)
		f.Outcome = fault.Answered
		return nil, &f
	}
	p.items = append(p.items, items...)
	p.warnings = append(p.warnings, warnings...)
	if ttl := readTTL(msg.Result); ttl > 0 && (p.ttl == 0 || ttl < p.ttl) {
		p.ttl = ttl
	}
	return next, nil
}

// endless is what a listing without an end is worth: the last good one, or else
// as much as came.
func endless(k catalog.Kind, p pages, had []catalog.Item, bad string) pages {
	text := "bad pagination in " + k.Method() + ": " + bad
	if len(had) > 0 {
		return pages{items: had, warnings: []string{text + "; the last good list is kept"}, ttl: p.ttl}
	}
	p.warnings = append(p.warnings, text+"; ended after "+strconv.Itoa(len(p.items))+" items")
	return p
}

// readTTL reads ttlMs; 0 if it says nothing (server/utilities/caching).
func readTTL(result []byte) time.Duration {
	ms, ok := wire.Int(wire.Get(result, "ttlMs"))
	if !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxTTLSeconds*1000)) * time.Millisecond
}
