package catalog

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"github.com/everline/everline/config"
)

// Naming says how exposed names of tools and prompts are made.
//
// With one configured server names stay as they are, unless Always says
// otherwise. With more, an exposed name is label + Separator + local. The label comes from the configured
// server names alone and is never cut, so that names of different servers
// cannot meet; local comes from that server's own rules and names alone. So a
// name depends neither on which servers are up nor on who came first.
type Naming struct {
	// Separator stands between label and local name. One that is empty, longer
	// than 4 bytes, or has letters or digits could not be told from a name:
	// then it is "__".
	Separator string
	Max       int  // longest exposed name, in bytes; 0 means 64, less than 32 means 32
	Always    bool // one server has a label, too, so that its names stay when another one comes
}

// hashLen is the length of a hash in a name: 40 bits in base32.
const hashLen = 8

func (n Naming) filled() Naming {
	word := func(r rune) bool { return !refused(r) && r != '_' && r != '-' }
	if n.Separator == "" || len(n.Separator) > 4 || strings.ContainsFunc(n.Separator, word) {
		n.Separator = "__"
	}
	if n.Max == 0 {
		n.Max = 64
	}
	n.Max = max(n.Max, 32)
	return n
}

// labels gives each server its label. Names that are fit to be labels are
// their own; the others get a hash of the server's name. nil where names stay as
// they are.
func (n Naming) labels(servers []string) []string {
	if len(servers) < 2 && !n.Always {
		return nil
	}
	labels := make([]string, len(servers))
	taken := make(map[string]bool, len(servers))
	for i, s := range servers {
		if n.fit(s) && !taken[s] {
			labels[i] = s
			taken[s] = true
		}
	}
	for i, s := range servers {
		if labels[i] == "" {
			labels[i] = unique(taken, func(salt string) string { return n.hashed(s, salt) })
		}
	}
	return labels
}

// fit reports whether a server's name can stand before the separator as it is:
// the first separator in name + Separator must be the one at its end.
func (n Naming) fit(server string) bool {
	return server != "" && len(server) <= n.labelMax() && plain(server) == server &&
		strings.Index(server+n.Separator, n.Separator) == len(server)
}

// label is what a server is called among others whose labels are other ones.
func (n Naming) label(server string) string {
	if n.fit(server) {
		return server
	}
	return n.hashed(server, "")
}

// labelMax leaves room for a separator, a hash and some letters of the tool.
func (n Naming) labelMax() int { return n.Max / 2 }

// hashed is a label made of what can be kept of the server's name and a hash.
// The filler is no part of the separator, so neither is any end of the label.
func (n Naming) hashed(server, salt string) string {
	filler := "_"
	for _, f := range []string{"-", "x"} {
		if strings.Contains(n.Separator, filler) {
			filler = f
		}
	}
	tail := filler + short(server, salt)
	head := strings.ReplaceAll(plain(server), n.Separator, filler)
	return head[:min(len(head), n.labelMax()-len(tail))] + tail
}

// A local is a server's own name of something and what it is to be called.
type local struct {
	own, want string
	contested bool // the configuration gives the wanted name to another one
}

// wanted applies Rename. Whether a name is contested follows from the rules
// alone, not from what the server lists: of several that want one name a
// renamed one has it, and of several renamed ones the first by its own name.
func wanted(rules config.Tools, own string) local {
	to, renamed := rules.Rename[own]
	if renamed = renamed && to != ""; !renamed {
		to = own
	}
	l := local{own: own, want: to}
	for other, name := range rules.Rename {
		if other != own && name == to && (!renamed || other < own) {
			l.contested = true
		}
	}
	return l
}

// expose makes the exposed name; label is "" where names stay as they are. A
// salt is asked for where the name without one is taken.
func (n Naming) expose(label, server string, l local, salt string) (name string, hashed bool) {
	prefix := ""
	name = l.want
	tell := l.contested || salt != ""
	if label != "" {
		prefix = label + n.Separator
		name = plain(l.want)
		tell = tell || name != l.want || len(prefix)+len(name) > n.Max
	}
	if !tell {
		return prefix + name, false
	}
	tail := "_" + short(server+"\x00"+l.own, salt)
	if label != "" {
		room := max(n.Max-len(prefix)-len(tail), 0)
		name = name[:min(len(name), room)]
	}
	return prefix + name + tail, true
}

// plain replaces every byte that some client or model API refuses in names.
// It keeps A-Z, a-z, 0-9, '_' and '-'; each other character becomes one '_'.
func plain(s string) string {
	if strings.IndexFunc(s, refused) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if refused(r) {
			return '_'
		}
		return r
	}, s)
}

func refused(r rune) bool {
	letter := r|0x20 >= 'a' && r|0x20 <= 'z'
	return !letter && (r < '0' || r > '9') && r != '_' && r != '-'
}

// lower is base32 in letters that names may hold.
var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// short is a hash of full for use in a name. A salt gives another one.
func short(full, salt string) string {
	sum := sha256.Sum256([]byte(full + "\x00" + salt))
	return lower.EncodeToString(sum[:])[:hashLen] + salt
}

// unique finds the first name that is not taken, and takes it. Salts are
// digits that make() puts into the name, so that every salt gives another
// name and one more salt than taken names must do.
func unique(taken map[string]bool, make func(salt string) string) string {
	name := make("")
	for i := 2; taken[name]; i++ {
		if i > len(taken)+2 {
			panic("bug: salted names are not distinct")
		}
		name = make(strconv.Itoa(i))
	}
	taken[name] = true
	return name
}
