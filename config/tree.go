package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/everline/everline/fault"
)

// opRead is the Op of every fault of this package that refuses a configuration.
const opRead = "read configuration"

// kind is what a node is, in any of the three formats.
type kind uint8

const (
	nullNode kind = iota
	boolNode
	numberNode
	stringNode
	listNode
	objectNode
)

// article names the kind in messages: "a string", "an object".
func (k kind) article() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// pos is a place in a file; line and column count from 1, columns in characters.
type pos struct{ line, col int }

// A node is one value of a file with its place: all that the three formats
// have in common, so that one reader serves them all.
type node struct {
	kind   kind
	at     pos
	text   string // strings: the value; numbers and booleans: as written
	list   []*node
	fields []field // in the order of the file; a name may be there twice

	literal bool // a text that is not the file's own, so that no reference is looked for in it
}

type field struct {
	name  string
	at    pos // of the name
	value *node
}

func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// given is get, with null being as good as absent.
func (n *node) given(name string) *node {
	if c := n.get(name); c != nil && c.kind != nullNode {
		return c
	}
	return nil
}

// MaxFile bounds a configuration file, in bytes: beyond it is something else.
// It is far above what clients keep that write their history into the same file.
const MaxFile = 64 << 20

const (
	// maxDepth bounds nesting, which the parsers and the reader recurse into.
	maxDepth = 200
	// maxNodes bounds what the aliases of a YAML file may expand to.
	maxNodes = 1 << 20
)

// invalid makes the error of a bad place in a file.
func invalid(file string, at pos, remedy, format string, args ...any) *fault.Fault {
	return &fault.Fault{
		Kind:    fault.Invalid,
		Op:      opRead,
		Outcome: fault.NotSent,
		Remedy:  remedy,
		Err:     errors.New(place(file, at) + ": " + fmt.Sprintf(format, args...)),
	}
}

// place reads "file:line:column", or the file alone where there is no place in it.
func place(file string, at pos) string {
	if at.line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(at.line) + ":" + strconv.Itoa(at.col)
}

// parseTree reads the text in the format that the file's name says; JSON with
// comments where it says none.
func parseTree(file string, data []byte) (*node, *fault.Fault) {
	if len(data) > MaxFile {
		return nil, invalid(file, pos{}, "name a configuration file", "%d bytes are too many for a configuration file (the limit is %d)", len(data), MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at, bad := badUTF8(data); bad {
		return nil, invalid(file, at, "save the file as UTF-8", "the text is not UTF-8")
	}
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml":
		return parseYAML(file, data)
	case ".toml":
		return parseTOML(file, data)
	default:
		return parseJSON(file, data)
	}
}

func badUTF8(data []byte) (pos, bool) {
	if utf8.Valid(data) {
		return pos{}, false
	}
	i := 0
	for {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return newLines(data).at(i), true
		}
		i += n
	}
}

// lines finds the line and column of an offset.
type lines struct {
	data   []byte
	starts []int
}

func newLines(data []byte) *lines {
	l := &lines{data: data, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

func (l *lines) at(offset int) pos {
	offset = min(max(offset, 0), len(l.data))
	i := sort.SearchInts(l.starts, offset+1) - 1
	return pos{i + 1, 1 + utf8.RuneCount(l.data[l.starts[i]:offset])}
}
