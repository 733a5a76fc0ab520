// Package visible writes out what does not show in a text, or shows in another
// place than it stands. It changes no letter, and judges no meaning.
package visible

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns a text in which everything that a reader would not see, or
// would see in another place or order than it stands, is written out: control,
// format and bidirectional characters, tags, fillers, variation selectors and
// strange spaces as <U+200B>, bytes that are no UTF-8 as <0xFF>. Line ends and
// tabs stay.
func Text(s string) string {
	if strings.IndexFunc(s, Unseen) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[0])
		case Unseen(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// Unseen tells whether a character does not show by itself.
func Unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == ' ':
		return false
	case r < 0x7f:
		return r < ' '
	case r == utf8.RuneError: // of broken UTF-8, too
		return true
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	default: // letters and marks by their class that show nothing
		return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == 0x2800
	}
}

// JSON returns a JSON text that says the same, and in which everything that
// Text would write out is an escape. Bytes that are no UTF-8 become U+FFFD, as
// every reader of JSON would take them.
func JSON(raw []byte) []byte {
	if bytes.IndexFunc(raw, Unseen) < 0 {
		return raw
	}
	var b []byte
	for _, r := range string(raw) {
		switch {
		case !Unseen(r) || r == '\r':
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// Screen is Text for what a program of ours sends to a terminal: colours, and
// the end of a line that is written again and again, are left as they are.
func Screen(p []byte) []byte {
	if bytes.IndexFunc(p, Unseen) < 0 {
		return p
	}
	var b []byte
	for at := 0; at < len(p); {
		if n := order(p, at); n > 0 {
			b, at = append(b, p[at:at+n]...), at+n
			continue
		}
		_, size := utf8.DecodeRune(p[at:])
		b, at = append(b, Text(string(p[at:at+size]))...), at+size
	}
	return b
}

// order is the length of an order to the terminal that we give ourselves: to
// begin the line anew with what follows, to clear the rest of it, a colour.
func order(p []byte, at int) int {
	switch rest := p[at:]; {
	case rest[0] == '\r' && (at == 0 || len(rest) > 1 && rest[1] == '\n'):
		return 1
	case bytes.HasPrefix(rest, []byte("\x1b[")):
		n := 2
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == ';') {
			n++
		}
		if n < len(rest) && (rest[n] == 'm' || rest[n] == 'K') {
			return n + 1
		}
	}
	return 0
}
