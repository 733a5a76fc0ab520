package main

import (
	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/fileedit"
)

func newRemove(a *app) *cobra.Command {
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:               "remove name...",
		ValidArgsFunction: a.completeConfigured,
		Short:             "Take a server out of the configuration file",
		Long:              "Take servers out of the configuration file. A running everline unpublishes them immediately and ends them.",
		Args:              cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			path, err := a.oneFile(cmd.Context(), file, args)
			if err != nil {
				return err
			}
			return a.editTrusted(cmd.Context(), path, dryRun, shownNames(args)+" removed", func(old []byte) ([]byte, error) {
				return fileedit.RemoveServers(path, old, args)
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the file to change (default: the one that the running everline reads, else the one that serve would read)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the change, and make none")
	return cmd
}
