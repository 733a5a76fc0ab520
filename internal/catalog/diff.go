package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// A Change is the difference between two catalogs of one server, by the
// server's own names and in the order of the lists.
type Change struct {
	Added, Removed, Changed [len(Kinds)][]string // by Kind

	// Reordered: the same items in another order. What is listed changes by
	// it, and so it is a change.
	Reordered    [len(Kinds)]bool
	Instructions bool
}

// Empty reports whether the catalogs offer the same.
func (c Change) Empty() bool { return !c.Instructions && len(c.Kinds()) == 0 }

// Kinds are the kinds whose lists differ.
func (c Change) Kinds() []Kind {
	var kinds []Kind
	for _, k := range Kinds {
		if len(c.Added[k])+len(c.Removed[k])+len(c.Changed[k]) > 0 || c.Reordered[k] {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Diff compares what two catalogs offer, byte for byte; nil is a catalog of
// nothing. When they were listed, how long they are fresh, warnings,
// capabilities and the server's own version are not compared.
func Diff(old, new *Catalog) Change {
	var empty Catalog
	if old == nil {
		old = &empty
	}
	if new == nil {
		new = &empty
	}
	c := Change{Instructions: old.Instructions != new.Instructions}
	if old == new {
		return c
	}
	for _, k := range Kinds {
		c.diff(k, old.Items[k], new.Items[k])
	}
	return c
}

func (c *Change) diff(k Kind, old, new []Item) {
	before := make(map[string]int, len(old))
	for i := range old {
		before[old[i].Name] = i
	}
	now := make(map[string]bool, len(new))
	last := -1
	for i := range new {
		name := new[i].Name
		now[name] = true
		place, ok := before[name]
		if !ok {
			c.Added[k] = append(c.Added[k], name)
			continue
		}
		if !bytes.Equal(old[place].Raw, new[i].Raw) {
			c.Changed[k] = append(c.Changed[k], name)
		}
		c.Reordered[k] = c.Reordered[k] || place < last
		last = place
	}
	for i := range old {
		if !now[old[i].Name] {
			c.Removed[k] = append(c.Removed[k], old[i].Name)
		}
	}
}

// Hash identifies what a catalog offers: two catalogs have the same hash just
// if their Diff is empty. nil is a catalog of nothing.
func Hash(c *Catalog) [32]byte {
	if c == nil {
		c = &Catalog{}
	}
	h := sha256.New()
	for _, items := range c.Items {
		writeLen(h, len(items))
		for i := range items {
			writeBytes(h, items[i].Name)
			writeBytes(h, items[i].Raw)
		}
	}
	writeBytes(h, c.Instructions)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

func writeLen(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func writeBytes[T string | []byte](h hash.Hash, b T) {
	writeLen(h, len(b))
	h.Write([]byte(b))
}
