package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// Descend follows a path of names. It never returns nil, so that the result can
// be asked for what is not there.
func (n *Node) Descend(path []string) *Node {
	for _, name := range path {
		if n = n.Get(name); n == nil {
			return &Node{}
		}
	}
	return n
}

// Same compares two values by meaning, the order of members included.
func (n *Node) Same(o *Node) bool {
	if n.Kind != o.Kind || n.Text != o.Text || len(n.List) != len(o.List) {
		return false
	}
	for i := range n.List {
		if !n.List[i].Same(o.List[i]) {
			return false
		}
	}
	return SameFields(n.Fields, o.Fields)
}

// SameFields compares the members of two objects like Same.
func SameFields(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(a, b Field) bool { return a.Name == b.Name && a.Value.Same(b.Value) })
}

// Digest is the same for values that mean the same: it leaves out how a value
// is written, and the order of keys.
func (n *Node) Digest() string {
	h := sha256.New()
	n.hash(h)
	return hex.EncodeToString(h.Sum(nil))
}

func (n *Node) hash(h hash.Hash) {
	fmt.Fprintf(h, "%d %d:%s %d %d ", n.Kind, len(n.Text), n.Text, len(n.List), len(n.Fields))
	for _, e := range n.List {
		e.hash(h)
	}
	sorted := slices.SortedStableFunc(slices.Values(n.Fields), func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range sorted {
		fmt.Fprintf(h, "%d:%s ", len(f.Name), f.Name)
		f.Value.hash(h)
	}
}
