package wire

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of arrays and objects that is accepted. It
// is encoding/json's limit too, so that whoever decodes a value later accepts
// what was accepted here.
const maxDepth = 10_000

// A SyntaxError says where a text stops being JSON.
type SyntaxError struct {
	Offset int    // of the byte that is wrong, from the start of the frame
	Text   string // what is wrong with it
	// Whole tells that a whole message ends at Offset, and something else than
	// space follows.
	Whole bool
}

func (e *SyntaxError) Error() string {
	return "not JSON: " + e.Text + " at byte " + strconv.Itoa(e.Offset)
}

// A scanner walks over a JSON text and checks every byte of what it passes.
// Its methods take the index where to begin and return the index behind what
// they passed, or -1 after recording what is wrong.
type scanner struct {
	b     []byte
	badAt int    // valid after a failure
	what  string // valid after a failure
	seen  Traits // of what was passed
	uris  bool   // some member that was passed is called "uri"
}

// Traits are what some readers of JSON refuse although it is JSON.
type Traits struct {
	Lone  bool // an escaped half of a surrogate pair without the other half
	Huge  bool // a number that no float64 can hold
	Depth int  // how deeply arrays and objects are nested
}

// Inspect checks that b is one JSON text, and returns what strict readers may
// refuse in it.
func Inspect(b []byte) (Traits, bool) {
	s := scanner{b: b}
	ok := s.text(0)
	return s.seen, ok
}

func (s *scanner) fail(pos int, what string) int {
	if pos >= len(s.b) {
		pos, what = len(s.b), "unexpected end"
	}
	s.badAt, s.what = pos, what
	return -1
}

func (s *scanner) err() *SyntaxError { return &SyntaxError{Offset: s.badAt, Text: s.what} }

func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// text passes a whole document: one value with nothing but space around it.
func (s *scanner) text(i int) bool {
	i = s.value(s.space(i), 0)
	if i < 0 {
		return false
	}
	if i = s.space(i); i < len(s.b) {
		s.fail(i, "text after the value")
		return false
	}
	return true
}

// value passes one value that begins at i, inside depth open containers.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.b) {
		return s.fail(i, "")
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.object(i, depth+1)
	case c == '[':
		return s.array(i, depth+1)
	case c == '-' || isDigit(c):
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	default:
		return s.fail(i, "no value begins like this")
	}
}

func (s *scanner) object(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "nested too deeply")
	}
	s.seen.Depth = max(s.seen.Depth, depth)
	first := true
	for i++; ; first = false {
		m, more := s.member(i, first, depth)
		if !more {
			return m.end
		}
		i = m.end
	}
}

// A member is the place of one member of an object.
type member struct {
	key, keyEnd int // the key with its quotes
	val, end    int // the value
}

// member passes the next member of an object; i is behind the opening brace
// or behind the member before. Without more members, end is behind the closing
// brace, or -1.
func (s *scanner) member(i int, first bool, depth int) (m member, more bool) {
	if m, more = s.name(i, first); !more {
		return m, false
	}
	m.end = s.value(m.val, depth)
	return m, m.end >= 0
}

// name is member up to the value, whose end it leaves open.
func (s *scanner) name(i int, first bool) (m member, more bool) {
	i = s.space(i)
	if i < len(s.b) && s.b[i] == '}' {
		return member{end: i + 1}, false
	}
	if !first {
		if i >= len(s.b) || s.b[i] != ',' {
			return member{end: s.fail(i, "want a comma or a closing brace")}, false
		}
		i = s.space(i + 1)
	}
	if i >= len(s.b) || s.b[i] != '"' {
		return member{end: s.fail(i, "want a member's name")}, false
	}
	m.key = i
	if m.keyEnd = s.str(i); m.keyEnd < 0 {
		return member{end: -1}, false
	}
	if m.keyEnd-m.key == len(`"uri"`) && string(s.b[m.key+1:m.keyEnd-1]) == "uri" {
		s.uris = true
	}
	i = s.space(m.keyEnd)
	if i >= len(s.b) || s.b[i] != ':' {
		return member{end: s.fail(i, "want a colon")}, false
	}
	m.val = s.space(i + 1)
	return m, true
}

func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "nested too deeply")
	}
	s.seen.Depth = max(s.seen.Depth, depth)
	first := true
	for i++; ; first = false {
		_, end, more := s.element(i, first, depth)
		if !more {
			return end
		}
		i = end
	}
}

// element passes the next element of an array, as member does for objects.
func (s *scanner) element(i int, first bool, depth int) (start, end int, more bool) {
	i = s.space(i)
	if i < len(s.b) && s.b[i] == ']' {
		return 0, i + 1, false
	}
	if !first {
		if i >= len(s.b) || s.b[i] != ',' {
			return 0, s.fail(i, "want a comma or a closing bracket"), false
		}
		i = s.space(i + 1)
	}
	end = s.value(i, depth)
	return i, end, end >= 0
}

func (s *scanner) word(i int, word string) int {
	for k := 1; k < len(word); k++ {
		if i+k >= len(s.b) || s.b[i+k] != word[k] {
			return s.fail(i+k, "want "+word)
		}
	}
	return i + len(word)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) digits(i int) int {
	if i >= len(s.b) || !isDigit(s.b[i]) {
		return s.fail(i, "want a digit")
	}
	for i < len(s.b) && isDigit(s.b[i]) {
		i++
	}
	return i
}

// longNumber is how many characters a number without an exponent must have
// before a float64 may be too small for it.
const longNumber = 300

// number passes a number.
func (s *scanner) number(i int) int {
	end, exponent := s.digitsOf(i)
	if (exponent || end-i >= longNumber) && end > 0 {
		_, err := strconv.ParseFloat(string(s.b[i:end]), 64)
		s.seen.Huge = s.seen.Huge || err != nil
	}
	return end
}

func (s *scanner) digitsOf(i int) (end int, exponent bool) {
	if s.b[i] == '-' {
		i++
	}
	if i < len(s.b) && s.b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1, false
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1, false
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
		i++
		if i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i), true
	}
	return i, false
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of w that a string cannot contain as they are: a
// quote, a backslash, a control character. Only the lowest mark is exact,
// because a borrow can run on into the bytes above it.
func special(w uint64) uint64 {
	quote := w ^ lows*'"'
	slash := w ^ lows*'\\'
	return ((quote-lows)&^quote | (slash-lows)&^slash | (w-lows*0x20)&^w) & highs
}

// plain passes what is in a string and not special, 32 bytes at a time.
func plain(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32 : i+32]
		p, q := binary.LittleEndian.Uint64(w), binary.LittleEndian.Uint64(w[8:])
		r, s := binary.LittleEndian.Uint64(w[16:]), binary.LittleEndian.Uint64(w[24:])
		// As special, where a flipped bit has put the quote behind the control
		// characters.
		k, l, m, n := p^lows*2, q^lows*2, r^lows*2, s^lows*2
		low := (k-lows*0x21)&^k | (l-lows*0x21)&^l | (m-lows*0x21)&^m | (n-lows*0x21)&^n
		p, q, r, s = p^lows*'\\', q^lows*'\\', r^lows*'\\', s^lows*'\\'
		slash := (p-lows)&^p | (q-lows)&^q | (r-lows)&^r | (s-lows)&^s
		if (low|slash)&highs != 0 {
			break
		}
	}
	return i
}

// longRun is how many bytes of a string are looked at in the simple way first.
const longRun = 128

// str passes a string that begins at i with its quote, eight bytes at a time:
// results are mostly long strings, and this loop is what decoding costs.
func (s *scanner) str(i int) int {
	b := s.b
	for i++; ; {
		for long := i + longRun; i+8 <= len(b); {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			if i += 8; i == long {
				i = plain(b, i)
			}
		}
		if i >= len(b) {
			return s.fail(i, "")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i + 1); i < 0 {
				return -1
			}
		case c < 0x20:
			return s.fail(i, "control character in a string")
		default:
			i++ // within the last seven bytes
		}
	}
}

// escape passes what follows a backslash.
func (s *scanner) escape(i int) int {
	if i >= len(s.b) {
		return s.fail(i, "")
	}
	switch s.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for k := 1; k <= 4; k++ {
			if i+k >= len(s.b) || hexValue(s.b[i+k]) < 0 {
				return s.fail(i+k, "want four hexadecimal digits")
			}
		}
		return s.surrogate(i-1, i+5)
	default:
		return s.fail(i, "no such escape")
	}
}

// surrogate returns the end of the escape that stands from i to end: that of
// the second half, where the escape is the first half of a surrogate pair.
func (s *scanner) surrogate(i, end int) int {
	if !utf16.IsSurrogate(hex4(s.b[i+2:])) {
		return end
	}
	r, n := escapedRune(s.b[i:])
	s.seen.Lone = s.seen.Lone || r == utf8.RuneError
	return i + n
}

func hexValue(c byte) rune {
	switch {
	case isDigit(c):
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	default:
		return -1
	}
}

// Valid reports whether b is one JSON text. It agrees with encoding/json.
func Valid(b []byte) bool {
	s := scanner{b: b}
	return s.text(0)
}
