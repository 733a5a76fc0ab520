package catalog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns a text in which everything that a reader would not see, or
// would see in another place or order than it stands, is written out: control,
// format and bidirectional characters, tags, fillers, variation selectors and
// strange spaces as <U+200B>, bytes that are no UTF-8 as <0xFF>. Line ends and
// tabs stay.
func Visible(s string) string {
	if strings.IndexFunc(s, unseen) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[0])
		case unseen(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// unseen tells whether a character does not show by itself.
func unseen(r rune) bool {
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
