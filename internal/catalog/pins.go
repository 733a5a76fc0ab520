package catalog

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/visible"
)

// A Pin is one definition that was approved: a tool's, in its canonical form,
// or a server's instructions as they are.
type Pin struct {
	Sum  [sha256.Size]byte // SHA-256 of Text
	Text []byte
}

func newPin(text []byte) Pin { return Pin{Sum: sha256.Sum256(text), Text: text} }

// Pins are the pins of one server. They are never changed.
type Pins struct {
	Instructions Pin // of "" where there are none
	Tools        map[string]Pin
}

// PinsOf pins what a catalog offers: each tool's whole definition as it is
// published, repaired where Read had to, and the instructions.
func PinsOf(c *Catalog) *Pins {
	p := &Pins{Instructions: newPin([]byte(c.Instructions)), Tools: make(map[string]Pin, len(c.Items[Tools]))}
	for _, item := range c.Items[Tools] {
		form, ok := Canonical(item.Raw)
		if !ok {
			form = item.Raw
		}
		p.Tools[item.Name] = newPin(form)
	}
	return p
}

// Pinnable reports whether c can be approved as what its server offers. A list
// without tools can if the server says that it has other things alone: one that
// has tools, or says nothing, may not have registered them yet.
func (c *Catalog) Pinnable() bool {
	if len(c.Items[Tools]) > 0 {
		return true
	}
	var caps map[string]json.RawMessage
	err := json.Unmarshal(c.Capabilities, &caps)
	return err == nil && len(caps) > 0 && caps["tools"] == nil
}

// What became of a pinned definition.
const (
	PinChanged = "changed"
	PinNew     = "new" // a tool that was never approved, of a server that has pins
	PinRemoved = "removed"
)

// A PinChange is one definition that is not as it was approved.
type PinChange struct {
	Tool     string // the server's own name; "" for its instructions
	What     string // PinChanged, PinNew, PinRemoved
	Was, Now []byte // nil where there is none
}

// Compare tells what differs from the pins, instructions first, then by name.
// nil pins, of a server that was never seen, differ from nothing.
func (p *Pins) Compare(now *Pins) []PinChange {
	if p == nil {
		return nil
	}
	var all []PinChange
	for name, pin := range now.Tools {
		old, known := p.Tools[name]
		switch {
		case !known:
			all = append(all, PinChange{Tool: name, What: PinNew, Now: pin.Text})
		case old.Sum != pin.Sum:
			all = append(all, PinChange{Tool: name, What: PinChanged, Was: old.Text, Now: pin.Text})
		}
	}
	for name, old := range p.Tools {
		if _, there := now.Tools[name]; !there {
			all = append(all, PinChange{Tool: name, What: PinRemoved, Was: old.Text})
		}
	}
	if p.Instructions.Sum != now.Instructions.Sum {
		all = append(all, PinChange{What: PinChanged, Was: p.Instructions.Text, Now: now.Instructions.Text})
	}
	slices.SortFunc(all, func(a, b PinChange) int { return cmp.Compare(a.Tool, b.Tool) })
	return all
}

// Withhold returns the catalog without the tools and instructions that changes
// names; the catalog itself if there is nothing to withhold.
func Withhold(c *Catalog, changes []PinChange) *Catalog {
	out := *c
	gone := make(map[string]bool, len(changes))
	for _, ch := range changes {
		switch {
		case ch.What == PinRemoved:
		case ch.Tool == "":
			out.Instructions = ""
		default:
			gone[ch.Tool] = true
		}
	}
	if len(gone) == 0 && out.Instructions == c.Instructions {
		return c
	}
	out.Items[Tools] = slices.DeleteFunc(slices.Clone(c.Items[Tools]), func(i Item) bool { return gone[i.Name] })
	return &out
}

// A Lock is what a lock file holds: the pins of each server, by name. It is
// never changed; nil is an empty one.
type Lock struct{ servers map[string]*Pins }

// Server returns the pins of a server; nil if it has none.
func (l *Lock) Server(name string) *Pins {
	if l == nil {
		return nil
	}
	return l.servers[name]
}

// With returns a lock in which the server has these pins.
func (l *Lock) With(server string, p *Pins) *Lock {
	next := &Lock{servers: map[string]*Pins{}}
	if l != nil {
		maps.Copy(next.servers, l.servers)
	}
	next.servers[server] = p
	return next
}

// Adopt returns a lock with the pins of o's servers that l knows nothing of.
func (l *Lock) Adopt(o *Lock) *Lock {
	if o == nil {
		return l
	}
	next := &Lock{servers: maps.Clone(o.servers)}
	if l != nil {
		maps.Copy(next.servers, l.servers)
	}
	return next
}

// Approve returns the pins with one tool as it is now; without it if it is
// not offered any more.
func (p *Pins) Approve(now *Pins, tool string) *Pins {
	next := &Pins{Tools: map[string]Pin{}}
	if p != nil {
		next.Instructions = p.Instructions
		maps.Copy(next.Tools, p.Tools)
	}
	if pin, there := now.Tools[tool]; there {
		next.Tools[tool] = pin
	} else {
		delete(next.Tools, tool)
	}
	return next
}

// In reports whether a file holds this lock, written as Write does.
func (l *Lock) In(name string) bool {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return l == nil
	}
	return err == nil && l != nil && bytes.Equal(data, l.encode())
}

// Same reports whether two locks have the same pins.
func (l *Lock) Same(o *Lock) bool { return l == o || bytes.Equal(l.encode(), o.encode()) }

// lockVersion is the version of the format.
const lockVersion = 1

type lockFile struct {
	Version int                   `json:"version"`
	Servers map[string]lockServer `json:"servers"`
}

type lockServer struct {
	Instructions lockPin            `json:"instructions"`
	Tools        map[string]lockPin `json:"tools"`
}

type lockPin struct {
	Sum        string          `json:"sha256"`
	Text       json.RawMessage `json:"text"`       // of instructions
	Definition json.RawMessage `json:"definition"` // of a tool
}

// ReadLock reads a lock file; one that is not there is an empty lock. A file
// that is damaged, or whose sums are not those of its definitions, is an error
// of kind Invalid: to go on without it would approve whatever comes.
func ReadLock(name string) (*Lock, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var l *Lock
	if err == nil {
		l, err = parseLock(data)
	}
	if err != nil {
		return nil, &fault.Fault{
			Kind: fault.Invalid, Op: "read pins", Outcome: fault.NotSent, Err: fmt.Errorf("%s: %w", name, err),
			Remedy: "take the file from version control, or remove it to approve what the servers offer now",
		}
	}
	return l, nil
}

func parseLock(data []byte) (*Lock, error) {
	var f lockFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != lockVersion {
		return nil, fmt.Errorf("version %d is not known here", f.Version)
	}
	l := &Lock{servers: make(map[string]*Pins, len(f.Servers))}
	for name, s := range f.Servers {
		p := &Pins{Tools: make(map[string]Pin, len(s.Tools)), Instructions: newPin([]byte(text(bytes.TrimSpace(s.Instructions.Text))))}
		if hex.EncodeToString(p.Instructions.Sum[:]) != s.Instructions.Sum {
			return nil, fmt.Errorf("the sum of the instructions of %s is not that of their text", name)
		}
		for tool, pin := range s.Tools {
			form, ok := Canonical(pin.Definition)
			read := newPin(form)
			p.Tools[tool] = read
			if !ok || hex.EncodeToString(read.Sum[:]) != pin.Sum {
				return nil, fmt.Errorf("the sum of %s.%s is not that of its definition", name, tool)
			}
		}
		l.servers[name] = p
	}
	return l, nil
}

// Write replaces the lock file. It is made to be kept under version control:
// sorted, a line for each tool, and invisible characters as escapes.
func (l *Lock) Write(name string) error {
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = owned.Replace(name, l.encode(), 0o644)
	}
	if err != nil {
		return &fault.Fault{Kind: fault.Internal, Op: "write pins", Err: err}
	}
	return nil
}

func (l *Lock) encode() []byte {
	b := fmt.Appendf(nil, "{\n  \"version\": %d,\n  \"servers\": {", lockVersion)
	if l != nil {
		for i, name := range slices.Sorted(maps.Keys(l.servers)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, "\n    %s: {\n", escaped(quote(name)))
			b = l.servers[name].encode(b)
			b = append(b, "    }"...)
		}
	}
	return append(b, "\n  }\n}\n"...)
}

func (p *Pins) encode(b []byte) []byte {
	b = fmt.Appendf(b, "      \"instructions\": {\"sha256\": \"%x\", \"text\": %s},\n      \"tools\": {", p.Instructions.Sum, escaped(quote(string(p.Instructions.Text))))
	for i, tool := range slices.Sorted(maps.Keys(p.Tools)) {
		if i > 0 {
			b = append(b, ',')
		}
		pin := p.Tools[tool]
		b = fmt.Appendf(b, "\n        %s: {\"sha256\": \"%x\", \"definition\": %s}", escaped(quote(tool)), pin.Sum, escaped(pin.Text))
	}
	return append(b, "\n      }\n"...)
}

// escaped writes the invisible characters of a JSON text as escapes, if that
// can be read back as the same text.
func escaped(raw []byte) []byte {
	b := visible.JSON(raw)
	if form, ok := Canonical(b); !ok || !bytes.Equal(form, raw) {
		return raw
	}
	return b
}
