package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

func newReload(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again, and say what that changes",
		Long: "Make the running everline read its configuration again. Only what changed is touched: calls on other\n" +
			"servers do not notice. A bad file changes nothing, and exits with 6.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			done, err := a.client().Reload(cmd.Context(), dryRun)
			if err != nil {
				return err
			}
			return a.printReload(done)
		}),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func (a *app) printReload(r admin.Reload) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, r)
	case "jsonl":
		return writeLine(a.stdout, r)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", printable(w))
	}
	for _, part := range []struct {
		sign, what string
		names      []string
	}{
		{"+", "new", r.Added},
		{"-", "removed: its calls may finish, then it ends", r.Removed},
		{"~", "changed: gets a new generation", r.Restarted},
		{"~", "changed: no restart", r.Adjusted},
	} {
		if len(part.names) > 0 {
			fmt.Fprintf(a.stdout, "%s %s  (%s)\n", part.sign, strings.Join(part.names, ", "), part.what)
		}
	}
	kept := plural(r.Kept, "server") + " as before"
	if !r.Applied {
		kept += "; nothing was changed yet"
	}
	_, err := fmt.Fprintln(a.stdout, kept)
	return err
}
