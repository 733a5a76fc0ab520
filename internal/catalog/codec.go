package catalog

import (
	"encoding/binary"

	"github.com/everline/everline/internal/mcp"
)

// This file is the body of a catalog file: lengths and bytes, so that raw
// definitions come back exactly as they were. Whoever changes it raises the
// version in magic.

type writer struct{ b []byte }

func (w *writer) uint(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) flag(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	w.uint(n)
}

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

// bytes keeps the difference between nil and empty.
func (w *writer) bytes(b []byte) {
	w.flag(b != nil)
	if b != nil {
		w.text(string(b))
	}
}

func (w *writer) texts(all []string) {
	w.uint(uint64(len(all)))
	for _, s := range all {
		w.text(s)
	}
}

func (w *writer) catalog(c *Catalog) {
	w.text(c.Instructions)
	w.bytes(c.ServerInfo)
	w.bytes(c.Capabilities)
	for _, warning := range c.Warnings {
		w.texts(warning)
	}
	for _, items := range c.Items {
		w.uint(uint64(len(items)))
		for i := range items {
			w.item(&items[i])
		}
	}
}

func (w *writer) item(i *Item) {
	w.text(i.Name)
	w.bytes(i.Raw)
	w.bytes(i.Sent)
	w.flag(i.ReadOnly)
	w.flag(i.Idempotent)
	w.text(i.BadHeaders)
	w.uint(uint64(len(i.Headers)))
	for _, h := range i.Headers {
		w.texts(h.Path)
		w.text(h.Name)
	}
}

// A reader reads what a writer wrote. After the first thing that makes no
// sense it is bad, and returns nothing but zeros.
type reader struct {
	b   []byte
	bad bool
	old bool // of version 2, whose items have no Sent
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) flag() bool {
	n := r.uint()
	r.bad = r.bad || n > 1
	return n == 1
}

// count is a number of things that take at least one byte each, so that a
// wrong one cannot ask for more memory than the file has bytes.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.count()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) bytes() []byte {
	if !r.flag() {
		return nil
	}
	return []byte(r.text())
}

func (r *reader) texts() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	all := make([]string, 0, n)
	for range n {
		all = append(all, r.text())
	}
	return all
}

func (r *reader) catalog() *Catalog {
	c := &Catalog{Instructions: r.text(), ServerInfo: r.bytes(), Capabilities: r.bytes()}
	for k := range c.Warnings {
		c.Warnings[k] = r.texts()
	}
	for k := range c.Items {
		n := r.count()
		for range n {
			if r.bad {
				return c
			}
			c.Items[k] = append(c.Items[k], r.item())
		}
	}
	return c
}

func (r *reader) item() Item {
	i := Item{Name: r.text(), Raw: r.bytes()}
	if !r.old {
		i.Sent = r.bytes()
	}
	i.ReadOnly = r.flag()
	i.Idempotent = r.flag()
	i.BadHeaders = r.text()
	n := r.count()
	for range n {
		if r.bad {
			break
		}
		i.Headers = append(i.Headers, mcp.HeaderParam{Path: r.texts(), Name: r.text()})
	}
	return i
}

func putInt64(b []byte, n int64) { binary.BigEndian.PutUint64(b, uint64(n)) }

func int64At(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
