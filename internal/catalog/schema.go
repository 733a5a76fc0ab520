package catalog

import (
	"fmt"
	"slices"
	"strconv"
)

// A schema mends one of a tool's schemas so that clients and model APIs take
// it. An input schema is changed without ever refusing arguments that it would
// have accepted as it was sent: what means nothing new is added, and what has
// no meaning is taken away. An output schema that is not right is not mended,
// because clients check results against it.
type schema struct {
	notes  *notes
	output bool
	broken string // the first thing that was not right, beside nulls
}

// fix notes something that is not right.
func (s *schema) fix(format string, args ...any) {
	s.notes.add(format, args...)
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
	}
}

// Limits of what is looked into; what is beyond stays as it is.
const (
	maxDepth  = 64
	maxSchema = 1 << 20 // bytes
)

var anyObject = []byte(`{"type":"object"}`)

// input mends an input schema; reason is why it cannot be mended.
func (s *schema) input(raw []byte) (mended []byte, reason string) {
	switch kindOf(raw) {
	case 0:
		s.fix("has no inputSchema; any object is taken")
		return anyObject, ""
	case 'n', 't':
		s.fix("inputSchema is %s; any object is taken", raw)
		return anyObject, ""
	case '[':
		if all, _ := elements(raw); len(all) == 0 { // an empty object as PHP encodes it
			s.fix("inputSchema is []; any object is taken")
			return anyObject, ""
		}
	}
	o, ok := parseObject(raw)
	if !ok {
		return nil, "inputSchema is not an object"
	}
	if !s.takesObject(&o) {
		return nil, "inputSchema takes no object: its type is " + clip(o.get("type"))
	}
	s.mend(&o, "inputSchema", 0)
	return o.bytes(), ""
}

// takesObject makes the type of a whole input schema "object", unless it says
// plainly that it is something else. Arguments are always an object, so that
// nothing is refused by it.
func (s *schema) takesObject(o *object) bool {
	t := o.get("type")
	all, many := elements(t)
	if !many {
		all = [][]byte{t}
	}
	known := 0
	for _, e := range all {
		switch typeOf(e) {
		case "object":
			known = -1
		case "":
			continue
		}
		if known < 0 {
			break
		}
		known++
	}
	if known > 0 {
		return false
	}
	if t != nil && text(t) != "object" {
		s.fix("inputSchema.type is %s; read as \"object\"", clip(t))
		o.set("type", []byte(`"object"`))
	}
	return true
}

// checkOutput mends what means nothing in an output schema, and tells why the
// schema is not right; "" if it is.
func (s *schema) checkOutput(raw []byte) (mended []byte, reason string) {
	o, ok := parseObject(raw)
	if !ok {
		return nil, "not an object"
	}
	s.output = true
	s.mend(&o, "outputSchema", 1)
	return o.bytes(), s.broken
}

// Where schemas hold schemas (JSON Schema 2020-12 and draft 7).
var (
	schemaMaps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	schemaLists = []string{"anyOf", "oneOf", "allOf", "prefixItems"}
	schemaOnes  = []string{
		"items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties",
	}
	// A null of these is as good as absent; of others it may be a value.
	schemaOptional = []string{
		"$schema", "$id", "$ref", "$comment", "title", "description", "format", "pattern", "required", "enum",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	}
)

// mend mends one schema and all in it.
func (s *schema) mend(o *object, where string, depth int) {
	if depth == maxDepth || len(o.raw) > maxSchema {
		s.notes.add("%s is too large or too deep to be checked", where)
		return
	}
	for _, m := range o.members {
		at := where + "." + m.key
		switch {
		case kindOf(m.value) == 'n' && s.optional(m.key):
			s.notes.add("%s is null; removed", at)
			o.remove(m.key)
		case m.key == "type":
			s.mendType(o, m, at)
		case m.key == "required":
			if !isTexts(m.value) {
				s.fix("%s is not a list of names; removed", at)
				o.remove(m.key)
			}
		case m.key == "enum" && kindOf(m.value) != '[':
			s.fix("%s is not a list; removed", at)
			o.remove(m.key)
		case slices.Contains(schemaMaps, m.key):
			s.mendMap(o, m, at, depth)
		case slices.Contains(schemaLists, m.key), m.key == "items" && kindOf(m.value) == '[':
			s.mendList(o, m, at, depth)
		case slices.Contains(schemaOnes, m.key):
			if v, ok := s.one(m.value, at, depth); ok {
				o.set(m.key, v)
			}
		}
	}
	s.complete(o, where, depth)
}

func (s *schema) optional(key string) bool {
	return slices.Contains(schemaOptional, key) || slices.Contains(schemaMaps, key) ||
		slices.Contains(schemaLists, key) || slices.Contains(schemaOnes, key)
}

// complete adds what schemas may leave out but many readers miss.
func (s *schema) complete(o *object, where string, depth int) {
	if depth == 0 && o.get("type") == nil {
		s.fix("%s has no type; \"object\" added", where)
		o.set("type", []byte(`"object"`))
	}
	if !s.output && text(o.get("type")) == "array" && o.get("items") == nil && o.get("prefixItems") == nil {
		s.fix("%s is an array without items; {} added", where)
		o.set("items", []byte(`{}`))
	}
}

var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// typeWords are names that other type systems have for the types.
var typeWords = map[string]string{
	"int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
	"float": "number", "float64": "number", "double": "number", "decimal": "number",
	"str": "string", "text": "string", "bool": "boolean",
	"dict": "object", "map": "object", "struct": "object", "list": "array", "none": "null",
}

// typeOf returns the type's right name; "" if there is none.
func typeOf(raw []byte) string {
	t := text(raw)
	if slices.Contains(types, t) {
		return t
	}
	return typeWords[t]
}

// mendType gives types their right names, and removes those that have none.
func (s *schema) mendType(o *object, m member, at string) {
	all, many := elements(m.value)
	if !many {
		all = [][]byte{m.value}
	}
	var right [][]byte
	same := true
	for _, raw := range all {
		t := typeOf(raw)
		same = same && t == text(raw) && t != ""
		if t != "" {
			right = append(right, quote(t))
		}
	}
	switch {
	case same && len(all) > 0:
	case len(right) < len(all), len(all) == 0: // an unknown type may have meant anything
		s.fix("%s is %s; removed", at, clip(m.value))
		o.remove("type")
	case many:
		s.fix("%s is %s; read as %s", at, m.value, array(right))
		o.set("type", array(right))
	default:
		s.fix("%s is %s; read as %s", at, m.value, right[0])
		o.set("type", right[0])
	}
}

// mendMap mends the schemas under names, such as properties.
func (s *schema) mendMap(o *object, m member, at string, depth int) {
	sub, ok := parseObject(m.value)
	if !ok {
		s.fix("%s is not an object; removed", at)
		o.remove(m.key)
		return
	}
	kept := make([]member, 0, len(sub.members))
	for _, p := range sub.members {
		here := at + "." + p.key
		if p.key == "required" && isTexts(p.value) { // meant one level higher
			s.fix("%s is no schema; removed", here)
			sub.touched = true
			continue
		}
		if v, ok := s.one(p.value, here, depth); ok {
			p = newMember(p.key, v)
			sub.touched = true
		}
		kept = append(kept, p)
	}
	sub.members = kept
	o.keep(m.key, &sub)
}

// mendList mends the schemas of a list, such as anyOf.
func (s *schema) mendList(o *object, m member, at string, depth int) {
	all, ok := elements(m.value)
	if !ok || len(all) == 0 && m.key != "items" {
		s.fix("%s is not a list of schemas; removed", at)
		o.remove(m.key)
		return
	}
	touched := false
	for i := range all {
		if v, ok := s.one(all[i], at+"["+strconv.Itoa(i)+"]", depth); ok {
			all[i], touched = v, true
		}
	}
	if touched {
		o.set(m.key, array(all))
	}
}

// one mends one schema in another. ok is false if it can stay as it is.
func (s *schema) one(raw []byte, at string, depth int) (mended []byte, ok bool) {
	switch kindOf(raw) {
	case 't', 'f':
		return nil, false
	case '{':
		o, _ := parseObject(raw)
		s.mend(&o, at, depth+1)
		return o.bytes(), o.touched
	default:
		s.fix("%s is no schema; anything is taken", at)
		return []byte("{}"), true
	}
}

func isTexts(raw []byte) bool {
	all, ok := elements(raw)
	return ok && !slices.ContainsFunc(all, func(e []byte) bool { return kindOf(e) != '"' })
}

// clip shortens a value for a warning.
func clip(raw []byte) string { return string(raw[:min(len(raw), 80)]) }
