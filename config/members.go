package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// Members are the keys of a server in the text of a file, each with a digest of
// its value, which is the same for values that mean the same. They are nil where
// the server is not there, or is no object.
func Members(format, file string, data []byte, name string) map[string]string {
	root, err := parseTree(file, data)
	if err != nil {
		return nil
	}
	server := descend(root, serversPath(format, root)).get(name)
	if server == nil || server.kind != objectNode {
		return nil
	}
	all := map[string]string{}
	for _, f := range server.fields {
		h := sha256.New()
		hashNode(h, f.value)
		all[f.name] = hex.EncodeToString(h.Sum(nil))
	}
	return all
}

// hashNode leaves out how a value is written, and the order of keys.
func hashNode(h hash.Hash, n *node) {
	fmt.Fprintf(h, "%d %d:%s %d %d ", n.kind, len(n.text), n.text, len(n.list), len(n.fields))
	for _, e := range n.list {
		hashNode(h, e)
	}
	sorted := slices.SortedStableFunc(slices.Values(n.fields), func(a, b field) int { return strings.Compare(a.name, b.name) })
	for _, f := range sorted {
		fmt.Fprintf(h, "%d:%s ", len(f.name), f.name)
		hashNode(h, f.value)
	}
}
