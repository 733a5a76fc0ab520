package catalog

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/everline/everline/internal/wire"
)

// maxLinks is how many URIs of one result are looked at, and maxURI the longest.
const (
	maxLinks = 1024
	maxURI   = 2048
)

var uriKey = []byte(`"uri"`)

// Links yields the URIs that a result hands out: of resource links, embedded
// resources and contents. It is a search for the word; nothing is decoded but
// the URIs. result must be JSON.
func Links(result []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range maxLinks {
			found := bytes.Index(result, uriKey)
			if found < 0 {
				return
			}
			value := linkAt(result, found)
			result = result[found+len(uriKey):]
			if value != "" && len(value) <= maxURI && !yield(value) {
				return
			}
		}
	}
}

const space = " \t\r\n"

// linkAt returns the text behind the key at this place; "" if it is no key, or
// has another value.
func linkAt(b []byte, index int) string {
	if index > 0 && b[index-1] == '\\' {
		return "" // within a text
	}
	value, ok := bytes.CutPrefix(bytes.TrimLeft(b[index+len(uriKey):], space), []byte{':'})
	value = bytes.TrimLeft(value, space)
	if !ok || kindOf(value) != '"' {
		return ""
	}
	return text(value[:max(wire.ValueEnd(value, 0), 0)])
}

// RefersToResource reports whether the params of completion/complete are about a
// resource.
func RefersToResource(params []byte) bool {
	kind, _ := wire.Text(wire.Get(params, "ref", "type"))
	return kind == "ref/resource"
}

// Owners returns the servers that a URI may belong to, best first; sure tells
// that the first has said that it has it, and is no guess. A server
// that lists it has it for certain; then client, the server that has handed it
// out to who asks; then those with a template for it; then anyone, the server
// that has handed it out to somebody. Where there is none of these, servers may
// serve what they do not list: all that have resources are named, first
// those with the longest beginning of the URI, its scheme at least, in what they
// list. client and anyone are "" if they are not known.
func (t *Table) Owners(uri, client, anyone string) (all []Target, sure bool) {
	if target, ok := t.lister(uri); ok {
		return []Target{target}, true
	}
	add := func(server string) {
		i := slices.IndexFunc(t.entries, func(e Entry) bool { return e.Server == server })
		known := slices.ContainsFunc(all, func(o Target) bool { return o.Server == server })
		if i >= 0 && t.fragments[i] != nil && !known {
			all = append(all, Target{Server: server, Name: uri, Replay: t.entries[i].Replay})
		}
	}
	add(client)
	if target, ok := t.claimed(uri); ok {
		add(target.Server)
		return all, true
	}
	add(anyone)
	sure = len(all) > 0
	for _, server := range t.nearest(uri) {
		add(server)
	}
	return all, sure
}

// Lister returns the server that lists a URI, or a template of that name: "" if
// none does.
func (t *Table) Lister(uri string) string {
	target, _ := t.lister(uri)
	return target.Server
}

func (t *Table) lister(uri string) (Target, bool) {
	for _, k := range []Kind{Resources, Templates} { // templates are completed by their own names
		if i, ok := t.lists[k].part.owners[uri]; ok {
			return t.resource(t.lists[k].part.pieces[i], uri), true
		}
	}
	return Target{}, false
}

// nearest returns all servers that have resources, those first that list the
// longest beginning of the URI.
func (t *Table) nearest(uri string) []string {
	type near struct {
		server string
		common int
	}
	var all []near
	for i, f := range t.fragments {
		if f == nil || !f.offers[Resources] && !f.offers[Templates] {
			continue
		}
		n := near{server: t.entries[i].Server}
		for _, k := range []Kind{Resources, Templates} {
			if f.pieces[k] != nil {
				for _, l := range f.pieces[k].all {
					n.common = max(n.common, common(uri, l.Exposed))
				}
			}
		}
		all = append(all, n)
	}
	slices.SortStableFunc(all, func(a, b near) int { return b.common - a.common })
	servers := make([]string, len(all))
	for i, n := range all {
		servers[i] = n.server
	}
	return servers
}

// common is how much of two URIs is the same from the beginning on; 0 if their
// schemes differ.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if scheme := strings.IndexByte(a, ':'); scheme < 0 || n <= scheme {
		return 0
	}
	return n
}
