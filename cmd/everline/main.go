// Command everline runs the gateway and is the window on it: serve, stdio,
// status, logs, events, calls and the lifecycle by hand. It wires packages
// together and formats what they say; it decides nothing about servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/show"
)

// The exit codes, which scripts may rely on.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotRunning = 3
	exitAuth       = 4
	exitDegraded   = 5
	exitConfig     = 6
	exitTimeout    = 124
	exitInterrupt  = 130
)

func main() {
	everline.RunShim()
	show.Program = startedAs(os.Args[0])
	os.Exit(run())
}

func run() int {
	stderr := newTalk(os.Stderr)
	defer stderr.close()
	stdout := &checked{to: os.Stdout}
	stdio := streams{in: os.Stdin, out: stdout, err: stderr}
	root := newRoot(&stdio)
	completionCommand(root)
	cmd, err := root.ExecuteContextC(context.Background())
	code := report(stderr, misused(cmd, err))
	if failed := stdout.failed.Load(); failed != nil && code == exitOK {
		return report(stderr, ran{fault.From("write the output", *failed)})
	}
	return code
}

// streams are the process's own: stdout is data, stderr is talk.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// ran marks an error of a command that did run; every other error that comes
// out of cobra is about how it was called.
type ran struct{ err error }

func (e ran) Error() string { return e.err.Error() }
func (e ran) Unwrap() error { return e.err }

// exit ends the process with a code and nothing more to say.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// report tells a person what failed, where, why and what to type, and returns
// the exit code.
func report(w io.Writer, err error) int {
	var silent exit
	var command ran
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return int(silent)
	case !errors.As(err, &command):
		fmt.Fprintf(w, "everline: %v\n", err)
		return exitUsage
	}
	f := fault.From("", err)
	fmt.Fprintf(w, "everline: %s\n", screenText(f.Error()))
	var call called
	if errors.As(err, &call) {
		fmt.Fprint(w, outcomeText(f))
	}
	for _, line := range f.Stderr {
		fmt.Fprintf(w, "  stderr: %s\n", printable(line))
	}
	if f.RetryAfter > 0 {
		fmt.Fprintf(w, "  try again in %s\n", span(f.RetryAfter))
	}
	if f.Remedy != "" {
		fmt.Fprintf(w, "  %s\n", advice(f.Remedy))
	}
	return exitCode(f)
}

func exitCode(f *fault.Fault) int {
	switch {
	case errors.Is(f, admin.ErrNotRunning):
		return exitNotRunning
	case f.Op == tree.OpRead:
		return exitConfig
	case f.Op == opUsage:
		return exitUsage
	case f.Kind == fault.Unauthorized:
		return exitAuth
	case f.Kind == fault.Deadline:
		return exitTimeout
	case f.Kind == fault.Canceled:
		return exitInterrupt
	default:
		return exitFailed
	}
}

const opUsage = "read the command line"

// usage makes an error about how a command was called.
func usage(remedy, format string, args ...any) error {
	return &fault.Fault{Kind: fault.Invalid, Op: opUsage, Outcome: fault.NotSent, Remedy: remedy, Err: fmt.Errorf(format, args...)}
}
