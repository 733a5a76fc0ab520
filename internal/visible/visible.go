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
