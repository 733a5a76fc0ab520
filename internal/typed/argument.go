package typed

import (
	"fmt"
	"strings"
	"unicode"
)

// Argument writes a server's name as it is typed behind a command of everline:
// in quotes where a shell needs them, and so that it is taken for no flag.
func Argument(name string) string {
	word := name
	if name == "" || strings.ContainsFunc(name, special) {
		word = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		word = escapedWord(name)
	}
	if strings.HasPrefix(name, "-") {
		return "-- " + word
	}
	return word
}

// special tells whether a character may mean something to a shell.
func special(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-./:@%+=,", c)
}

// escapedWord is a word with characters that nobody can type.
func escapedWord(name string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range name {
		switch {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			for _, part := range []byte(string(c)) {
				fmt.Fprintf(&b, `\x%02x`, part)
			}
		}
	}
	return b.String() + "'"
}
