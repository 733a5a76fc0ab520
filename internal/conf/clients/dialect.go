package clients

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// A reference is what one found in a text means.
type reference struct {
	value string
	known bool // false: no reference of this client; the text stays as it is
	plain bool // the value is no secret: a path
	given bool // the value stands in the file: a default
	// unset, if not "", is the name of a variable that has no value. The text
	// stays where empty is false.
	unset string
	empty bool
}

// A dialect is how a client writes references into its texts.
type dialect struct {
	open string // what a reference starts with: "${" or "{"
	bare bool   // $NAME is a reference as well
	find func(r *File, ref string) (reference, error)
}

// expand replaces the references of a text as the client does. What the
// client leaves alone stays, with a warning where it looks like a
// reference that came to nothing. put gets every value that may be secret, and
// gives what is put in.
func (d *dialect) expand(r *File, n *tree.Node, put func(string) string) (string, error) {
	var b strings.Builder
	text := n.Text
	for {
		whole, name := d.next(text)
		if whole < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:whole])
		length := len(name)
		if strings.HasPrefix(text[whole:], d.open) {
			length += len(d.open) + 1
		} else {
			length++ // the dollar
		}
		written := text[whole : whole+length]
		text = text[whole+length:]
		ref, err := d.find(r, name)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", written, err)
		case !ref.known:
			b.WriteString(written)
		case ref.unset != "":
			become := "nothing"
			if !ref.empty {
				become = "the text " + written
				b.WriteString(written)
			}
			r.Warn(n.Pos, "the variable %s is not set; as in %s, the server gets %s in its place", ref.unset, r.client.title, become)
		default:
			if put != nil && !ref.plain && !ref.given {
				ref.value = put(ref.value)
			}
			b.WriteString(ref.value)
		}
	}
}

// Expand replaces the references of a text as the client does. put gets every
// value that may be secret, and gives what is put in; it may be nil.
func (r *File) Expand(n *tree.Node, put func(string) string) (string, error) {
	if r.client.dialect == nil {
		return n.Text, nil
	}
	return r.client.dialect.expand(r, n, put)
}

// next finds where the next reference starts, and what stands in it; -1 if
// there is none.
func (d *dialect) next(text string) (at int, name string) {
	for i := 0; i < len(text); i++ {
		if rest, ok := strings.CutPrefix(text[i:], d.open); ok {
			if end := strings.IndexByte(rest, '}'); end >= 0 {
				return i, rest[:end]
			}
		}
		if d.bare && text[i] == '$' {
			end := i + 1
			for end < len(text) && expand.IsVariable(text[i+1:end+1]) {
				end++
			}
			if end > i+1 {
				return i, text[i+1 : end]
			}
		}
	}
	return -1, ""
}

// variable looks a variable up whose absence makes the server misconfigured:
// nothing empty is ever put in silently, and no placeholder sent as a password.
func variable(r *File, name string) (reference, error) {
	v, ok := r.Env(name)
	if !ok {
		return reference{}, fmt.Errorf("the variable %s is not set", name)
	}
	return reference{value: v, known: true}, nil
}

// findClaude knows ${NAME} and ${NAME:-default}. Claude Code leaves a reference to a
// variable that is not set as it stands.
func findClaude(r *File, ref string) (reference, error) {
	name, standIn, hasDefault := strings.Cut(ref, ":-")
	if !expand.IsVariable(name) {
		return reference{}, nil
	}
	if r.Keep && hasDefault {
		return reference{value: expand.Keep(ref), known: true}, nil
	}
	v, ok := r.Env(name)
	switch {
	case ok && (v != "" || !hasDefault):
		return reference{value: v, known: true}, nil
	case hasDefault:
		return reference{value: standIn, known: true, given: true}, nil
	default:
		return reference{known: true, unset: name}, nil
	}
}

// envOrEmpty looks a variable up that is as good as empty where it is not set.
func (r *File) envOrEmpty(name string) (string, bool) {
	if r.Keep {
		return expand.Keep(name + ":-"), true
	}
	return r.Env(name)
}

func findGemini(r *File, name string) (reference, error) {
	if !expand.IsVariable(name) {
		return reference{}, nil
	}
	v, ok := r.envOrEmpty(name)
	if !ok {
		return reference{known: true, unset: name, empty: true}, nil
	}
	return reference{value: v, known: true}, nil
}

// findWindsurf knows ${env:NAME} and ${file:path}.
func findWindsurf(r *File, ref string) (reference, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		return variable(r, name)
	case "file":
		v, err := r.ReadFile(name)
		return reference{value: v, known: true}, err
	default:
		return reference{}, nil
	}
}

// findEditor knows the references of Cursor and VS Code.
func findEditor(r *File, ref string) (reference, error) {
	kind, name, _ := strings.Cut(ref, ":")
	path := func(v string) (reference, error) { return reference{value: v, known: true, plain: true}, nil }
	switch {
	case kind == "env":
		return variable(r, name)
	case kind == "input":
		return r.input(name)
	case ref == "userHome":
		home, err := r.Home()
		return reference{value: home, known: true, plain: true}, err
	case ref == "workspaceFolder", ref == "workspaceFolderBasename":
		abs, err := filepath.Abs(r.Folder())
		if ref != "workspaceFolder" {
			abs = filepath.Base(abs)
		}
		return reference{value: abs, known: true, plain: true}, err
	case ref == "pathSeparator", ref == "/":
		return path(string(filepath.Separator))
	default:
		return reference{}, nil
	}
}
