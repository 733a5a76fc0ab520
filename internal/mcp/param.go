package mcp

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/wire"
)

// paramKey marks an argument that a header repeats (2026-07-28
// basic/transports/streamable-http, Custom Headers from Tool Parameters).
const paramKey = "x-mcp-header"

// A HeaderParam is an argument that a tool's schema marks with x-mcp-header.
type HeaderParam struct {
	Path []string // of the argument, below "arguments"
	Name string   // the part of the header's name behind HeaderParamPrefix
}

// Header is the name of the header.
func (p HeaderParam) Header() string { return HeaderParamPrefix + p.Name }

// Value is what the header repeats, not yet encoded; false if there is no
// header, because the argument is absent or no plain value.
func (p HeaderParam) Value(arguments []byte) (string, bool) {
	raw := wire.Get(arguments, p.Path...)
	if text, ok := wire.Text(raw); ok {
		return text, true
	}
	if n, ok := wire.Int(raw); ok {
		return strconv.FormatInt(n, 10), true
	}
	return string(raw), raw != nil && !wire.IsNull(raw) && !wire.IsObject(raw) && !wire.IsArray(raw)
}

// Equal reports whether a decoded header repeats a raw argument. Whole numbers are
// compared as numbers.
func (p HeaderParam) Equal(header string, argument []byte) bool {
	if text, ok := wire.Text(argument); ok {
		return header == text
	}
	if b, ok := wire.Bool(argument); ok {
		return header == strconv.FormatBool(b)
	}
	n, ok := wire.Int(argument)
	m, okHeader := wire.Int([]byte(header))
	return ok && okHeader && n == m
}

// maxSchemaDepth bounds how deep marks are looked for.
const maxSchemaDepth = 64

// HeaderParams reads the marks of an input schema. problem is why they break
// the specification, which makes the whole tool invalid; "" if they do not.
func HeaderParams(inputSchema []byte) (params []HeaderParam, problem string) {
	if !bytes.Contains(inputSchema, []byte(paramKey)) && !bytes.Contains(inputSchema, []byte(`\u`)) {
		return nil, "" // most tools
	}
	r := paramReader{seen: map[string]bool{}}
	r.schema(inputSchema, nil, true, 0)
	if r.problem != "" {
		return nil, r.problem
	}
	return r.params, ""
}

type paramReader struct {
	params  []HeaderParam
	seen    map[string]bool // names in lower case
	problem string
}

// The keywords of JSON Schema, of all drafts, that hold schemas: by name, and
// one or a list of them.
var (
	schemasByName = []string{"properties", "$defs", "definitions", "dependentSchemas", "patternProperties", "dependencies"}
	schemasWithin = []string{
		"anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties", "additionalItems", "contains",
		"propertyNames", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
)

// schema reads one schema. path is the way to its value below the arguments;
// reachable means that every step of it is a property.
func (r *paramReader) schema(raw []byte, path []string, reachable bool, depth int) {
	if !wire.IsObject(raw) || depth > maxSchemaDepth || r.problem != "" {
		return
	}
	if name := wire.Get(raw, paramKey); name != nil {
		r.param(name, wire.Get(raw, "type"), path, reachable)
	}
	for key, value := range wire.Members(raw) {
		switch {
		case slices.Contains(schemasByName, key):
			for name, sub := range wire.Members(value) {
				r.schema(sub, append(slices.Clip(path), name), reachable && key == "properties", depth+1)
			}
		case slices.Contains(schemasWithin, key):
			r.schema(value, path, false, depth+1)
			for sub := range wire.Elements(value) {
				r.schema(sub, path, false, depth+1)
			}
		}
	}
}

// param takes one marked parameter. The type "number" is not allowed: one
// number has many texts.
func (r *paramReader) param(raw, kind []byte, path []string, reachable bool) {
	name, _ := wire.Text(raw)
	kindName, _ := wire.Text(kind)
	low := strings.ToLower(name)
	switch {
	case !IsHeaderName(name):
		r.problem = paramKey + " is not a header name: " + string(raw[:min(len(raw), 80)])
	case !reachable || len(path) == 0:
		r.problem = paramKey + " " + name + " is not on a property that can be reached through properties alone"
	case !slices.Contains([]string{"string", "integer", "boolean"}, kindName):
		r.problem = paramKey + " " + name + " is on a parameter that is no string, integer or boolean"
	case r.seen[low]:
		r.problem = paramKey + " " + name + " is used more than once"
	default:
		r.seen[low] = true
		r.params = append(r.params, HeaderParam{Path: path, Name: name})
	}
}
