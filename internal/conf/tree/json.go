package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/everline/everline/fault"
)

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(file string, data []byte) (*Node, *fault.Fault) {
	const remedy = "fix the JSON at that place"
	if deep(data) {
		return nil, Invalid(file, Pos{}, remedy, "the JSON is nested too deeply")
	}
	root, err := ParseHuJSON(data)
	if err != nil {
		cause := err
		if inner := errors.Unwrap(err); inner != nil {
			cause = inner
		}
		what := cause.Error()
		if strings.HasPrefix(what, "invalid literal: ") { // the rest is the text itself, which may be a secret
			what = "invalid literal; a string needs quotes around it, and a backslash in it is written twice"
		}
		return nil, Invalid(file, jsonErrorPlace(err), remedy, "broken JSON: %s", what)
	}
	r := jsonReader{file: file, lines: newLines(data)}
	return r.node(root, 0)
}

// ParseHuJSON also takes a last line that is a comment without a line end,
// which the parser refuses. Errors are those of the text as it is.
func ParseHuJSON(data []byte) (hujson.Value, error) {
	root, err := hujson.Parse(data)
	if err == nil {
		return root, nil
	}
	if ended, endedErr := hujson.Parse(append(data[:len(data):len(data)], '\n')); endedErr == nil {
		return ended, nil
	}
	return root, err
}

// jsonErrorPlace reads the place out of the parser's error, which carries it
// in no other way. Where that fails the message is still right, only without
// its place; a test holds the two together.
func jsonErrorPlace(err error) Pos {
	var at Pos
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &at.Line, &at.col); scanErr != nil {
		return Pos{}
	}
	return at
}

// deep tells whether the brackets could be nested beyond what the recursive
// parser may be given. It overestimates where strings hold brackets, which
// only matters to text that is no configuration.
func deep(data []byte) bool {
	depth := 0
	for _, c := range data {
		switch c {
		case '{', '[':
			if depth++; depth > 20*maxDepth {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

type jsonReader struct {
	file  string
	lines *lines
}

// node turns a value into a node. Duplicate names stay: the reader of the tree
// decides which one counts, and says so.
func (r *jsonReader) node(v hujson.Value, depth int) (*Node, *fault.Fault) {
	n := &Node{Pos: r.lines.at(v.StartOffset)}
	if depth > maxDepth {
		return nil, Invalid(r.file, n.Pos, "write it flatter", "nested too deeply")
	}
	switch v := v.Value.(type) {
	case hujson.Literal:
		readLiteral(n, v)
	case *hujson.Array:
		n.Kind = List
		for _, e := range v.Elements {
			c, err := r.node(e, depth+1)
			if err != nil {
				return nil, err
			}
			n.List = append(n.List, c)
		}
	case *hujson.Object:
		n.Kind = Object
		for _, m := range v.Members {
			c, err := r.node(m.Value, depth+1)
			if err != nil {
				return nil, err
			}
			name, _ := m.Name.Value.(hujson.Literal)
			n.Fields = append(n.Fields, Field{name.String(), r.lines.at(m.Name.StartOffset), c})
		}
	}
	return n, nil
}

func readLiteral(n *Node, v hujson.Literal) {
	switch v.Kind() {
	case '"':
		n.Kind, n.Text = String, v.String()
	case 't', 'f':
		n.Kind, n.Text = Bool, string(v)
	case 'n':
		n.Kind = Null
	default:
		n.Kind, n.Text = Number, string(v)
	}
}
