package wire

import "bytes"

// Set returns obj with the value at a path of member names put in or replaced.
// Every other byte stays as it is. Objects that are missing on the way are
// created; what is there and no object is replaced by one; a nil obj counts as
// {}. obj and value are not changed and, but for an empty path, which returns
// value itself, not kept. value must be JSON.
func Set(obj, value []byte, path ...string) []byte {
	if len(path) == 0 {
		return value
	}
	lo, hi := 0, len(obj) // the innermost object reached so far
	for depth, name := range path {
		shape, ok := shapeOf(obj[lo:hi])
		if !ok {
			return splice(obj, lo, hi, fresh(nil, value, path[depth:]))
		}
		m, found := find(obj[:hi], lo, name)
		if !found {
			pos := lo + shape.brace
			return splice(obj, pos, pos, insertion(shape.empty, value, path[depth:]))
		}
		lo, hi = m.val, m.end
	}
	return splice(obj, lo, hi, value)
}

// splice returns a copy of b with b[lo:hi] replaced.
func splice(b []byte, lo, hi int, with []byte) []byte {
	out := Room(lo + len(with) + len(b) - hi)
	out = Append(Append(out, b[:lo]), with)
	return Append(out, b[hi:])
}

// An objectShape is what inserting into an object needs to know of it.
type objectShape struct {
	brace int // the closing brace
	empty bool
}

// shapeOf is false for anything but an object with nothing behind it.
func shapeOf(raw []byte) (shape objectShape, ok bool) {
	s := scanner{b: raw}
	i := s.space(0)
	if i >= len(raw) || raw[i] != '{' {
		return objectShape{}, false
	}
	end := s.object(i, 1)
	if end < 0 || s.space(end) != len(raw) {
		return objectShape{}, false
	}
	return objectShape{brace: end - 1, empty: s.space(i+1) == end-1}, true
}

// fresh appends {"a":{"b":value}} for the path a, b.
func fresh(dst, value []byte, path []string) []byte {
	for _, name := range path {
		dst = append(AppendString(append(dst, '{'), name), ':')
	}
	dst = append(dst, value...)
	for range path {
		dst = append(dst, '}')
	}
	return dst
}

// insertion is the text of a new last member.
func insertion(first bool, value []byte, path []string) []byte {
	var text []byte
	if !first {
		text = append(text, ',')
	}
	text = append(AppendString(text, path[0]), ':')
	if len(path) == 1 {
		return append(text, value...)
	}
	return fresh(text, value, path[1:])
}

// Delete returns obj without the member at a path of member names, and obj
// itself if there is none. Every other byte stays as it is. A member that
// occurs twice goes with all its occurrences. obj is not changed.
func Delete(obj []byte, path ...string) []byte {
	if len(path) == 0 {
		return obj
	}
	lo, hi := 0, len(obj)
	last := len(path) - 1
	for _, name := range path[:last] {
		m, ok := find(obj[:hi], lo, name)
		if !ok {
			return obj
		}
		lo, hi = m.val, m.end
	}
	if _, ok := find(obj[:hi], lo, path[last]); !ok {
		return obj
	}
	return splice(obj, lo, hi, without(obj[lo:hi], path[last]))
}

// without copies a valid object, leaving out the members of this name and one
// comma for each.
func without(raw []byte, name string) []byte {
	s := scanner{b: raw}
	i := s.space(0) + 1
	out := append(Room(len(raw)), raw[:i]...)
	empty := true // no member was copied yet
	for first := true; ; first = false {
		m, more := s.member(i, first, 1)
		if !more {
			return append(out, raw[i:]...)
		}
		from := i // the comma and the space before go with the member
		if empty && !first {
			from = m.key
		}
		if !keyIs(raw[m.key+1:m.keyEnd-1], name) {
			out = Append(out, raw[from:m.end])
			empty = false
		}
		i = m.end
	}
}

// OneLine returns b without line ends: b itself if it has none, else a copy
// without the space between its tokens. Strings are kept as they are; a raw
// line end inside one, which JSON forbids, becomes a space, so that no input
// can break out of its line.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	out := Room(len(b))
	inString, escaped := false, false
	for _, c := range b {
		space := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		switch {
		case inString:
			if c == '\n' || c == '\r' {
				c = ' '
			}
			inString = escaped || c != '"'
			escaped = !escaped && c == '\\'
		case space:
			continue
		default:
			inString = c == '"'
		}
		out = append(out, c)
	}
	return out
}
