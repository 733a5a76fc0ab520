package config

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// A builder adds files to one Config.
type builder struct {
	Options
	cfg      *Config
	settings map[string]Origin // top-level settings that are decided
	servers  map[string]Origin // servers that are known
}

// A reader reads one file into a builder's Config.
type reader struct {
	*builder
	file   string
	server string        // the server that is being read; "" outside of one
	client *clients.File // nil for our own format
}

// env is the value of a variable; where references are kept, the reference.
func (r *reader) env(name string) (string, bool) {
	if r.References == Kept {
		return expand.Keep(name), true
	}
	v, ok := r.Env(name)
	return expand.Cleaned(v), ok
}

// readFile reads a file that the configuration names, and takes note of it: a
// change of it is a change of the configuration, and trust covers it, too.
func (r *reader) readFile(path string) (string, error) {
	path, err := r.atHome(path)
	if err != nil {
		return "", err
	}
	text, err := r.readSide(filepath.Dir(r.file), path)
	if err == nil {
		r.cfg.sides = append(r.cfg.sides, SideFile{File: r.file, Named: path, Server: r.server, Digest: sha256.Sum256([]byte(text))})
	}
	return expand.Cleaned(text), err
}

// warn adds a warning about a place of the file, and about the server that is read.
func (r *reader) warn(at tree.Pos, format string, args ...any) {
	r.cfg.Warnings = append(r.cfg.Warnings, Warning{
		Origin: Origin{r.file, at.Line}, Server: r.server, Text: fmt.Sprintf(format, args...),
	})
}

// clientFile is the file as one of a client; nil for our own format.
func (r *reader) clientFile(format string) *clients.File {
	f := clients.File{
		Path: r.file, Workspace: r.Workspace, Keep: r.References == Kept,
		Env: r.env, ReadFile: r.readFile, Home: r.home, Warn: r.warn,
	}
	if r.Ask != nil {
		f.Ask = func(i clients.Question) (string, bool) {
			return r.Ask(Input{ID: i.ID, Description: i.Description, Password: i.Password, Options: i.Options, Default: i.Default, Variable: i.Variable(), Origin: Origin{r.file, i.Pos.Line}})
		}
	}
	return f.Open(format)
}

// object puts the members of n into their places. Unknown members are warned
// of; elsewhere names keys that belong in another place, with that place. The
// first wrong member is returned once all were read.
func (r *reader) object(n *tree.Node, where string, keys []key, elsewhere map[string]string) *fault.Fault {
	if n.Kind != tree.Object {
		return r.wrongKind(n, "an object")
	}
	var first *fault.Fault
	seen := map[string]bool{}
	for _, f := range n.Fields {
		set := find(keys, f.Name)
		switch {
		case set == nil:
			if !tree.IsComment(f.Name) {
				r.unknown(f, "in "+where, names(keys), elsewhere)
			}
		case seen[f.Name]:
			r.warn(f.Pos, "duplicate key %q; the first one counts", f.Name)
		case f.Value.Kind == tree.Null:
		default:
			seen[f.Name] = true
			if err := set(r, f.Value); err != nil && first == nil {
				first = &fault.Fault{}
				*first = *err
				first.Err = fmt.Errorf("%w (key %q)", err.Err, f.Name)
			}
		}
	}
	return first
}

func find(keys []key, name string) setter {
	for _, k := range keys {
		if k.name == name {
			return k.set
		}
	}
	return nil
}

func names(keys []key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.name
	}
	return list
}

// replaced are keys of earlier versions, with what to write for them.
var replaced = map[string]string{
	"fastTries": `"fastFor" in "retry", a time: it is tried fast for so long after a loss, whatever the number of tries`,
}

// unknown warns of a key that has no meaning where it stands. It is no error, so
// that a file of a newer everline still works with an older one.
func (r *reader) unknown(f tree.Field, where string, known []string, elsewhere map[string]string) {
	if place := elsewhere[f.Name]; place != "" {
		r.warn(f.Pos, "%q is not read %s; it belongs %s", f.Name, where, place)
		return
	}
	if place := replaced[f.Name]; place != "" {
		r.warn(f.Pos, "%q is not read any more %s; write %s", f.Name, where, place)
		return
	}
	r.warn(f.Pos, "unknown key %q %s%s", f.Name, where, typed.Meant(f.Name, known))
}

// A setter puts one value of a file into its place, or says what is wrong with it.
type setter func(r *reader, n *tree.Node) *fault.Fault

// A key is a known key of an object.
type key struct {
	name string
	set  setter
}

func (r *reader) wrongKind(n *tree.Node, want string) *fault.Fault {
	return tree.WrongKind(r.file, n, want)
}
