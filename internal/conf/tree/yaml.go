package tree

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/everline/everline/fault"
)

// ParseYAML reads a text as YAML, whatever its file is called.
func ParseYAML(file string, data []byte) (*Node, *fault.Fault) {
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at Pos
		text := err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at, text = tokenPlace(syntax.GetToken()), syntax.GetMessage()
		}
		return nil, Invalid(file, at, "fix the YAML at that place", "broken YAML: %s", text)
	}
	empty := &Node{Kind: Object, Pos: Pos{1, 1}}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return empty, nil
	}
	if len(parsed.Docs) > 1 {
		return nil, Invalid(file, tokenPlace(parsed.Docs[1].Start), "keep one document in the file", "a second YAML document")
	}
	r := yamlReader{file: file, anchors: map[string]ast.Node{}}
	return r.node(parsed.Docs[0].Body, 0)
}

func tokenPlace(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{}
	}
	return Pos{t.Position.Line, t.Position.Column}
}

type yamlReader struct {
	file    string
	anchors map[string]ast.Node
	count   int
}

func (r *yamlReader) fail(n ast.Node, format string, args ...any) *fault.Fault {
	return Invalid(r.file, tokenPlace(n.GetToken()), "write it out plainly", format, args...)
}

func (r *yamlReader) node(v ast.Node, depth int) (*Node, *fault.Fault) {
	if v == nil {
		return &Node{}, nil
	}
	if r.count++; depth > maxDepth || r.count > maxNodes {
		return nil, r.fail(v, "nested too deeply, or too much through aliases")
	}
	n := &Node{Pos: tokenPlace(v.GetToken())}
	switch v := v.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.Kind, n.Text = Bool, v.String()
		if v.Value {
			n.Text = "true"
		} else {
			n.Text = "false"
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Text = Number, v.GetToken().Value
	case *ast.StringNode:
		n.Kind, n.Text = String, v.Value
	case *ast.LiteralNode:
		n.Kind, n.Text = String, v.Value.Value
	case *ast.SequenceNode:
		return r.sequence(n, v, depth)
	case *ast.MappingNode:
		return r.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.AnchorNode:
		r.anchors[v.Name.GetToken().Value] = v.Value
		return r.node(v.Value, depth+1)
	case *ast.AliasNode:
		target, ok := r.anchors[v.Value.GetToken().Value]
		if !ok {
			return nil, r.fail(v, "no anchor of this name before the alias")
		}
		return r.node(target, depth+1)
	case *ast.TagNode:
		return r.tagged(v, depth)
	default:
		return nil, r.fail(v, "this kind of YAML has no meaning in a configuration")
	}
	return n, nil
}

// tagged obeys !!str, the one tag that changes how a plain scalar is read here.
func (r *yamlReader) tagged(v *ast.TagNode, depth int) (*Node, *fault.Fault) {
	n, err := r.node(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	if v.Start.Value == "!!str" && (n.Kind == Number || n.Kind == Bool) {
		n.Kind = String
	}
	return n, nil
}

func (r *yamlReader) sequence(n *Node, v *ast.SequenceNode, depth int) (*Node, *fault.Fault) {
	n.Kind = List
	for _, e := range v.Values {
		c, err := r.node(e, depth+1)
		if err != nil {
			return nil, err
		}
		n.List = append(n.List, c)
	}
	return n, nil
}

// mapping reads a block or flow mapping, with what is merged into it by "<<".
func (r *yamlReader) mapping(n *Node, values []*ast.MappingValueNode, depth int) (*Node, *fault.Fault) {
	n.Kind = Object
	var merged []Field
	for i, m := range values {
		key := m.Key.GetToken()
		if i == 0 {
			n.Pos = tokenPlace(key)
		}
		c, err := r.node(m.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if m.Key.IsMergeKey() {
			merged = append(merged, mergeFields(c)...)
			continue
		}
		n.Fields = append(n.Fields, Field{key.Value, tokenPlace(key), c})
	}
	for _, f := range merged { // what is written out wins over what is merged in
		if n.Get(f.Name) == nil {
			n.Fields = append(n.Fields, f)
		}
	}
	return n, nil
}

func mergeFields(n *Node) []Field {
	if n.Kind != List {
		return n.Fields
	}
	var all []Field
	for _, e := range n.List {
		all = append(all, e.Fields...)
	}
	return all
}
