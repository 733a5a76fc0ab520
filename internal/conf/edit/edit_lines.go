package edit

import (
	"errors"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/tree"
)

// tomlEditor knows tables with a header of their own, which is how people and
// programs write servers; whatever else there is, edit finds out and refuses.
type tomlEditor struct{ text string }

func tomlKey(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return name
	}
	return strings.ReplaceAll(tree.Quoted(name), "\x7f", `\u007f`) // JSON allows it, TOML does not
}

// set drops the server's tables and writes them anew at the end: the order of tables
// means nothing in TOML.
func (w tomlEditor) set(in []string, name string, e tree.Entry) ([]byte, error) {
	if len(in) != 1 {
		return nil, errors.New("the servers are not in a table of their own")
	}
	header := in[0] + "." + tomlKey(name)
	rest := w.without(in[0], name)
	ended := rest == "" || strings.HasSuffix(rest, "\n")
	var b strings.Builder
	b.WriteString(rest)
	if !ended {
		b.WriteString("\n")
	}
	if rest != "" {
		b.WriteString("\n")
	}
	b.WriteString("[" + header + "]\n")
	for _, m := range e {
		if _, table := m.Value.(tree.Entry); !table {
			b.WriteString(tomlKey(m.Key) + " = " + tree.Inline(m.Value) + "\n")
		}
	}
	for _, m := range e {
		inner, table := m.Value.(tree.Entry)
		if !table {
			continue
		}
		b.WriteString("\n[" + header + "." + tomlKey(m.Key) + "]\n")
		for _, v := range inner {
			b.WriteString(tomlKey(v.Key) + " = " + tree.Inline(v.Value) + "\n")
		}
	}
	return []byte(endAs(b.String(), ended)), nil
}

// endAs takes the last line end away where the text it is put behind had none:
// the file ends as before, and remove can tell.
func endAs(text string, ended bool) string {
	if ended {
		return text
	}
	return strings.TrimSuffix(text, "\n")
}

func (w tomlEditor) remove(in []string, name string) ([]byte, error) {
	if len(in) != 1 {
		return nil, errors.New("the servers are not in a table of their own")
	}
	return []byte(w.without(in[0], name)), nil
}

// A sieve takes lines out of a text. Comments and empty lines at the end of
// what is taken out belong to what follows, and stay.
type sieve struct {
	kept, held strings.Builder
}

// line passes a line on, or drops it.
func (s *sieve) line(line string, drop bool) {
	switch {
	case drop && isBlank(line):
		s.held.WriteString(line)
	case drop:
		s.held.Reset()
	default:
		s.kept.WriteString(s.held.String() + line)
		s.held.Reset()
	}
}

func (s *sieve) text() string { return s.kept.String() + s.held.String() }

// isBlank tells whether a line says nothing but a comment.
func isBlank(line string) bool {
	trimmed := strings.TrimSpace(line)
	return trimmed == "" || trimmed[0] == '#'
}

// without drops the table of a server and the tables in it, from each header
// to the next.
func (w tomlEditor) without(in, name string) string {
	var s sieve
	drop := false
	for line := range strings.Lines(w.text) {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "[") {
			drop = isTableOf(trimmed, in+"."+name) || isTableOf(trimmed, in+"."+tomlKey(name)) || isTableOf(trimmed, in+"."+tree.Quoted(name)) || isTableOf(trimmed, in+".'"+name+"'")
		}
		s.line(line, drop)
	}
	if !drop || s.held.Len() > 0 {
		return s.text()
	}
	before, ok := strings.CutSuffix(s.kept.String(), "\n") // the empty line that set puts before a server
	if !ok || before != "" && !strings.HasSuffix(before, "\n") {
		return s.text()
	}
	return endAs(before, strings.HasSuffix(w.text, "\n"))
}

func isTableOf(header, name string) bool {
	rest, ok := strings.CutPrefix(header, "["+name)
	return ok && (strings.HasPrefix(rest, "]") || strings.HasPrefix(rest, "."))
}

// yamlEditor knows block mappings, which is how goose and people write them.
type yamlEditor struct{ text string }

// set drops the server's block and writes it anew, first under the key of the
// servers, or with that key where it is not there.
func (w yamlEditor) set(in []string, name string, e tree.Entry) ([]byte, error) {
	if len(in) != 1 {
		return nil, errors.New("the servers are not under a key of their own")
	}
	rest, indent := w.without(in[0], name)
	block := indent + yamlKey(name) + ":\n" + yamlText(e, indent+"  ")
	key := in[0] + ":"
	at, ended := 0, rest == "" || strings.HasSuffix(rest, "\n")
	first := -1
	for line := range strings.Lines(rest) {
		if bare := strings.TrimRight(line, " \r\n"); bare == key || bare == key+" {}" {
			head := key + strings.TrimPrefix(line[len(key):], " {}")
			if !strings.HasSuffix(head, "\n") {
				head, block = head+"\n", endAs(block, false)
			}
			return []byte(rest[:at] + head + block + rest[at+len(line):]), nil
		}
		if first < 0 && !isBlank(line) && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "%") {
			first = at
		}
		at += len(line)
	}
	switch {
	case ended:
		return []byte(rest + key + "\n" + block), nil
	case first < 0:
		return []byte(rest + "\n" + key + "\n" + block), nil
	default: // a line end may be one too many for a text in the last line
		return []byte(rest[:first] + key + "\n" + block + rest[first:]), nil
	}
}

// remove drops the block. A key that nothing is left under becomes an empty map:
// without a value it is null, and no map.
func (w yamlEditor) remove(in []string, name string) ([]byte, error) {
	if len(in) != 1 {
		return nil, errors.New("the servers are not under a key of their own")
	}
	rest, _ := w.without(in[0], name)
	root, f := tree.ParseYAML("", []byte(rest))
	if f != nil {
		return nil, f
	}
	if left := root.Get(in[0]); left == nil || left.Kind != tree.Null {
		return []byte(rest), nil
	}
	var b strings.Builder
	last := false
	for line := range strings.Lines(rest) { // a key without a value is null, and no empty map
		last = strings.TrimRight(line, " \r\n") == in[0]+":"
		if last {
			line = in[0] + ": {}" + line[len(in[0])+1:]
		}
		b.WriteString(line)
	}
	return []byte(endAs(b.String(), !last || strings.HasSuffix(w.text, "\n"))), nil
}

// yamlWords are read as something else than text where they have no quotes.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off"}

func yamlKey(name string) string {
	if slices.Contains(yamlWords, strings.ToLower(name)) || strings.HasPrefix(name, "-") {
		return tree.Quoted(name)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == "" && name != "" {
		return name
	}
	return tree.Quoted(name)
}

// yamlText writes values in the form that YAML shares with JSON.
func yamlText(e tree.Entry, indent string) string {
	var b strings.Builder
	for _, m := range e {
		if inner, ok := m.Value.(tree.Entry); ok {
			b.WriteString(indent + yamlKey(m.Key) + ":\n" + yamlText(inner, indent+"  "))
			continue
		}
		b.WriteString(indent + yamlKey(m.Key) + ": " + tree.Inline(m.Value) + "\n")
	}
	return b.String()
}

// without drops the block of a server, and tells how far the servers are
// indented.
func (w yamlEditor) without(in, name string) (rest, indent string) {
	var s sieve
	inside, drop := false, false
	indent = "  "
	first := true
	for line := range strings.Lines(w.text) {
		bare := strings.TrimRight(line, " \r\n")
		depth := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case isBlank(line):
		case depth == 0:
			inside, drop = bare == in+":", false
		case inside && first:
			indent, first = line[:depth], false
			drop = isYAMLKey(bare, indent, name)
		case inside && depth == len(indent):
			drop = isYAMLKey(bare, indent, name)
		}
		s.line(line, drop)
	}
	return s.text(), indent
}

func isYAMLKey(line, indent, name string) bool {
	single := "'" + strings.ReplaceAll(name, "'", "''") + "'"
	return line == indent+name+":" || line == indent+tree.Quoted(name)+":" || line == indent+single+":"
}
