//go:build unix

package owned

import (
	"os/user"
	"strconv"
	"strings"
)

// quoted is a path as a shell takes it for one word.
func quoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@:,=~", r)
	}
	if path != "" && !strings.HasPrefix(path, "~") && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// me is the user's name, or number where that has none.
func me() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(geteuid())
}
