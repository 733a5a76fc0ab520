// Package tree is a configuration file as a tree of values with their places,
// read from JSON, YAML or TOML. It does not know what any of them means.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/everline/everline/fault"
)

// OpRead is the Op of every fault that refuses a configuration.
const OpRead = "read configuration"

// Kind is what a node is, in any of the three formats.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

// Article names the kind in messages: "a string", "an object".
func (k Kind) Article() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// Pos is a place in a file; line and column count from 1, columns in characters.
type Pos struct{ Line, col int }

// A Node is one value of a file with its place: all that the three formats
// have in common, so that one reader serves them all.
type Node struct {
	Kind   Kind
	Pos    Pos
	Text   string // strings: the value; numbers and booleans: as written
	List   []*Node
	Fields []Field // in the order of the file; names may repeat

	Literal bool // a text that is not the file's own, so that no reference is looked for in it
}

// A Field is one member of an object.
type Field struct {
	Name  string
	Pos   Pos // of the name
	Value *Node
}

// Get returns the first member of this name; nil if there is none.
func (n *Node) Get(name string) *Node {
	for _, f := range n.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Given is get, with null being as good as absent.
func (n *Node) Given(name string) *Node {
	if c := n.Get(name); c != nil && c.Kind != Null {
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

// Invalid makes the error of a bad place in a file.
func Invalid(file string, at Pos, remedy, format string, args ...any) *fault.Fault {
	return &fault.Fault{
		Kind:    fault.Invalid,
		Op:      OpRead,
		Outcome: fault.NotSent,
		Remedy:  remedy,
		Err:     errors.New(place(file, at) + ": " + fmt.Sprintf(format, args...)),
	}
}

// WrongKind is the error of a value that is not what it must be.
func WrongKind(file string, n *Node, want string) *fault.Fault {
	return Invalid(file, n.Pos, "write "+want+" there", "this must be %s, not %s", want, n.Kind.Article())
}

// IsComment tells whether a key carries no meaning by convention: a comment or
// an anchor.
func IsComment(name string) bool {
	for _, prefix := range []string{"_", "//", "x-", "$"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// place reads "file:line:column", or the file alone where there is no place in it.
func place(file string, at Pos) string {
	if at.Line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.col)
}

// Parse reads the text in the format that the file's name says; JSON with
// comments where it says none.
func Parse(file string, data []byte) (*Node, *fault.Fault) {
	if len(data) > MaxFile {
		return nil, Invalid(file, Pos{}, "name a configuration file", "%d bytes are too many for a configuration file (the limit is %d)", len(data), MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at, bad := badUTF8(data); bad {
		return nil, Invalid(file, at, "save the file as UTF-8", "the text is not UTF-8")
	}
	switch SyntaxOf(file) {
	case YAML:
		return ParseYAML(file, data)
	case TOML:
		return parseTOML(file, data)
	default:
		return parseJSON(file, data)
	}
}

// A Syntax is how a file is written.
type Syntax uint8

const (
	JSON Syntax = iota // with comments and trailing commas
	YAML
	TOML
)

// SyntaxOf says how a file is written, by its name.
func SyntaxOf(file string) Syntax {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml":
		return YAML
	case ".toml":
		return TOML
	default:
		return JSON
	}
}

// badUTF8 finds the first place that is no UTF-8, so that all three syntaxes refuse
// it in the same words.
func badUTF8(data []byte) (Pos, bool) {
	if utf8.Valid(data) {
		return Pos{}, false
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

func (l *lines) at(offset int) Pos {
	offset = min(max(offset, 0), len(l.data))
	i := sort.SearchInts(l.starts, offset+1) - 1
	return Pos{i + 1, 1 + utf8.RuneCount(l.data[l.starts[i]:offset])}
}

// ReadFile reads a configuration file. Of one that is too large it reads only as
// much as tells that.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}
