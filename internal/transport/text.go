package transport

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// BodyText is the beginning of a body as one line of plain text. Of a body
// that is no text it says so.
func BodyText(body []byte) string {
	const longest = 200
	line, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\n"))
	text := string(line)
	for end := longest; len(text) > longest; end-- {
		if utf8.RuneStart(text[end]) {
			text = text[:end]
		}
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isBinary) {
		return noText(len(body))
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// isBinary tells control characters that stand in no text.
func isBinary(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n\f\b\x1b", r) }

func noText(size int) string { return strconv.Itoa(size) + " bytes that are no text" }

// LineText is a line of a child as text. A few bytes that are none are of
// another encoding; where there are many the line is no text at all.
func LineText(line []byte, stand string) string {
	text := strings.ToValidUTF8(string(line), "\ufffd")
	if bad := strings.Count(text, "\ufffd"); strings.ContainsFunc(text, isBinary) || bad > 0 && 4*bad > utf8.RuneCountInString(text) {
		return noText(len(line))
	}
	return strings.ReplaceAll(text, "\ufffd", stand)
}
