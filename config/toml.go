package config

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/everline/everline/fault"
)

// parseTOML lets the strict decoder judge the text first, and then builds the
// tree from the expressions, which know their places.
func parseTOML(file string, data []byte) (*node, *fault.Fault) {
	const remedy = "mend the TOML at that place"
	var ignored map[string]any
	if err := toml.Unmarshal(data, &ignored); err != nil {
		var at pos
		text := err.Error()
		var syntax *toml.DecodeError
		if errors.As(err, &syntax) {
			at.line, at.col = syntax.Position()
		}
		return nil, invalid(file, at, remedy, "broken TOML: %s", strings.TrimPrefix(text, "toml: "))
	}
	r := tomlReader{file: file, lines: newLines(data)}
	r.parser.Reset(data)
	root := &node{kind: objectNode, at: pos{1, 1}}
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
		return nil, invalid(file, pos{}, remedy, "broken TOML: %v", err)
	}
	return root, nil
}

type tomlReader struct {
	file   string
	parser unstable.Parser
	lines  *lines
}

func (r *tomlReader) place(n *unstable.Node) pos { return r.lines.at(int(n.Raw.Offset)) }

// enter returns the table of this name in t, making it where it is new. Of an
// array of tables it is the last one.
func (r *tomlReader) enter(t *node, key *unstable.Node) *node {
	name := string(key.Data)
	c := t.get(name)
	if c == nil {
		c = &node{kind: objectNode, at: r.place(key)}
		t.fields = append(t.fields, field{name, c.at, c})
	}
	if c.kind == listNode && len(c.list) > 0 {
		c = c.list[len(c.list)-1]
	}
	return c
}

func (r *tomlReader) descend(t *node, keys unstable.Iterator) *node {
	for keys.Next() {
		t = r.enter(t, keys.Node())
	}
	return t
}

func (r *tomlReader) appendTable(t *node, keys unstable.Iterator) *node {
	for keys.Next() {
		key := keys.Node()
		if !keys.IsLast() {
			t = r.enter(t, key)
			continue
		}
		name, at := string(key.Data), r.place(key)
		list := t.get(name)
		if list == nil {
			list = &node{kind: listNode, at: at}
			t.fields = append(t.fields, field{name, at, list})
		}
		t = &node{kind: objectNode, at: at}
		list.list = append(list.list, t)
	}
	return t
}

func (r *tomlReader) keyValue(t *node, e *unstable.Node, depth int) *fault.Fault {
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
		t.fields = append(t.fields, field{string(key.Data), at, v})
	}
	return nil
}

// value reads a value; composite values have no place of their own and get
// that of their key.
func (r *tomlReader) value(v *unstable.Node, key pos, depth int) (*node, *fault.Fault) {
	n := &node{at: key, text: string(v.Data)}
	if depth > maxDepth {
		return nil, invalid(r.file, key, "write it flatter", "nested too deeply")
	}
	if v.Raw.Length > 0 {
		n.at = r.place(v)
	}
	switch v.Kind {
	case unstable.Array:
		n.kind, n.text = listNode, ""
		for it := v.Children(); it.Next(); {
			c, err := r.value(it.Node(), key, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, c)
		}
	case unstable.InlineTable:
		n.kind, n.text = objectNode, ""
		for it := v.Children(); it.Next(); {
			if err := r.keyValue(n, it.Node(), depth+1); err != nil {
				return nil, err
			}
		}
	case unstable.Bool:
		n.kind = boolNode
	case unstable.Integer, unstable.Float:
		n.kind = numberNode
	default: // strings, and dates, which are text here
		n.kind = stringNode
	}
	return n, nil
}
