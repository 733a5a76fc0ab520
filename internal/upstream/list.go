package upstream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
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

// source is whether a server that declares nothing lists tools nevertheless.
type source uint8

const (
	unasked source = iota
	noTools
	hasTools
)

// List fetches the kinds that are named, all if none is, with all their pages;
// others are taken from old, the last good catalog, which may be nil. Kinds
// that the server did not declare are empty and not asked for. A listing that
// never ends counts, as far as it came, only where there is no old one.
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
				out.Items[k] = old.Items[k]
			}
			continue
		}
		p, f := u.listKind(ctx, old, k)
		if f != nil {
			return nil, f
		}
		out.Items[k] = p.items
		out.Warnings = append(out.Warnings, p.warnings...)
		if p.ttl > 0 && (out.TTL == 0 || p.ttl < out.TTL) {
			out.TTL = p.ttl
		}
	}
	if old != nil && len(kinds) > 0 {
		out.Warnings = append(out.Warnings, old.Warnings...)
		slices.Sort(out.Warnings)
		out.Warnings = slices.Compact(out.Warnings)
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
	if !u.lists(k) {
		if k == catalog.Tools {
			return u.listUndeclared(ctx), nil
		}
		return pages{}, nil
	}
	hadSome := old != nil && len(old.Items[k]) > 0
	p, f := u.listPages(ctx, k, hadSome)
	if f != nil {
		return pages{}, f
	}
	u.mu.Lock()
	first := !u.listed[k]
	u.listed[k] = true
	u.mu.Unlock()
	if len(p.items) > 0 || !first || !hadSome && k != catalog.Tools {
		return p, nil
	}
	if f := u.pause(ctx, emptyPause, k.Method()); f != nil {
		return pages{}, f
	}
	return u.listPages(ctx, k, hadSome)
}

// lists tells whether the server declared what k belongs to. A server that
// declares none of them is asked for its tools all the same, once.
func (u *Upstream) lists(k catalog.Kind) bool {
	switch k {
	case catalog.Tools:
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.declaresTools() || u.sources == hasTools
	case catalog.Prompts:
		return u.declares("prompts")
	default:
		return u.declares("resources")
	}
}

// listUndeclared asks a server that declared nothing at all for its tools.
// Any failure means that it has none.
func (u *Upstream) listUndeclared(ctx context.Context) pages {
	u.mu.Lock()
	asked := u.sources != unasked
	u.mu.Unlock()
	if asked || u.declares("prompts") || u.declares("resources") {
		return pages{}
	}
	ctx, cancel := context.WithTimeout(ctx, lenientWait)
	defer cancel()
	p, f := u.listPages(ctx, catalog.Tools, false)
	found := noTools
	if f == nil {
		found = hasTools
		p.warnings = append(p.warnings, "the server lists tools, but did not declare them")
	}
	u.mu.Lock()
	u.sources = found
	u.mu.Unlock()
	return p
}

func (u *Upstream) pause(ctx context.Context, d time.Duration, op string) *fault.Fault {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return u.blame(op, ctx.Err())
	case <-u.done:
		return u.blame(op, fault.New(fault.Closed, op, "the connection ended"))
	}
}

// listPages reads all pages of one kind. If the server does not know a cursor
// any more, it begins anew, once (server/utilities/pagination).
func (u *Upstream) listPages(ctx context.Context, k catalog.Kind, hadSome bool) (pages, *fault.Fault) {
	p, f := u.readPages(ctx, k, hadSome)
	if f == errStaleCursor {
		p, f = u.readPages(ctx, k, hadSome)
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

func (u *Upstream) readPages(ctx context.Context, k catalog.Kind, hadSome bool) (pages, *fault.Fault) {
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
			return u.endless(k, p, hadSome, bad)
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
		f := u.refusal(ctx, k.Method(), msg.Error)
		switch {
		case f.RPC == nil:
			return nil, f
		case f.RPC.Code == codeMethodNotFound && k != catalog.Tools && cursor == nil:
			return nil, nil // declared for something else, such as reading by URI
		case f.RPC.Code == codeInvalidParams && cursor != nil:
			return nil, errStaleCursor
		}
		return nil, f
	}
	items, next, warnings, err := catalog.Read(k, msg.Result)
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

// endless is what a listing without an end is worth.
func (u *Upstream) endless(k catalog.Kind, p pages, hadSome bool, bad string) (pages, *fault.Fault) {
	text := "bad pagination in " + k.Method() + ": " + bad
	if hadSome {
		f := u.blame(k.Method(), fault.New(fault.Protocol, k.Method(), text+"; the last good list is kept"))
		f.Outcome = fault.Answered
		return pages{}, f
	}
	p.warnings = append(p.warnings, text+"; ended after "+strconv.Itoa(len(p.items))+" items")
	return p, nil
}

// readTTL reads ttlMs; 0 if it says nothing (server/utilities/caching).
func readTTL(result []byte) time.Duration {
	ms, ok := wire.Int(wire.Get(result, "ttlMs"))
	if !ok || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxTTLSeconds*1000)) * time.Millisecond
}
