package config

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/everline/everline/fault"
)

func parseYAML(file string, data []byte) (*node, *fault.Fault) {
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at pos
		text := err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at, text = tokenPlace(syntax.GetToken()), syntax.GetMessage()
		}
		return nil, invalid(file, at, "mend the YAML at that place", "broken YAML: %s", text)
	}
	empty := &node{kind: objectNode, at: pos{1, 1}}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return empty, nil
	}
	if len(parsed.Docs) > 1 {
		return nil, invalid(file, tokenPlace(parsed.Docs[1].Start), "keep one document in the file", "a second YAML document")
	}
	r := yamlReader{file: file, anchors: map[string]ast.Node{}}
	return r.node(parsed.Docs[0].Body, 0)
}

func tokenPlace(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{}
	}
	return pos{t.Position.Line, t.Position.Column}
}

type yamlReader struct {
	file    string
	anchors map[string]ast.Node
	count   int
}

func (r *yamlReader) fail(n ast.Node, format string, args ...any) *fault.Fault {
	return invalid(r.file, tokenPlace(n.GetToken()), "write it out plainly", format, args...)
}

func (r *yamlReader) node(v ast.Node, depth int) (*node, *fault.Fault) {
	if v == nil {
		return &node{}, nil
	}
	if r.count++; depth > maxDepth || r.count > maxNodes {
		return nil, r.fail(v, "nested too deeply, or too much through aliases")
	}
	n := &node{at: tokenPlace(v.GetToken())}
	switch v := v.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.text = boolNode, v.String()
		if v.Value {
			n.text = "true"
		} else {
			n.text = "false"
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = numberNode, v.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = stringNode, v.Value
	case *ast.LiteralNode:
		n.kind, n.text = stringNode, v.Value.Value
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
func (r *yamlReader) tagged(v *ast.TagNode, depth int) (*node, *fault.Fault) {
	n, err := r.node(v.Value, depth+1)
	if err != nil {
		return nil, err
	}
	if v.Start.Value == "!!str" && (n.kind == numberNode || n.kind == boolNode) {
		n.kind = stringNode
	}
	return n, nil
}

func (r *yamlReader) sequence(n *node, v *ast.SequenceNode, depth int) (*node, *fault.Fault) {
	n.kind = listNode
	for _, e := range v.Values {
		c, err := r.node(e, depth+1)
		if err != nil {
			return nil, err
		}
		n.list = append(n.list, c)
	}
	return n, nil
}

func (r *yamlReader) mapping(n *node, values []*ast.MappingValueNode, depth int) (*node, *fault.Fault) {
	n.kind = objectNode
	var merged []field
	for i, m := range values {
		key := m.Key.GetToken()
		if i == 0 {
			n.at = tokenPlace(key)
		}
		c, err := r.node(m.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if m.Key.IsMergeKey() {
			merged = append(merged, mergeFields(c)...)
			continue
		}
		n.fields = append(n.fields, field{key.Value, tokenPlace(key), c})
	}
	for _, f := range merged { // what is written out wins over what is merged in
		if n.get(f.name) == nil {
			n.fields = append(n.fields, f)
		}
	}
	return n, nil
}

func mergeFields(n *node) []field {
	if n.kind != listNode {
		return n.fields
	}
	var all []field
	for _, e := range n.list {
		all = append(all, e.fields...)
	}
	return all
}
