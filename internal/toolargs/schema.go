package toolargs

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

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
	bits types
}{
	{"string", aString},
	{"number", anInteger | aNumber},
	{"integer", anInteger},
	{"boolean", aBoolean},
	{"array", anArray},
	{"object", anObject},
	{"null", aNull},
}

// String names the types: "string or null".
func (t types) String() string {
	var words []string
	for _, w := range typeWords {
		if t&w.bits == w.bits && t != anything {
			words = append(words, w.word)
			t &^= w.bits
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
		raw = s.find(got.Ref)
	}
	return schema{}
}

// find is the schema that a reference names; nil if that leads out of the root.
func (s schemas) find(ref string) json.RawMessage {
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	found := s.root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(found, &object) != nil {
			return nil
		}
		found = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return found
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
				all |= w.bits
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

// isClosed reports whether there may be no other members than those it names.
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

func has(listed []json.RawMessage, value string) bool {
	return slices.ContainsFunc(listed, func(v json.RawMessage) bool { return string(v) == value })
}
