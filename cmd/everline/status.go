package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
)

func newStatus(a *app) *cobra.Command {
	var wait string
	var timeout time.Duration
	var check, ready bool
	cmd := &cobra.Command{
		Use:               "status [server]",
		ValidArgsFunction: one(a.completeServers),
		Aliases:           []string{"ps"},
		Short:             "What every server is doing, why, and since when",
		Args:              cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if ready {
				return a.ready(cmd.Context())
			}
			st, err := a.awaitStatus(cmd.Context(), name, event.State(wait), timeout)
			if err != nil {
				return err
			}
			asked := only(st.Servers, name)
			if err := a.printStatus(st, name); err != nil {
				return err
			}
			if code := health(asked); check && code != exitOK {
				return exit(code)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&wait, "wait", "", "wait until the server, or every server that is not disabled or idle, is in this state")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long --wait waits at most")
	cmd.Flags().BoolVar(&check, "check", false, "exit with 5 if an enabled server is down, with 4 if one needs a login; where some are required, only those count")
	cmd.Flags().BoolVar(&ready, "ready", false, "say only whether all required servers can take calls, as /readyz does; exit with 5 if not")
	return cmd
}

// ready is for probes in images that have no other client.
func (a *app) ready(ctx context.Context) error {
	st, err := a.client().Status(ctx)
	if err != nil {
		return err
	}
	if !st.Ready {
		fmt.Fprintln(a.stdout, "not ready")
		return exit(exitDegraded)
	}
	fmt.Fprintln(a.stdout, "ready")
	return nil
}

// health is the exit code of --check. Where some servers are required the
// others do not count, as for /readyz; where none is, all do.
func health(servers []admin.Server) int {
	code := exitOK
	some := slices.ContainsFunc(servers, func(s admin.Server) bool { return s.Required })
	for _, s := range servers {
		switch off := s.State.Off(); {
		case some && !s.Required:
		case s.State == event.StateConnected, s.State == event.StateIdle, off && !s.Required:
		case s.State == event.StateAuthRequired:
			code = worse(code, exitAuth)
		default:
			code = exitDegraded
		}
	}
	return code
}
