package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// path takes a file name, relative to the folder of the file that names it.
func path(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String || n.Text == "" {
			return r.wrongKind(n, "a file name")
		}
		at, err := r.atHome(n.Text)
		if err != nil {
			return tree.Invalid(r.file, n.Pos, "write the whole path", "%v", err)
		}
		*to = seenFrom(filepath.Dir(r.file), at)
		return nil
	}
}

// groups takes an object of group names, each with a list of servers or an
// object that has one. They are kept by name, so that the order of a file
// that has none means nothing.
func groups(to *[]Group) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of groups")
		}
		var all []Group
		for _, f := range n.Fields {
			if tree.IsComment(f.Name) || f.Value.Kind == tree.Null {
				continue
			}
			g := Group{Name: f.Name, Expose: ExposeAll}
			if err := r.group(&g, f); err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(o Group) bool { return o.Name == g.Name }) {
				r.warn(f.Pos, "duplicate group %q; the first one counts", g.Name)
				continue
			}
			all = append(all, g)
		}
		slices.SortFunc(all, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
		*to = all
		return nil
	}
}

// group reads one group. Its name becomes a part of a URL, so it is refused here
// and not escaped there.
func (r *reader) group(g *Group, f tree.Field) *fault.Fault {
	if !groupName(f.Name) {
		return tree.Invalid(r.file, f.Pos, "name it with letters, digits, '_' or '-'", "the group name %q cannot be part of a URL", f.Name)
	}
	if f.Value.Kind == tree.List {
		return texts(&g.Servers)(r, f.Value)
	}
	return r.object(f.Value, "a group", []key{
		{"servers", texts(&g.Servers)},
		{"expose", word(&g.Expose, ExposeAll, ExposeSearch)},
	}, nil)
}

// groupName tells whether a name can stand in the path of an endpoint as it is.
func groupName(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(c rune) bool {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		return !letter && (c < '0' || c > '9') && c != '_' && c != '-'
	}) < 0
}
