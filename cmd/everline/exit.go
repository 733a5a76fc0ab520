package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/daemon"
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

// ran marks an error of a command that did run; every other error that comes
// out of cobra is about how it was called.
type ran struct{ err error }

func (e ran) Error() string { return e.err.Error() }
func (e ran) Unwrap() error { return e.err }

// exit ends the process with a code and nothing more to say.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// worse is the exit code of the two that means more harm: a server that needs a
// login is less than one that is down, and that is less than a failure.
func worse(a, b int) int {
	for _, code := range []int{exitOK, exitAuth, exitDegraded} {
		switch code {
		case a:
			return b
		case b:
			return a
		}
	}
	return a
}

// called marks the error of a call: its report says whether the call may have been
// executed.
type called struct{ err error }

func (e called) Error() string { return e.err.Error() }
func (e called) Unwrap() error { return e.err }

// outcomeText is what is known about a call that failed on the way.
func outcomeText(f *fault.Fault) string {
	switch {
	case f.Kind == fault.NotFound || f.Kind == fault.Invalid || f.Outcome == fault.Answered || errors.Is(f, admin.ErrNotRunning):
		return ""
	case f.Outcome == fault.NotSent:
		return "  not sent: nothing was executed\n"
	default:
		return "  outcome unknown: it may have been executed\n"
	}
}

// report writes what failed, where, why and what to type, and returns the exit
// code.
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
	case f.Op == tree.OpRead, f.Op == daemon.OpOpen:
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

// asUsage makes an error of others one about how a command was called.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	f := fault.From("", err)
	return usage(f.Remedy, "%s", f.Reason())
}
