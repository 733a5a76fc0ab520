package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

// newOperation makes restart, reconnect, enable and disable.
func newOperation(a *app, op, short string) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               op + " server...",
		ValidArgsFunction: a.completeServers,
		Short:             short,
		Args:              cobra.MinimumNArgs(1),
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

// operate does it to one server and prints the result, so that the others have
// their turn. An error means that they would fail, too.
func (a *app) operate(ctx context.Context, name, op string, wait time.Duration) (code int, err error) {
	c := a.client()
	p := a.progress(func() string { return serverText(ctx, c, name) })
	s, err := c.Operate(ctx, name, op, wait)
	p.stop() // before anything is printed
	switch {
	case errors.Is(err, admin.ErrNotRunning):
		return exitOK, err
	case err != nil:
		return report(a.stderr, ran{err}), nil
	}
	return a.printOperated(s, op, wait > 0)
}

// printOperated prints the server as it is now. If the command waited, its exit
// code says whether the state is the wanted one.
func (a *app) printOperated(s admin.Server, op string, waited bool) (code int, err error) {
	switch a.output {
	case "json", "jsonl":
		err = writeLine(a.stdout, s)
	default:
		p := a.statusPrinter()
		_, err = fmt.Fprint(a.stdout, p.lines(s))
	}
	if err != nil || !waited || op == "disable" {
		return exitOK, err
	}
	return health([]admin.Server{s}), nil
}
