package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Read reads one page of a list result. It keeps items byte for byte, but for
// what would make strict clients refuse the whole list: that is repaired, or the
// one item dropped, with a warning that names it. Nothing of result is kept.
//
// next is the raw JSON of nextCursor, to be sent back as it is; nil on the
// last page. "" is a cursor like any other (pagination, "Handling of cursors").
//
// The error, of kind Protocol, means that there is no list at all. A list that
// is null is read as empty: that is how servers in Go say "none".
func Read(kind Kind, result []byte) (items []Item, next []byte, warnings []string, err error) {
	return ReadSent(kind, result, nil)
}

// ReadSent is Read for a result in which what is no text has been replaced by
// U+FFFD. sent is the result as it came: servers know their items by the names
// that they gave them.
func ReadSent(kind Kind, result, sent []byte) (items []Item, next []byte, warnings []string, err error) {
	traits, ok := wire.Inspect(result)
	if !ok {
		return nil, nil, nil, fault.New(fault.Protocol, kind.Method(), "the result is not JSON")
	}
	o, ok := parseObject(result)
	if !ok {
		return nil, nil, nil, fault.New(fault.Protocol, kind.Method(), "the result is not an object")
	}
	list := o.get(kind.String())
	if kindOf(list) == 'n' {
		list = []byte("[]")
		warnings = append(warnings, kind.String()+" is null; read as empty")
	}
	raws, ok := elements(bytes.Clone(list))
	if !ok {
		return nil, nil, nil, fault.New(fault.Protocol, kind.Method(), "the result has no array "+kind.String())
	}
	originals := slices.Collect(wire.Elements(wire.Get(sent, kind.String())))
	for i, raw := range raws {
		r := itemReader{kind: kind, traits: traits}
		if len(originals) == len(raws) {
			r.sent = originals[i]
		}
		item, said, kept := r.read(raw)
		if said != "" {
			warnings = append(warnings, kind.label(item.Name, i)+": "+said)
		}
		if kept {
			items = append(items, item)
		}
	}
	items, duplicates := Unique(kind, items)
	next, said := cursor(o.get("nextCursor"))
	return items, next, append(append(warnings, duplicates...), said...), nil
}

// Unique drops each item whose name an earlier one has, with a warning: the
// pages of a list, put together, must not offer one name twice.
func Unique(kind Kind, items []Item) (kept []Item, warnings []string) {
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		if seen[item.Name] {
			warnings = append(warnings, kind.label(item.Name, i)+": listed more than once; the first one is kept")
			continue
		}
		seen[item.Name] = true
		kept = append(kept, item)
	}
	return kept, warnings
}

// DropBadHeaders drops the tools whose x-mcp-header annotations break the
// specification, as a client of modern Streamable HTTP must. Other clients may
// ignore the annotations and keep the tools.
func DropBadHeaders(items []Item) (kept []Item, warnings []string) {
	for i, item := range items {
		if item.BadHeaders != "" {
			warnings = append(warnings, Tools.label(item.Name, i)+": dropped: "+item.BadHeaders)
			continue
		}
		kept = append(kept, item)
	}
	return kept, warnings
}

// label names an item in a warning: by its name, else by its place on the page.
func (k Kind) label(name string, i int) string {
	if name == "" {
		return fmt.Sprintf("%s[%d]", k, i)
	}
	if r := []rune(name); len(r) > 80 {
		name = string(r[:80]) + "..."
	}
	return fmt.Sprintf("%s %q", [...]string{"tool", "prompt", "resource", "resource template"}[k], name)
}

// cursor reads nextCursor. A number is not allowed, but a server that sends
// one means it, and gets it back as it was.
func cursor(raw []byte) (next []byte, warnings []string) {
	switch kindOf(raw) {
	case 0, 'n':
		return nil, nil
	case '"':
		return bytes.Clone(raw), nil
	case '0':
		return bytes.Clone(raw), []string{"nextCursor is a number"}
	default:
		return nil, []string{"nextCursor is not a string; the list ends there"}
	}
}

// notes are what was repaired in one item. Only the first few are kept: one
// broken generator can break every line of a schema.
type notes struct {
	all  []string
	more int
}

func (n *notes) add(format string, args ...any) {
	if len(n.all) == 5 {
		n.more++
		return
	}
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *notes) String() string {
	s := strings.Join(n.all, "; ")
	if n.more > 0 {
		s += fmt.Sprintf("; and %d more", n.more)
	}
	return s
}

// An itemReader reads one item.
type itemReader struct {
	kind   Kind
	traits wire.Traits // of the page
	sent   []byte      // the item as it came, where text in the page was replaced; else nil
	notes  notes
}

// read reads one item. said is what was repaired or why it is not kept.
func (r *itemReader) read(raw []byte) (item Item, said string, kept bool) {
	o, ok := parseObject(raw)
	if !ok {
		return Item{}, "not an object; dropped", false
	}
	id, n := identifier(r.kind), &r.notes
	item.Name = text(o.get(id))
	if item.Name == "" {
		return Item{}, "has no " + id + "; dropped", false
	}
	if r.kind == Resources {
		if why := notURI(item.Name); why != "" {
			return item, "its URI " + why + "; dropped", false
		}
	}
	r.original(&item, &o, raw)
	for _, key := range slices.Compact([]string{id, "name", "inputSchema"}) {
		if o.count(key) > 1 {
			n.add("%s is given more than once; the last one counts", key)
			o.set(key, o.get(key))
		}
	}
	if (r.kind == Resources || r.kind == Templates) && text(o.get("name")) == "" {
		n.add("has no name; its URI is used")
		o.set("name", quote(item.Name))
	}
	shapes[r.kind].repair(&o, "", n)
	if r.kind == Tools {
		if reason := repairTool(&o, n); reason != "" {
			return item, reason + "; dropped", false
		}
		item.readTool(&o)
	}
	item.Raw = r.readable(&o)
	return item, n.String(), true
}

// original keeps the name as the server wrote it, where that was no text.
func (r *itemReader) original(item *Item, o *object, raw []byte) {
	if r.sent == nil || bytes.Equal(r.sent, raw) {
		return
	}
	r.notes.add("it has text that is not Unicode; U+FFFD stands for it")
	id := identifier(r.kind)
	if sent := wire.Get(r.sent, id); sent != nil && !bytes.Equal(sent, o.get(id)) {
		item.Sent = bytes.Clone(sent)
	}
}

// maxNesting is how deeply an item may be nested: many readers of JSON take no
// more than 128 levels of a message.
const maxNesting = 100

// readable is the text of an item without what some readers of JSON refuse.
func (r *itemReader) readable(o *object) []byte {
	if r.traits.Depth > maxNesting {
		for _, m := range o.members {
			if nesting(m.Value) >= maxNesting {
				r.notes.add("%s is nested too deeply; removed", m.Name)
				o.remove(m.Name)
			}
		}
	}
	if r.traits.Huge {
		for _, key := range []string{"_meta", "inputSchema", "outputSchema"} { // what clients read without knowing it
			if traits, _ := wire.Inspect(o.get(key)); traits.Huge {
				r.notes.add("%s has a number that is too large for a float64; the largest one stands for it", key)
				o.set(key, clampNumbers(o.get(key)))
			}
		}
	}
	return o.bytes()
}

// repairTool repairs a tool's schemas; reason is why that cannot be done.
func repairTool(o *object, n *notes) (reason string) {
	tool := schema{notes: n}
	input, reason := tool.input(o.get("inputSchema"))
	if reason != "" {
		return reason
	}
	o.set("inputSchema", input)
	raw := o.get("outputSchema")
	if raw == nil {
		return ""
	}
	var said notes
	out := schema{notes: &said}
	if output, broken := out.checkOutput(raw); broken != "" {
		n.add("outputSchema removed: %s", broken)
		o.remove("outputSchema")
	} else {
		n.all = append(n.all, said.all...)
		o.set("outputSchema", output)
	}
	return ""
}

// readTool reads a tool's claims.
func (i *Item) readTool(o *object) {
	if annotations, ok := parseObject(o.get("annotations")); ok {
		i.ReadOnly = string(annotations.get("readOnlyHint")) == "true"
		i.Idempotent = string(annotations.get("idempotentHint")) == "true"
	}
	i.Headers, i.BadHeaders = mcp.HeaderParams(o.get("inputSchema"))
}
