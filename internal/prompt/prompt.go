// Package prompt asks a person at a terminal: for the inputs of configuration
// files, and for what servers ask during a call. It opens no terminal itself.
package prompt

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/show"
)

// An Asker gets the answers to the inputs of VS Code files from the user at
// the terminal, once each, and keeps them in memory alone.
type Asker struct {
	open    bool                             // there is somebody to ask
	raw     func() (restore func(), _ error) // makes the terminal show nothing by itself
	lines   *term.Terminal                   // one for all questions, since it may hold what was typed ahead
	out     io.Writer                        // where the questions are shown
	answers map[string]string
	refused map[string]bool // inputs that the user did not want to answer
}

// New makes an Asker that reads keys and writes questions. raw makes the terminal
// show nothing by itself, until restore; nil says that there is nobody to ask.
func New(in io.Reader, out io.Writer, raw func() (func(), error)) *Asker {
	lines := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keyboard{in}, out}, "")
	return &Asker{open: raw != nil, raw: raw, lines: lines, out: out, answers: map[string]string{}, refused: map[string]bool{}}
}

// Ask is a config.Ask.
func (q *Asker) Ask(i config.Input) (string, bool) {
	if v, ok := q.answers[i.ID]; ok {
		return v, true
	}
	if !q.open || q.refused[i.ID] {
		return "", false
	}
	v, err := q.read(i)
	if err != nil {
		q.refused[i.ID] = true
		fmt.Fprintf(q.out, "not answered; without a terminal, set %s\n", i.Variable)
		return "", false
	}
	q.answers[i.ID] = v
	return v, true
}

// Done ends the asking: what is kept is still answered.
func (q *Asker) Done() { q.open = false }

// Open reports whether there is somebody to ask.
func (q *Asker) Open() bool { return q.open }

// errNoAnswer is Ctrl-C, Ctrl-D, and an empty line where there is no default.
var errNoAnswer = errors.New("no answer")

// mostTries is how often a wrong choice is asked about again.
const mostTries = 3

func (q *Asker) read(i config.Input) (string, error) {
	restore, err := q.raw()
	if err != nil {
		return "", err
	}
	defer restore()
	for range mostTries {
		line, err := q.readLine(i)
		switch {
		case err != nil:
			fmt.Fprint(q.out, "\r\n")
			return "", err
		case line == "" && i.Default != nil:
			return *i.Default, nil
		case line == "":
			return "", errNoAnswer
		case len(i.Options) == 0 || slices.Contains(i.Options, line):
			return line, nil
		}
		fmt.Fprintf(q.out, "it must be one of: %s\r\n", show.Line(strings.Join(i.Options, ", ")))
	}
	return "", errNoAnswer
}

func (q *Asker) readLine(i config.Input) (line string, err error) {
	if i.Password {
		line, err = q.lines.ReadPassword(question(i))
	} else {
		q.lines.SetPrompt(question(i))
		line, err = q.lines.ReadLine()
	}
	return strings.TrimSpace(line), err
}

// A keyboard gives line ends as the key does: what was typed before the
// terminal was raw has become another character.
type keyboard struct{ io.Reader }

func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	for i := range p[:n] {
		if p[i] == '\n' {
			p[i] = '\r'
		}
	}
	return n, err
}

// question is what the user reads: "the API key (api-key in mcp.json, not
// shown): ".
func question(i config.Input) string {
	about := i.Description
	if about == "" {
		about = i.ID
	}
	notes := []string{i.ID + " in " + i.Origin.String()}
	if i.Password {
		notes = append(notes, "not shown")
	}
	if len(i.Options) > 0 {
		notes = append(notes, strings.Join(i.Options, ", "))
	}
	if i.Default != nil && !i.Password {
		notes = append(notes, "default "+*i.Default)
	}
	return fmt.Sprintf("%s (%s): ", show.Line(about), show.Line(strings.Join(notes, "; ")))
}
