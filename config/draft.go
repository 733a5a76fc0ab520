package config

import (
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// draft is a server while it is read: what the file says, before defaults that
// depend on other keys are decided.
type draft struct {
	Server
	kind     string // the file's "type"
	enabled  bool
	overlap  *bool
	maxDelay *time.Duration
	fileEnv  map[string]string // of the envFile
	at       tree.Pos
}

// expand replaces the references in a scalar. Numbers and booleans are taken
// as their text: people write PORT: 3000 in env. put, which may be nil, gets
// every value of a reference and gives what is to stand in the text.
func (d *draft) expand(r *reader, n *tree.Node, put func(string) string) (string, *fault.Fault) {
	if n.Kind != tree.String && n.Kind != tree.Number && n.Kind != tree.Bool {
		return "", r.wrongKind(n, "a string")
	}
	v, err := r.expand(n, put)
	if err != nil {
		remedy := "set what is missing, or give a default with ${VAR:-default}"
		if r.client != nil {
			remedy = "set it where everline gets its environment from"
		}
		return "", tree.Invalid(r.file, n.Pos, remedy, "%v", err)
	}
	if strings.ContainsRune(v, 0) {
		return "", tree.Invalid(r.file, n.Pos, "remove the NUL character", "the value has a NUL character")
	}
	return strings.TrimPrefix(v, expand.ByteOrderMark), nil
}

// expand replaces the references in a scalar by the rules of the file's format.
func (r *reader) expand(n *tree.Node, put func(string) string) (string, error) {
	switch {
	case n.Literal, r.References == AsWritten:
		return n.Text, nil
	case r.client != nil:
		return r.client.Expand(n, put)
	default:
		refs := expand.References{Env: r.env, Read: r.readFile, Value: put}
		return refs.Expand(n.Text)
	}
}

// secret takes note of a value that a reference gave.
func (d *draft) secret(v string) string {
	d.secrets = append(d.secrets, v)
	return v
}

func (d *draft) interpolated(to *string) setter {
	return d.interpolatedAs(to, d.secret, func(_ *reader, v string) (string, error) { return v, nil })
}

// interpolatedPath also expands "~".
func (d *draft) interpolatedPath(to *string) setter {
	return d.interpolatedAs(to, d.secret, (*reader).atHome)
}

// interpolatedURL also encodes what stands in a place where it would mean
// something else than itself.
func (d *draft) interpolatedURL(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if r.References != Resolved {
			return d.interpolated(to)(r, n)
		}
		put := func(v string) string { return expand.AsData(d.secret(v)) }
		return d.interpolatedAs(to, put, func(_ *reader, v string) (string, error) { return expand.URL(v), nil })(r, n)
	}
}

// interpolatedAs takes a text with references. The text as it is written stands in
// its place until all is well, so that status shows something of a server whose
// variable is missing.
func (d *draft) interpolatedAs(to *string, put func(string) string, finish func(*reader, string) (string, error)) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		*to = n.Text // what is shown where a reference fails
		v, f := d.expand(r, n, put)
		if f != nil {
			return f
		}
		v, err := finish(r, v)
		if err != nil {
			return tree.Invalid(r.file, n.Pos, "write the whole path", "%v", err)
		}
		*to = v
		return nil
	}
}

// interpolatedList takes a list in which numbers and booleans are as good as texts.
func (d *draft) interpolatedList(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.List {
			return r.wrongKind(n, "a list of strings")
		}
		list := make([]string, 0, len(n.List))
		for _, e := range n.List {
			v, err := d.expand(r, e, d.secret)
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		*to = list
		return nil
	}
}

// interpolatedMap reads a map all of whose values are secret anyway.
func (d *draft) interpolatedMap(to *map[string]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of strings")
		}
		m := make(map[string]string, len(n.Fields))
		for _, f := range n.Fields {
			if _, known := m[f.Name]; known {
				r.warn(f.Pos, "duplicate key %q; the first one counts", f.Name)
				continue
			}
			if f.Value.Kind == tree.Null {
				continue
			}
			v, err := d.expand(r, f.Value, nil)
			if err != nil {
				return err
			}
			m[f.Name] = v
		}
		*to = m
		return nil
	}
}
