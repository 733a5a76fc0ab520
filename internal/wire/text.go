package wire

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// trim removes JSON's space from both ends.
func trim(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }

// Text returns the text of a JSON string. It is false for another value.
// Broken UTF-8 and lone surrogates become U+FFFD, as encoding/json does.
func Text(raw []byte) (string, bool) {
	raw = trim(raw)
	s := scanner{b: raw}
	if len(raw) == 0 || raw[0] != '"' || s.str(0) != len(raw) {
		return "", false
	}
	return unquoted(raw[1 : len(raw)-1]), true
}

// unquoted decodes the inside of a string that the scanner has passed.
func unquoted(inside []byte) string {
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside)
	}
	return string(unescape(make([]byte, 0, len(inside)), inside))
}

// unescape appends the decoded inside of a string that the scanner has passed.
func unescape(dst, inside []byte) []byte {
	for i := 0; i < len(inside); {
		switch c := inside[i]; {
		case c == '\\' && inside[i+1] == 'u':
			r, n := escapedRune(inside[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		case c == '\\':
			dst = append(dst, unescaped(inside[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(inside[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// escapedRune decodes \uXXXX, or a pair of them, at the start of in.
func escapedRune(escape []byte) (r rune, length int) {
	r = hex4(escape[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(escape) >= 12 && escape[6] == '\\' && escape[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(escape[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(digits []byte) rune {
	return hexValue(digits[0])<<12 | hexValue(digits[1])<<8 | hexValue(digits[2])<<4 | hexValue(digits[3])
}

// AppendString appends s as a JSON string. Nothing is escaped that need not
// be; broken UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = utf8.AppendRune(append(dst, s[done:i]...), utf8.RuneError)
				done = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}

// Int returns the value of a JSON number that is a whole one, in whatever form
// it is written: 1, 1.0 and 1e0 are all 1. It is false for any other value, and
// for one that an int64, or a float64 exactly, cannot hold.
func Int(raw []byte) (int64, bool) {
	raw = trim(raw)
	if n, ok := shortInt(raw); ok {
		return n, true
	}
	s := scanner{b: raw}
	if len(raw) == 0 || raw[0] != '-' && !isDigit(raw[0]) || s.number(0) != len(raw) {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// shortInt reads up to 18 digits without a sign: the ids that we send.
func shortInt(raw []byte) (int64, bool) {
	if len(raw) == 0 || len(raw) > 18 || raw[0] == '0' && len(raw) > 1 {
		return 0, false
	}
	n := int64(0)
	for _, c := range raw {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// Bool returns the value of true or false. It is ok for nothing else.
func Bool(raw []byte) (value, ok bool) {
	switch string(trim(raw)) {
	case "true":
		return true, true
	case "false":
		return false, true
	default:
		return false, false
	}
}

// IsNull reports whether raw is null. An absent value is not.
func IsNull(raw []byte) bool { return string(trim(raw)) == "null" }

// IsObject reports whether raw begins as an object; it does not check the rest.
func IsObject(raw []byte) bool { return begins(raw, '{') }

// IsArray reports whether raw begins as an array; it does not check the rest.
func IsArray(raw []byte) bool { return begins(raw, '[') }

func begins(raw []byte, c byte) bool {
	s := scanner{b: raw}
	i := s.space(0)
	return i < len(raw) && raw[i] == c
}

// AppendInt appends n as a JSON number.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// ParseID reads one of our own request ids back. Servers return them as the
// number that was sent, as a string of it, or as a float.
func ParseID(raw []byte) (int64, bool) {
	if n, ok := shortInt(raw); ok {
		return n, true
	}
	if len(raw) > 0 && raw[0] == '"' {
		text, ok := Text(raw)
		if !ok {
			return 0, false
		}
		return Int([]byte(text))
	}
	return Int(raw)
}
