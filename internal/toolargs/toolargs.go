// Package toolargs makes the arguments of a tool from the words that a person
// typed: what a word means is for the tool's schema to say. It calls nothing.
package toolargs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/typed"
)

// Args are a tool's arguments as they were typed. What a word means is known only
// once the tool's schema is.
type Args struct {
	object json.RawMessage // all of them; nil where there are words
	words  []argument
}

// An argument is key=value, or key:=JSON.
type argument struct {
	key, value string
	raw        bool // the value is JSON
}

// Object makes Args of a JSON object.
func Object(text []byte) (Args, error) {
	if why := NotObject(text); why != "" {
		return Args{}, misuse(`everline call server.tool '{"key": "value"}'`, "the arguments are not a JSON object: %s", why)
	}
	return Args{object: text}, nil
}

// NotObject says why a text is no JSON object; "" if it is one.
func NotObject(text []byte) (why string) {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal(text, &object); {
	case err != nil:
		return err.Error()
	case object == nil:
		return "null"
	default:
		return ""
	}
}

// Words makes Args of key=value and key:=JSON.
func Words(words []string) (Args, error) {
	var all Args
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		key, raw := strings.CutSuffix(key, ":")
		switch {
		case !ok || key == "":
			return all, misuse("everline call server.tool key=value", "%q is neither key=value nor a JSON object", word)
		case raw && !json.Valid([]byte(value)):
			return all, misuse("everline call server.tool "+key+"="+value, "what follows %s:= is not JSON: %s", key, value)
		}
		all.words = append(all.words, argument{key, value, raw})
	}
	return all, nil
}

// NeedsSchema reports whether Encode depends on the tool's schema.
func (a Args) NeedsSchema() bool { return a.words != nil }

// Encode makes the JSON object that a tool with this input schema gets, with
// the keys in the order in which they were typed. about is what shows the schema.
func (a Args) Encode(input json.RawMessage, about string) (json.RawMessage, error) {
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
		value, err := s.values(a.given(w.key), property)
		if err != nil {
			return nil, misuse(about, "%s %w", w.key, err)
		}
		b.WriteByte("{,"[min(b.Len(), 1)])
		b.WriteString(quoted(w.key))
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (a Args) given(key string) []argument {
	return slices.DeleteFunc(slices.Clone(a.words), func(w argument) bool { return w.key != key })
}

func unknownArgument(key string, names []string, about string) error {
	if near := typed.Nearest(key, names); near != "" {
		about = "did you mean " + near + "?"
	}
	return misuse(about, "the tool has no argument %s", key)
}

func quoted(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
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
	kind, may := typeOf(w.value), s.allows(as, 0)
	text := json.RawMessage(quoted(w.value))
	got := s.read(as)
	switch listed := got.listed(); {
	case has(listed, string(text)) && !has(listed, w.value):
		return text, nil // "5" of "4" and "5"
	case kind != 0 && kind&may != 0 && may != aString:
		return json.RawMessage(w.value), nil
	case may&aString != 0:
		return text, nil
	case may&anArray != 0 && s.allows(got.Items, 0)&(kind|aString) != 0:
		one, err := s.value(w, got.Items)
		return slices.Concat([]byte{'['}, one, []byte{']'}), err
	default:
		return nil, fmt.Errorf("must be of type %s, and %q is not", may, w.value)
	}
}

// misuse makes an error about what was typed.
func misuse(remedy, format string, args ...any) error {
	return &fault.Fault{Kind: fault.Invalid, Op: "read the arguments", Outcome: fault.NotSent, Remedy: remedy, Err: fmt.Errorf(format, args...)}
}
