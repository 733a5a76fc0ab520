package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/prompt"
)

// yesHelp is the help of --yes.
const yesHelp = "do not ask"

// confirm shows something and asks whether to go on with a command of everline.
// It fails where the user says anything but yes, and where there is nobody to
// ask.
func (a *app) confirm(command, question string, what func(io.Writer)) error {
	in, ok := a.stdin.(*os.File)
	ask := ok && onScreen(in) && inForeground(in)
	switch {
	case ask && (a.forMachines() || !onScreen(a.stdout)):
		what(a.live()) // to the person who is asked
	case a.forMachines():
		what(a.stderr)
	default:
		what(a.stdout)
	}
	f := &fault.Fault{Kind: fault.Invalid, Op: command, Outcome: fault.NotSent, Err: errors.New("nothing was done: the answer was not yes")}
	if !ask {
		f.Err = errors.New("nothing was done: there is no terminal on which you could be asked")
		f.Remedy = "look at what is shown, then: everline " + command + " --yes"
		return f
	}
	fmt.Fprintf(a.live(), "%s [y/N] ", question)
	if !saysYes(in) {
		return f
	}
	return nil
}

// maxReply bounds what is read of an answer in bytes.
const maxReply = 100

// saysYes reads one line, and nothing of what was typed behind it.
func saysYes(in io.Reader) bool {
	var line []byte
	for one := make([]byte, 1); len(line) < maxReply; {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			reply := strings.ToLower(strings.TrimSpace(string(line)))
			return reply == "y" || reply == "yes"
		}
		if err != nil {
			return false // the end of the input is no answer
		}
		line = append(line, one[:n]...)
	}
	return false
}

// newAsker asks nobody where stdin is not a terminal that we may read from.
func (a *app) newAsker() *prompt.Asker {
	f, ok := a.stdin.(*os.File)
	if !ok || !isTerminal(f) || !inForeground(f) {
		return prompt.New(a.stdin, a.stderr, nil)
	}
	out := a.live()
	if !isTerminal(out) {
		out = f // the questions are not for the readers of the log
	}
	return prompt.New(f, out, func() (func(), error) {
		saved, err := term.MakeRaw(int(f.Fd()))
		return func() {
			if err := term.Restore(int(f.Fd()), saved); err != nil {
				fmt.Fprintf(a.stderr, "the terminal may need the command reset: %v\n", err)
			}
		}, err
	})
}
