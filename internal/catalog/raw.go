package catalog

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// This file finds and replaces parts of JSON text without encoding it anew.
// All of it takes text that json.Valid has accepted; other text may panic.

// A member is one member of an object, as views into the object's text.
type member struct {
	key        string
	text       []byte // key, colon and value
	value      []byte
	start, end int // where the value stands in the object's text
}

// An object is the text of a JSON object with its members found. Of equal keys
// the last one counts, as in most readers of JSON.
type object struct {
	raw     []byte
	members []member
	touched bool
}

// parseObject returns false if raw is not an object.
func parseObject(raw []byte) (object, bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return object{}, false
	}
	o := object{raw: raw}
	for i = skipSpace(raw, i+1); raw[i] != '}'; i = skipSpace(raw, i) {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		m := member{}
		first := i
		i = skipValue(raw, i)
		m.key = text(raw[first:i])
		m.start = skipSpace(raw, skipSpace(raw, i)+1) // over the colon
		i = skipValue(raw, m.start)
		m.end = i
		m.text, m.value = raw[first:i], raw[m.start:i]
		o.members = append(o.members, m)
	}
	return o, true
}

// find returns the index of a key's last member; -1 if there is none.
func (o *object) find(key string) int {
	for i := len(o.members) - 1; i >= 0; i-- {
		if o.members[i].key == key {
			return i
		}
	}
	return -1
}

// get returns the raw value of a key; nil if there is none.
func (o *object) get(key string) []byte {
	if i := o.find(key); i >= 0 {
		return o.members[i].value
	}
	return nil
}

// count returns how many members have the key.
func (o *object) count(key string) int {
	n := 0
	for i := range o.members {
		if o.members[i].key == key {
			n++
		}
	}
	return n
}

func newMember(key string, value []byte) member {
	return member{key: key, text: append(append(quote(key), ':'), value...), value: value}
}

// set gives the key this value, as its only member, in the place of its last one.
func (o *object) set(key string, value []byte) {
	last := o.find(key)
	m := newMember(key, value)
	if last < 0 {
		o.members = append(o.members, m)
		o.touched = true
		return
	}
	if o.count(key) == 1 && bytes.Equal(o.members[last].value, value) {
		return
	}
	o.members[last] = m
	kept := o.members[:0:0]
	for i, have := range o.members {
		if have.key != key || i == last {
			kept = append(kept, have)
		}
	}
	o.members = kept
	o.touched = true
}

// remove drops all members of that key.
func (o *object) remove(key string) {
	if o.find(key) < 0 {
		return
	}
	kept := o.members[:0:0]
	for _, m := range o.members {
		if m.key != key {
			kept = append(kept, m)
		}
	}
	o.members = kept
	o.touched = true
}

// bytes is the object's text: the very bytes it was read from if nothing
// was changed, else all kept members byte for byte in their order.
func (o *object) bytes() []byte {
	if !o.touched {
		return o.raw
	}
	b := make([]byte, 0, len(o.raw)+32)
	b = append(b, '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m.text...)
	}
	return append(b, '}')
}

// replaced returns the object's text with one value replaced and every other
// byte kept, white space too.
func (o *object) replaced(i int, value []byte) []byte {
	m := o.members[i]
	b := make([]byte, 0, len(o.raw)+len(value))
	b = append(b, o.raw[:m.start]...)
	b = append(b, value...)
	return append(b, o.raw[m.end:]...)
}

// extended returns the object's text with a member added at its end and every
// other byte kept.
func (o *object) extended(key string, value []byte) []byte {
	end := bytes.LastIndexByte(o.raw, '}')
	b := make([]byte, 0, len(o.raw)+len(key)+len(value)+4)
	b = append(b, o.raw[:end]...)
	if len(o.members) > 0 {
		b = append(b, ',')
	}
	b = append(b, quote(key)...)
	b = append(b, ':')
	b = append(b, value...)
	return append(b, o.raw[end:]...)
}

// elements returns the raw elements of an array, false if raw is not one.
func elements(raw []byte) ([][]byte, bool) {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return nil, false
	}
	all := [][]byte{}
	for i = skipSpace(raw, i+1); raw[i] != ']'; i = skipSpace(raw, i) {
		if raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
		first := i
		i = skipValue(raw, i)
		all = append(all, raw[first:i])
	}
	return all, true
}

// array is the text of an array of these elements.
func array(all [][]byte) []byte {
	b := append([]byte{'['}, bytes.Join(all, []byte{','})...)
	return append(b, ']')
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
	}
	for i < len(b) && bytes.IndexByte([]byte(",]} \n\t\r"), b[i]) < 0 {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// text decodes a JSON string; "" for any other value.
func text(raw []byte) string {
	if kindOf(raw) != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// quote encodes a string as JSON, with no more escapes than JSON needs.
func quote(s string) []byte {
	if plain(s) == s { // names, nearly always
		return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("bug: a string does not encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// kindOf is the first byte of a value: one of { [ " t f n, '0' for numbers, and
// 0 if there is no value.
func kindOf(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
		return '0'
	}
	return raw[0]
}
