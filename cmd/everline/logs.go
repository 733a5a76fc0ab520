package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

func newLogs(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "logs server",
		ValidArgsFunction: one(a.completeServers),
		Short:             "What a server wrote to its stderr",
		Args:              cobra.ExactArgs(1),
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
		err = writeLine(a.stdout, l)
	case "wide":
		_, err = fmt.Fprintf(a.stdout, "%s  gen %d  %s\n", l.Time.Local().Format("2006-01-02 15:04:05.000"), l.Generation, printable(l.Text))
	default:
		_, err = fmt.Fprintln(a.stdout, printable(l.Text))
	}
	return err
}
