package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A Member is one key of an Entry. Its value is a string, a bool, an int, a
// float64, a []string, an Entry or Entries.
type Member struct {
	Key   string
	Value any
}

// An Entry is an object as it is written into a file.
type Entry []Member

// Pairs is the entry of keys, each with its value behind it.
func Pairs(pairs ...any) Entry {
	e := make(Entry, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		e = append(e, Member{pairs[i].(string), pairs[i+1]})
	}
	return e
}

// Text writes an entry as JSON with two spaces, at a depth given by indent.
func (e Entry) Text(indent, unit string) string {
	var b strings.Builder
	b.WriteString("{")
	for i, m := range e {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + indent + unit + Quoted(m.Key) + ": ")
		switch v := m.Value.(type) {
		case Entry:
			b.WriteString(v.Text(indent+unit, unit))
		case Entries:
			b.WriteString("[")
			for i, inner := range v {
				if i > 0 {
					b.WriteString(", ")
				}
				b.WriteString(inner.Text(indent+unit, unit))
			}
			b.WriteString("]")
		default:
			b.WriteString(Inline(v))
		}
	}
	if len(e) > 0 {
		b.WriteString("\n" + indent)
	}
	b.WriteString("}")
	return b.String()
}

// Line writes an entry in one line: no string in it holds a line end.
func (e Entry) Line() string {
	return strings.NewReplacer(",\n", ", ", "\n", "").Replace(e.Text("", ""))
}

// Inline writes a value in one line, in a form that TOML and YAML read as well.
func Inline(v any) string {
	if list, ok := v.([]string); ok {
		words := make([]string, len(list))
		for i, s := range list {
			words[i] = Quoted(s)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	switch v := v.(type) {
	case string:
		return Quoted(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// Quoted writes a text as JSON does.
func Quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// Entries is a list of entries.
type Entries []Entry
