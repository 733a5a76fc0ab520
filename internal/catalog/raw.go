package catalog

import (
	"bytes"
	"slices"

	"github.com/everline/everline/internal/wire"
)

// This file finds and replaces parts of JSON text without encoding it anew.
// All of it takes text that is known to be JSON.

// An object is the text of a JSON object with its members found. Of equal keys
// the last one counts, as in most readers of JSON.
type object struct {
	raw     []byte
	members []wire.Field
	touched bool
}

// parseObject returns false if raw is not an object.
func parseObject(raw []byte) (object, bool) {
	if !wire.IsObject(raw) {
		return object{}, false
	}
	o := object{raw: raw}
	for f := range wire.Fields(raw) {
		o.members = append(o.members, f)
	}
	return o, true
}

// find returns the index of a key's last member; -1 if there is none.
func (o *object) find(key string) int {
	for i := len(o.members) - 1; i >= 0; i-- {
		if o.members[i].Name == key {
			return i
		}
	}
	return -1
}

// get returns the raw value of a key; nil if there is none.
func (o *object) get(key string) []byte {
	if i := o.find(key); i >= 0 {
		return o.members[i].Value
	}
	return nil
}

// count returns how many members have the key.
func (o *object) count(key string) int {
	n := 0
	for i := range o.members {
		if o.members[i].Name == key {
			n++
		}
	}
	return n
}

func newMember(key string, value []byte) wire.Field {
	return wire.Field{Name: key, Text: append(append(quote(key), ':'), value...), Value: value}
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
	if o.count(key) == 1 && bytes.Equal(o.members[last].Value, value) {
		return
	}
	o.members[last] = m
	kept := o.members[:0:0]
	for i, have := range o.members {
		if have.Name != key || i == last {
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
		if m.Name != key {
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
		b = append(b, m.Text...)
	}
	return append(b, '}')
}

// replaced returns the object's text with one value replaced and every other
// byte kept, white space too.
func (o *object) replaced(i int, value []byte) []byte {
	m := o.members[i]
	b := make([]byte, 0, len(o.raw)+len(value))
	b = append(b, o.raw[:m.Start]...)
	b = append(b, value...)
	return append(b, o.raw[m.End:]...)
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
	if !wire.IsArray(raw) {
		return nil, false
	}
	return slices.AppendSeq([][]byte{}, wire.Elements(raw)), true
}

// array is the text of an array of these elements.
func array(all [][]byte) []byte {
	b := append([]byte{'['}, bytes.Join(all, []byte{','})...)
	return append(b, ']')
}

// text decodes a JSON string; "" for any other value.
func text(raw []byte) string {
	s, _ := wire.Text(raw)
	return s
}

// quote encodes a string as JSON, with no more escapes than JSON needs.
func quote(s string) []byte { return wire.AppendString(nil, s) }

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
