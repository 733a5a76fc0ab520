package catalog

import (
	"bytes"
	"slices"
	"strings"
)

// headerKey marks an argument that is mirrored in a header (Streamable HTTP,
// "Custom Headers from Tool Parameters").
const headerKey = "x-mcp-header"

// headers reads the x-mcp-header annotations of an input schema; bad is why
// they break the specification.
func headers(inputSchema []byte) (params []HeaderParam, bad string) {
	if !bytes.Contains(inputSchema, []byte(headerKey)) && !bytes.Contains(inputSchema, []byte(`\u`)) {
		return nil, "" // most tools
	}
	r := headerReader{seen: map[string]bool{}}
	r.schema(inputSchema, nil, true, 0)
	if r.bad != "" {
		return nil, r.bad
	}
	return r.params, ""
}

type headerReader struct {
	params []HeaderParam
	seen   map[string]bool // names in lower case
	bad    string
}

// schema reads one schema. path is the way to its value below the arguments;
// reachable means that every step of it is a property.
func (r *headerReader) schema(raw []byte, path []string, reachable bool, depth int) {
	o, ok := parseObject(raw)
	if !ok || depth > maxDepth || r.bad != "" {
		return
	}
	if value := o.get(headerKey); value != nil {
		r.param(&o, value, path, reachable)
	}
	for _, m := range o.members {
		switch k := keywords[m.key]; {
		case m.key == "properties":
			r.named(m.value, path, reachable, depth)
		case k == schemaMap, k == patternMap, k == dependencyMap:
			r.named(m.value, path, false, depth)
		case k == schemaOne, k == schemaList, k == itemsValue:
			for _, sub := range k.schemas(m.value) {
				r.schema(sub, path, false, depth+1)
			}
		}
	}
}

// named reads the schemas under names.
func (r *headerReader) named(raw []byte, path []string, reachable bool, depth int) {
	o, ok := parseObject(raw)
	if !ok {
		return
	}
	for _, m := range o.members {
		r.schema(m.value, append(slices.Clip(path), m.key), reachable, depth+1)
	}
}

// param takes one annotated parameter. The type "number" is not allowed: one
// number has many texts.
func (r *headerReader) param(o *object, value []byte, path []string, reachable bool) {
	name := text(value)
	low := strings.ToLower(name)
	switch {
	case !token(name):
		r.bad = headerKey + " is not a header name: " + clip(value)
	case !reachable || len(path) == 0:
		r.bad = headerKey + " " + name + " is not on a property that can be reached through properties alone"
	case !slices.Contains([]string{"string", "integer", "boolean"}, text(o.get("type"))):
		r.bad = headerKey + " " + name + " is on a parameter that is no string, integer or boolean"
	case r.seen[low]:
		r.bad = headerKey + " " + name + " is used more than once"
	default:
		r.seen[low] = true
		r.params = append(r.params, HeaderParam{Path: path, Header: name})
	}
}

// token tells whether s is a token of RFC 9110 section 5.6.2.
func token(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return refused(c) && !strings.ContainsRune("!#$%&'*+.^`|~", c)
	}) < 0
}
