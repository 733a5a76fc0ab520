package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/everline/everline/internal/wire"
)

// maxCanonical is the depth below which values stay as they are written: each
// level costs a pass over the text, and no honest definition is that deep.
const maxCanonical = 64

// Canonical returns the canonical form of a JSON text (RFC 8785): the same for
// texts that differ in white space, order of members, escapes or the writing
// of numbers alone. ok is false for what is no JSON.
//
// Where RFC 8785 refuses or would lose something, what is written is kept, so
// that no change goes unnoticed: integers that no double holds, lone
// surrogates, and repeated keys, all of which stay in their order.
func Canonical(raw []byte) (form []byte, ok bool) {
	if !json.Valid(raw) {
		return nil, false
	}
	return appendCanonical(make([]byte, 0, len(raw)), bytes.TrimSpace(raw), 0), true
}

func appendCanonical(b, raw []byte, depth int) []byte {
	if depth == maxCanonical {
		return append(b, raw...)
	}
	switch kindOf(raw) {
	case '{':
		return appendObject(b, raw, depth)
	case '[':
		all, _ := elements(raw)
		b = append(b, '[')
		for i, e := range all {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, e, depth+1)
		}
		return append(b, ']')
	case '"':
		return appendText(b, raw)
	case '0':
		return appendNumber(b, raw)
	default:
		return append(b, raw...)
	}
}

func appendObject(b, raw []byte, depth int) []byte {
	o, _ := parseObject(raw)
	slices.SortStableFunc(o.members, func(a, c wire.Field) int { return compareKeys(a.Name, c.Name) })
	b = append(b, '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, m.Key), ':')
		b = appendCanonical(b, m.Value, depth+1)
	}
	return append(b, '}')
}

// compareKeys orders by UTF-16 code units (RFC 8785 section 3.2.3).
func compareKeys(a, b string) int {
	supplementary := func(r rune) bool { return r > 0xffff }
	if strings.IndexFunc(a, supplementary) < 0 && strings.IndexFunc(b, supplementary) < 0 {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// appendText writes a JSON string with the escapes of RFC 8785 section 3.2.2.2.
func appendText(b, raw []byte) []byte {
	s := text(raw)
	if strings.ContainsRune(s, utf8.RuneError) { // it may stand for something else
		return append(b, raw...)
	}
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = appendControl(b, byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func appendControl(b []byte, c byte) []byte {
	if i := strings.IndexByte("\b\t\n\f\r", c); i >= 0 {
		return append(b, '\\', "btnfr"[i])
	}
	return fmt.Appendf(b, `\u%04x`, c)
}

// appendNumber writes a number as ECMAScript does (RFC 8785 section 3.2.2.3).
func appendNumber(b, raw []byte) []byte {
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil, math.Abs(f) > 1<<53 && bytes.IndexFunc(raw, notDigit) < 0:
		return append(b, raw...)
	case f == 0: // also -0
		return append(b, '0')
	}
	n, err := json.Marshal(f) // in the way of ECMAScript
	if err != nil {
		return append(b, raw...)
	}
	return append(b, n...)
}

func notDigit(r rune) bool { return (r < '0' || r > '9') && r != '-' }
