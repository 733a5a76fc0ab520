package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/typed"
)

// arguments are a tool's arguments as they were typed. What a word means is
// known only once the tool's schema is.
type arguments struct {
	object json.RawMessage // all of them; nil where there are words
	words  []argument
}

// An argument is key=value, or key:=JSON.
type argument struct {
	key, value string
	raw        bool // the value is JSON
}

const argumentsRemedy = `everline call server.tool '{"key": "value"}'`

// typedArguments reads the command line, or stdin for "-".
func (a *app) typedArguments(words []string) (arguments, error) {
	text := []byte("{}")
	switch {
	case len(words) == 1 && words[0] == "-":
		var err error
		if text, err = io.ReadAll(a.in); err != nil {
			return arguments{}, usage(argumentsRemedy, "stdin cannot be read: %w", err)
		}
	case len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "{"):
		text = []byte(words[0])
	case len(words) > 0:
		return splitArguments(words)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return arguments{}, usage(argumentsRemedy, "the arguments are not a JSON object: %s", jsonProblem(err))
	}
	return arguments{object: text}, nil
}

func splitArguments(words []string) (arguments, error) {
	var all arguments
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		key, raw := strings.CutSuffix(key, ":")
		switch {
		case !ok || key == "":
			return all, usage("everline call server.tool key=value", "%q is neither key=value nor a JSON object", word)
		case raw && !json.Valid([]byte(value)):
			return all, usage("everline call server.tool "+key+"="+value, "what follows %s:= is not JSON: %s", key, value)
		}
		all.words = append(all.words, argument{key, value, raw})
	}
	return all, nil
}

// encode makes the JSON object that a tool with this input schema gets, with
// the keys in the order in which they were typed. about is what shows the schema.
func (a arguments) encode(input json.RawMessage, about string) (json.RawMessage, error) {
	if a.words == nil {
		return a.object, nil
	}
	s := schemas{root: input}
	var b bytes.Buffer
	seen := map[string]bool{}
	for _, w := range a.words {
		if seen[w.key] {
			continue // it stands with its first
		}
		seen[w.key] = true
		property, known := s.property(input, w.key, 0)
		if !known && s.isClosed(input) {
			return nil, unknownArgument(w.key, s.names(input), about)
		}
		value, err := s.values(a.of(w.key), property)
		if err != nil {
			return nil, usage(about, "%s %w", w.key, err)
		}
		b.WriteByte("{,"[min(b.Len(), 1)])
		b.WriteString(quoted(w.key))
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// forTool is encode with the schema of the tool that is called.
func (a arguments) forTool(ctx context.Context, c *admin.Client, req admin.CallRequest, target string) (json.RawMessage, error) {
	if a.words == nil {
		return a.object, nil
	}
	tools, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	var input json.RawMessage // nil, of a tool that has gone just now, allows anything
	for _, t := range tools {
		if isTool(t, req) {
			input = definitionOf(t).Input
		}
	}
	return a.encode(input, "everline tools show "+target)
}

// isTool tells whether a call is one of this tool.
func isTool(t admin.Tool, req admin.CallRequest) bool {
	return t.Server == req.Server && t.Tool == req.Tool || req.Server == "" && t.Name == req.Tool
}

func (a arguments) of(key string) []argument {
	return slices.DeleteFunc(slices.Clone(a.words), func(w argument) bool { return w.key != key })
}

func unknownArgument(key string, names []string, about string) error {
	if near := typed.Nearest(key, names); near != "" {
		about = "did you mean " + near + "?"
	}
	return usage(about, "the tool has no argument %s", key)
}

func quoted(text string) string {
	var b strings.Builder
	_ = writeLine(&b, text) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// types are the types of JSON that a schema allows.
type types uint8

const (
	aString types = 1 << iota
	anInteger
	aNumber // that is not an integer
	aBoolean
	aNull
	anArray
	anObject
	anything = aString | anInteger | aNumber | aBoolean | aNull | anArray | anObject
)

var typeWords = []struct {
	word string
	is   types
}{
	{"string", aString}, {"number", anInteger | aNumber}, {"integer", anInteger}, {"boolean", aBoolean},
	{"array", anArray}, {"object", anObject}, {"null", aNull},
}

// String names the types: "string or null".
func (t types) String() string {
	var words []string
	for _, w := range typeWords {
		if t&w.is == w.is && t != anything {
			words = append(words, w.word)
			t &^= w.is
		}
	}
	return strings.Join(words, " or ")
}

// typeOf is the type of a JSON text; 0 if it is none.
func typeOf(text string) types {
	text = strings.TrimSpace(text)
	if !json.Valid([]byte(text)) {
		return 0
	}
	switch text[0] {
	case '"':
		return aString
	case 't', 'f':
		return aBoolean
	case 'n':
		return aNull
	case '[':
		return anArray
	case '{':
		return anObject
	}
	if f, err := strconv.ParseFloat(text, 64); strings.ContainsAny(text, ".eE") && (err != nil || f != math.Trunc(f)) {
		return aNumber
	}
	return anInteger
}

// schemas reads the schemas within one root: as much of JSON Schema as says of
// which types a value may be. What it does not know allows anything.
type schemas struct{ root json.RawMessage }

// maxRefs is how deep schemas within schemas are followed.
const maxRefs = 32

// A schema is what is read of one.
type schema struct {
	Ref         string                     `json:"$ref"`
	Type        oneOrMore                  `json:"type"`
	Enum        []json.RawMessage          `json:"enum"`
	Const       json.RawMessage            `json:"const"`
	AnyOf       []json.RawMessage          `json:"anyOf"`
	OneOf       []json.RawMessage          `json:"oneOf"`
	AllOf       []json.RawMessage          `json:"allOf"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Additional  json.RawMessage            `json:"additionalProperties"`
	Items       json.RawMessage            `json:"items"`
	Required    []string                   `json:"required"`
	Nullable    bool                       `json:"nullable"`
	Default     json.RawMessage            `json:"default"`
	Description string                     `json:"description"`
}

// oneOrMore is a word or a list of them.
type oneOrMore []string

func (w *oneOrMore) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// read follows references within the root. What cannot be read is empty, and so
// allows anything.
func (s schemas) read(raw json.RawMessage) schema {
	for range maxRefs {
		var got schema
		if json.Unmarshal(raw, &got) != nil {
			return schema{}
		}
		if got.Ref == "" {
			return got
		}
		raw = s.at(got.Ref)
	}
	return schema{}
}

// at is the schema at a reference; nil if that leads out of the root.
func (s schemas) at(ref string) json.RawMessage {
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	at := s.root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &object) != nil {
			return nil
		}
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return at
}

// allows are the types that a schema allows.
func (s schemas) allows(raw json.RawMessage, depth int) types {
	if depth > maxRefs {
		return anything
	}
	got := s.read(raw)
	all := anything
	if len(got.Type) > 0 {
		all = 0
		for _, w := range typeWords {
			if slices.Contains(got.Type, w.word) {
				all |= w.is
			}
		}
	}
	for _, some := range [][]json.RawMessage{got.AnyOf, got.OneOf} {
		if len(some) > 0 {
			union := types(0)
			for _, one := range some {
				union |= s.allows(one, depth+1)
			}
			all &= union
		}
	}
	for _, one := range got.AllOf {
		all &= s.allows(one, depth+1)
	}
	if listed := got.listed(); len(listed) > 0 {
		union := types(0)
		for _, v := range listed {
			union |= typeOf(string(v))
		}
		all &= union
	}
	if got.Nullable {
		all |= aNull
	}
	if all == 0 {
		return anything // it contradicts itself, or is of another dialect
	}
	return all
}

// listed are the only values that there may be; nil if it does not say so.
func (s schema) listed() []json.RawMessage {
	if len(s.Const) > 0 {
		return []json.RawMessage{s.Const}
	}
	return s.Enum
}

// property is the schema of a member; known is false if there is none.
func (s schemas) property(raw json.RawMessage, key string, depth int) (found json.RawMessage, known bool) {
	got := s.read(raw)
	if p, ok := got.Properties[key]; ok {
		return p, true
	}
	for _, one := range slices.Concat(got.AllOf, got.AnyOf, got.OneOf) {
		if depth < maxRefs {
			if p, ok := s.property(one, key, depth+1); ok {
				return p, true
			}
		}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(got.Additional, &object) == nil && object != nil {
		return got.Additional, true
	}
	return nil, false
}

// isClosed tells whether there may be no other members than those it names.
func (s schemas) isClosed(raw json.RawMessage) bool {
	got := s.read(raw)
	return string(bytes.TrimSpace(got.Additional)) == "false" && len(got.AllOf)+len(got.AnyOf)+len(got.OneOf) == 0
}

func (s schemas) names(raw json.RawMessage) []string {
	var all []string
	for name := range s.read(raw).Properties {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// values reads what was typed for one key. A key that is given more than once
// is a list.
func (s schemas) values(typed []argument, as json.RawMessage) (json.RawMessage, error) {
	if len(typed) == 1 {
		return s.value(typed[0], as)
	}
	if as == nil || s.allows(as, 0)&anArray == 0 {
		return nil, fmt.Errorf("is given %d times, and is no array", len(typed))
	}
	items := s.read(as).Items
	all := make([][]byte, len(typed))
	for i, w := range typed {
		v, err := s.value(w, items)
		if err != nil {
			return nil, err
		}
		all[i] = v
	}
	return slices.Concat([]byte{'['}, bytes.Join(all, []byte{','}), []byte{']'}), nil
}

// value reads one word as what the schema allows: as JSON of that type if it is
// such, else as a string.
func (s schemas) value(w argument, as json.RawMessage) (json.RawMessage, error) {
	if w.raw {
		return json.RawMessage(w.value), nil
	}
	is, may := typeOf(w.value), s.allows(as, 0)
	text := json.RawMessage(quoted(w.value))
	got := s.read(as)
	switch listed := got.listed(); {
	case has(listed, string(text)) && !has(listed, w.value):
		return text, nil // "5" of "4" and "5"
	case is != 0 && is&may != 0 && may != aString:
		return json.RawMessage(w.value), nil
	case may&aString != 0:
		return text, nil
	case may&anArray != 0 && s.allows(got.Items, 0)&(is|aString) != 0:
		one, err := s.value(w, got.Items)
		return slices.Concat([]byte{'['}, one, []byte{']'}), err
	default:
		return nil, fmt.Errorf("must be of type %s, and %q is not", may, w.value)
	}
}

func has(listed []json.RawMessage, value string) bool {
	return slices.ContainsFunc(listed, func(v json.RawMessage) bool { return string(v) == value })
}
