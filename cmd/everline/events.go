package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

func newEvents(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "events [server]",
		ValidArgsFunction: one(a.completeServers),
		Short:             "What happened, when, to which server, and why",
		Args:              cobra.MaximumNArgs(1),
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
		err = writeLine(a.stdout, e)
	case "wide":
		_, err = fmt.Fprintf(a.stdout, "%s  %s  gen %d  %s  %s\n", e.Time.Local().Format("2006-01-02 15:04:05.000"), shownEvent(e.Server), e.Generation, e.Kind, printable(e.Text))
	default:
		_, err = fmt.Fprintf(a.stdout, "%s  %s  %s\n", e.Time.Local().Format("15:04:05"), shownEvent(e.Server), printable(e.Text))
	}
	return err
}
