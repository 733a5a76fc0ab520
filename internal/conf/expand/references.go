// Package expand replaces the references in texts of a configuration by what
// they refer to, and puts URLs together of which they are a part. Which
// references a client of its own kind knows is not its matter.
package expand

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf16"
)

// maxSecretFile bounds what ${file:path} reads.
const maxSecretFile = 1 << 20

// maxExpansion bounds defaults inside defaults.
const maxExpansion = 8

// References replaces ${VAR}, ${VAR:-default}, ${VAR:?message},
// ${env:VAR}, ${file:path} and $$. Every other "$" stays as it is.
type References struct {
	Env  func(string) (string, bool)
	Read func(path string) (string, error)
	// Value, if not nil, gets every value of a reference, defaults excepted, and
	// gives what is put in.
	Value func(string) string
}

// Expand returns the text with every reference replaced. The error says which
// reference failed and why; nothing is ever replaced by an empty text silently.
func (r *References) Expand(text string) (string, error) { return r.expandAt(text, 0) }

// expandAt is Expand at a depth of defaults inside defaults.
func (r *References) expandAt(text string, depth int) (string, error) {
	if depth > maxExpansion {
		return "", errors.New("references are nested too deeply")
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		text = text[i:]
		switch text[1] {
		case '$':
			b.WriteByte('$')
			text = text[2:]
		case '{':
			end := closingBrace(text)
			if end < 0 {
				return "", errors.New("a ${ has no closing brace; write $$ for a plain dollar") // not the text: it may be a secret
			}
			v, err := r.reference(text[2:end], depth)
			if err != nil {
				return "", err
			}
			b.WriteString(v)
			text = text[end+1:]
		default:
			b.WriteByte('$')
			text = text[1:]
		}
	}
}

// closingBrace finds the brace that ends the reference at the start of text.
func closingBrace(text string) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '$' && i+1 < len(text) && text[i+1] == '{':
			open++
			i++
		case text[i] == '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// reference gives the value of what stands between the braces.
func (r *References) reference(ref string, depth int) (string, error) {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		v, err := r.Read(path)
		if err != nil {
			return "", fmt.Errorf("${%s}: %w", ref, err)
		}
		return r.found(v), nil
	}
	ref = strings.TrimPrefix(ref, "env:")
	name, rest, _ := strings.Cut(ref, ":")
	if !IsVariable(name) {
		return "", notReference(ref)
	}
	v, set := r.Env(name)
	if len(ref) == len(name) {
		if !set {
			return "", fmt.Errorf("the variable %s is not set", name)
		}
		return r.found(v), nil
	}
	usable := set && v != ""
	switch {
	case rest != "" && rest[0] == '-':
		if usable {
			return r.found(v), nil
		}
		return r.expandAt(rest[1:], depth+1)
	case rest != "" && rest[0] == '?':
		if usable {
			return r.found(v), nil
		}
		message := rest[1:]
		if message == "" {
			message = "it is required"
		}
		return "", fmt.Errorf("the variable %s is not set: %s", name, message)
	default:
		return "", notReference(ref)
	}
}

func notReference(ref string) error {
	return fmt.Errorf("${%s} is no reference; known are ${VAR}, ${VAR:-default}, ${VAR:?message}, ${env:VAR}, ${file:path}", ref)
}

func (r *References) found(v string) string {
	if r.Value != nil {
		return r.Value(v)
	}
	return v
}

// IsVariable tells whether a text is the name of a variable.
func IsVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// ReadFile reads a file for ${file:path}, relative to the folder of the
// configuration.
func ReadFile(folder, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSecretFile {
		return "", &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("over %d bytes", maxSecretFile)}
	}
	return plainText(data), nil
}

// ByteOrderMark is what some programs begin a text with.
const ByteOrderMark = "\ufeff"

// plainText is a text as it was meant: some programs write UTF-16, which begins
// with a byte order mark.
func plainText(data []byte) string {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if len(data) < 2 || len(data)%2 != 0 || order.Uint16(data) != 0xfeff {
			continue
		}
		units := make([]uint16, len(data)/2)
		for i := range units {
			units[i] = order.Uint16(data[2*i:])
		}
		return string(utf16.Decode(units))
	}
	return string(data)
}

// Cleaned takes off a value what programs put around it and nobody means: a
// byte order mark, and line ends behind it.
func Cleaned(v string) string {
	return strings.TrimRight(strings.TrimPrefix(v, ByteOrderMark), "\r\n")
}
