package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

// versions is the JSON of everline version.
type versions struct {
	Version string         `json:"version"`
	Running *admin.Version `json:"running"`
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "The version of this program, and of the everline that runs",
		Args:  cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			running, err := a.glance().Version(cmd.Context())
			v := versions{Version: buildVersion()}
			if err == nil {
				v.Running = &running
			}
			if a.forMachines() {
				return writeLine(a.stdout, v)
			}
			fmt.Fprintf(a.stdout, "everline %s\n", v.Version)
			if v.Running != nil {
				fmt.Fprintf(a.stdout, "running: %s (pid %d)\n", v.Running.Version, v.Running.PID)
			}
			return nil
		}),
	}
}
