package wire

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// Get returns the raw value at a path of member names, as a view into obj; nil
// if there is none, if something on the way is no object, or if obj is not
// JSON up to there. Of a member that occurs twice the last counts.
func Get(obj []byte, path ...string) []byte {
	lo, hi := 0, len(obj)
	for _, name := range path {
		m, ok := find(obj[:hi], lo, name)
		if !ok {
			return nil
		}
		lo, hi = m.val, m.end
	}
	return obj[lo:hi:hi]
}

// find returns the place of the last member of this name in the object that
// begins at or after i; ok is false if there is none.
func find(b []byte, i int, name string) (found member, ok bool) {
	s := scanner{b: b}
	if i = s.space(i); i >= len(b) || b[i] != '{' {
		return member{}, false
	}
	i++
	for first := true; ; first = false {
		m, more := s.member(i, first, 1)
		if !more {
			return found, ok && m.end >= 0
		}
		if keyIs(b[m.key+1:m.keyEnd-1], name) {
			found, ok = m, true
		}
		i = m.end
	}
}

// keyIs compares the inside of a key with a name.
func keyIs(key []byte, name string) bool {
	if string(key) == name {
		return true
	}
	return (bytes.IndexByte(key, '\\') >= 0 || !utf8.Valid(key)) && unquoted(key) == name
}

// Pick reads the members of these names in one pass: into values, raw, in the
// order of the names, nil where absent. It returns the name of a member that
// is there twice or in another case, "" if there is none: readers differ in
// which of them they take, and many ignore case.
func Pick(obj []byte, names, values [][]byte) (duplicate string) {
	s := scanner{b: obj}
	i := s.space(0)
	if i >= len(obj) || obj[i] != '{' {
		return ""
	}
	i++
	for first := true; ; first = false {
		m, more := s.member(i, first, 1)
		if !more {
			return duplicate
		}
		key := obj[m.key+1 : m.keyEnd-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = unescape(nil, key)
		}
		for n, name := range names {
			switch {
			case values[n] == nil && bytes.Equal(key, name):
				values[n] = obj[m.val:m.end:m.end]
			case len(key) >= len(name) && bytes.EqualFold(key, name):
				duplicate = string(name)
			}
		}
		i = m.end
	}
}

// Member is Get for one member, with a quick no for large objects that do not have
// the name in them at all.
func Member(obj []byte, name string) []byte {
	if len(obj) > 512 && !bytes.Contains(obj, []byte(name)) {
		return nil
	}
	return Get(obj, name)
}

// Has reports whether obj has a member of this name that is not null. It looks at
// nothing behind that, and so does not pass over a large value to learn that
// there is one, as Get does. obj must be JSON.
func Has(obj []byte, name string) bool {
	s := scanner{b: obj}
	i := s.space(0)
	if i >= len(obj) || obj[i] != '{' {
		return false
	}
	i++
	for first := true; ; first = false {
		m, more := s.name(i, first)
		if !more {
			return false
		}
		if keyIs(obj[m.key+1:m.keyEnd-1], name) && m.val < len(obj) && obj[m.val] != 'n' {
			return true
		}
		if i = s.value(m.val, 1); i < 0 {
			return false
		}
	}
}

// Members yields the members of an object in order: the decoded name, and the
// raw value as a view into obj. It ends early where obj stops being JSON, and
// yields nothing if obj is no object.
func Members(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		s := scanner{b: obj}
		i := s.space(0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		i++
		for first := true; ; first = false {
			m, more := s.member(i, first, 1)
			if !more || !yield(unquoted(obj[m.key+1:m.keyEnd-1]), obj[m.val:m.end:m.end]) {
				return
			}
			i = m.end
		}
	}
}

// A Field is one member of an object, and where it stands in the object's text.
type Field struct {
	Name  string // decoded
	Text  []byte // key, colon and value
	Key   []byte // with its quotes
	Value []byte
	Start int // of the value
	End   int
}

// Fields yields what Members does, with the places.
func Fields(obj []byte) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		s := scanner{b: obj}
		i := s.space(0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		i++
		for first := true; ; first = false {
			m, more := s.member(i, first, 1)
			if !more || !yield(Field{
				Name: unquoted(obj[m.key+1 : m.keyEnd-1]), Text: obj[m.key:m.end:m.end], Key: obj[m.key:m.keyEnd:m.keyEnd],
				Value: obj[m.val:m.end:m.end], Start: m.val, End: m.end,
			}) {
				return
			}
			i = m.end
		}
	}
}

// ValueEnd is where the value ends that begins at i; -1 if none does.
func ValueEnd(b []byte, i int) int {
	s := scanner{b: b}
	return s.value(i, 0)
}

// Elements yields the raw elements of an array in order, as views into arr. It
// ends early where arr stops being JSON, and yields nothing if arr is no array.
func Elements(arr []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scanner{b: arr}
		i := s.space(0)
		if i >= len(arr) || arr[i] != '[' {
			return
		}
		i++
		for first := true; ; first = false {
			start, end, more := s.element(i, first, 1)
			if !more || !yield(arr[start:end:end]) {
				return
			}
			i = end
		}
	}
}
