package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
)

// untilEnd gives a following command a context that ends with Ctrl-C. That is no
// failure, and neither is the end of what it follows.
func (a *app) untilEnd(parent context.Context, follow func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(parent, daemon.StopSignals...)
	defer stop()
	err := follow(ctx)
	for _, end := range []error{admin.ErrStopped, admin.ErrRemoved} {
		if errors.Is(err, end) {
			fmt.Fprintf(a.err, "%v\n", end)
			return nil
		}
	}
	if ctx.Err() != nil && parent.Err() == nil && errors.Is(err, &fault.Fault{Kind: fault.Canceled}) {
		return nil
	}
	return err
}

func newLogs(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs server",
		Short: "What a server wrote to its stderr",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			return a.untilEnd(cmd.Context(), func(ctx context.Context) error {
				return a.client().Logs(ctx, args[0], follow, a.printLog)
			})
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the lines to come")
	return cmd
}

func (a *app) printLog(l admin.LogLine) error {
	var err error
	switch a.output {
	case "json", "jsonl":
		err = writeLine(a.out, l)
	case "wide":
		_, err = fmt.Fprintf(a.out, "%s  gen %d  %s\n", l.Time.Local().Format("2006-01-02 15:04:05.000"), l.Generation, printable(l.Text))
	default:
		_, err = fmt.Fprintln(a.out, printable(l.Text))
	}
	return err
}

func newEvents(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [server]",
		Short: "What happened, when, to which server, and why",
		Args:  cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			return a.untilEnd(cmd.Context(), func(ctx context.Context) error {
				if len(args) == 0 {
					return a.client().Events(ctx, follow, a.printEvent)
				}
				return a.eventsOf(ctx, args[0], follow)
			})
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the events to come")
	return cmd
}

// eventsOf prints the events of one server, which may be one that was removed.
func (a *app) eventsOf(ctx context.Context, name string, follow bool) error {
	_, unknown := a.statusWith(ctx, name)
	if unknown != nil && fault.KindOf(unknown) != fault.NotFound {
		return unknown
	}
	if unknown != nil && follow {
		return unknown // nothing more will happen to it
	}
	found := false
	err := a.client().Events(ctx, follow, func(e admin.Event) error {
		if e.Server != name {
			return nil
		}
		found = true
		return a.printEvent(e)
	})
	if err == nil && !found {
		return unknown
	}
	return err
}

func (a *app) printEvent(e admin.Event) error {
	var err error
	switch a.output {
	case "json", "jsonl":
		err = writeLine(a.out, e)
	case "wide":
		_, err = fmt.Fprintf(a.out, "%s  %s  gen %d  %s  %s\n", e.Time.Local().Format("2006-01-02 15:04:05.000"), shownEvent(e.Server), e.Generation, e.Kind, printable(e.Text))
	default:
		_, err = fmt.Fprintf(a.out, "%s  %s  %s\n", e.Time.Local().Format("15:04:05"), shownEvent(e.Server), printable(e.Text))
	}
	return err
}

// newOperation makes restart, reconnect, enable and disable.
func newOperation(a *app, op, short string) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   op + " server...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			if !wait {
				timeout = 0
			}
			worst := exitOK
			for _, name := range args {
				code, err := a.operate(cmd.Context(), name, op, timeout)
				if err != nil {
					return err
				}
				worst = worse(worst, code)
			}
			if worst != exitOK {
				return exit(worst)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the server has settled; fail if it is then not as wanted")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long --wait waits at most, for each server")
	return cmd
}

// operate does it to one server and tells how that went, so that the others
// have their turn. An error means that they would fail, too.
func (a *app) operate(ctx context.Context, name, op string, wait time.Duration) (code int, err error) {
	c := a.client()
	p := a.progress(func() string { return serverText(ctx, c, name) })
	s, err := c.Operate(ctx, name, op, wait)
	p.stop() // before anything is printed
	switch {
	case errors.Is(err, admin.ErrNotRunning):
		return exitOK, err
	case err != nil:
		return report(a.err, ran{err}), nil
	}
	return a.printOperated(s, op, wait > 0)
}

// worse is the exit code that tells of more harm: a login that is needed is
// less than a server that is down, and that is less than what did not work.
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

// printOperated tells how the server is now. Who waited is told of a state
// that is not the wanted one by the exit code.
func (a *app) printOperated(s admin.Server, op string, waited bool) (code int, err error) {
	switch a.output {
	case "json", "jsonl":
		err = writeLine(a.out, s)
	default:
		p := a.statusPrinter()
		_, err = fmt.Fprint(a.out, p.lines(s))
	}
	if err != nil || !waited || op == "disable" {
		return exitOK, err
	}
	return health([]admin.Server{s}), nil
}
