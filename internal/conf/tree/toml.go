package tree

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/everline/everline/fault"
)

// parseTOML lets the strict decoder judge the text first, and then builds the
// tree from the expressions, which know their places.
func parseTOML(file string, data []byte) (*Node, *fault.Fault) {
	const remedy = "fix the TOML at that place"
	var ignored map[string]any
	if err := toml.Unmarshal(data, &ignored); err != nil {
		var at Pos
		text := err.Error()
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			at.Line, at.col = syntax.Position()
		}
		return nil, Invalid(file, at, remedy, "broken TOML: %s", strings.TrimPrefix(text, "toml: "))
	}
	r := tomlReader{file: file, lines: newLines(data)}
	r.parser.Reset(data)
	root := &Node{Kind: Object, Pos: Pos{1, 1}}
	table := root
	for r.parser.NextExpression() {
		e := r.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			table = r.descend(root, e.Key())
		case unstable.ArrayTable:
			table = r.appendTable(root, e.Key())
		case unstable.KeyValue:
			if err := r.keyValue(table, e, 0); err != nil {
				return nil, err
			}
		default:
		}
	}
	if err := r.parser.Error(); err != nil {
		return nil, Invalid(file, Pos{}, remedy, "broken TOML: %v", err)
	}
	return root, nil
}

type tomlReader struct {
	file   string
	parser unstable.Parser
	lines  *lines
}

func (r *tomlReader) place(n *unstable.Node) Pos { return r.lines.at(int(n.Raw.Offset)) }

// enter returns the table of this name in t, making it where it is new. Of an
// array of tables it is the last one.
func (r *tomlReader) enter(t *Node, key *unstable.Node) *Node {
	name := string(key.Data)
	c := t.Get(name)
	if c == nil {
		c = &Node{Kind: Object, Pos: r.place(key)}
		t.Fields = append(t.Fields, Field{name, c.Pos, c})
	}
	if c.Kind == List && len(c.List) > 0 {
		c = c.List[len(c.List)-1]
	}
	return c
}

func (r *tomlReader) descend(t *Node, keys unstable.Iterator) *Node {
	for keys.Next() {
		t = r.enter(t, keys.Node())
	}
	return t
}

// appendTable adds a table to an array of tables, which it makes where it is new.
func (r *tomlReader) appendTable(t *Node, keys unstable.Iterator) *Node {
	for keys.Next() {
		key := keys.Node()
		if !keys.IsLast() {
			t = r.enter(t, key)
			continue
		}
		name, at := string(key.Data), r.place(key)
		list := t.Get(name)
		if list == nil {
			list = &Node{Kind: List, Pos: at}
			t.Fields = append(t.Fields, Field{name, at, list})
		}
		t = &Node{Kind: Object, Pos: at}
		list.List = append(list.List, t)
	}
	return t
}

// keyValue adds a value under a key, which may be dotted.
func (r *tomlReader) keyValue(t *Node, e *unstable.Node, depth int) *fault.Fault {
	keys := e.Key()
	for keys.Next() {
		key := keys.Node()
		if !keys.IsLast() {
			t = r.enter(t, key)
			continue
		}
		at := r.place(key)
		v, err := r.value(e.Value(), at, depth)
		if err != nil {
			return err
		}
		t.Fields = append(t.Fields, Field{string(key.Data), at, v})
	}
	return nil
}

// value reads a value; composite values have no place of their own and get
// that of their key.
func (r *tomlReader) value(v *unstable.Node, key Pos, depth int) (*Node, *fault.Fault) {
	n := &Node{Pos: key, Text: string(v.Data)}
	if depth > maxDepth {
		return nil, Invalid(r.file, key, "write it flatter", "nested too deeply")
	}
	if v.Raw.Length > 0 {
		n.Pos = r.place(v)
	}
	switch v.Kind {
	case unstable.Array:
		n.Kind, n.Text = List, ""
		for it := v.Children(); it.Next(); {
			c, err := r.value(it.Node(), key, depth+1)
			if err != nil {
				return nil, err
			}
			n.List = append(n.List, c)
		}
	case unstable.InlineTable:
		n.Kind, n.Text = Object, ""
		for it := v.Children(); it.Next(); {
			if err := r.keyValue(n, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Bool:
		n.Kind = Bool
	case unstable.Integer, unstable.Float:
		n.Kind = Number
	default: // strings, and dates, which are text here
		n.Kind = String
	}
	return n, nil
}
