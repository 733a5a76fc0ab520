package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

func newToolsApprove(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "approve [server[.tool]]",
		ValidArgsFunction: one(a.completePinned),
		Short:             "Approve definitions as they are now",
		Long: "Show the definitions of one tool, of one server with its instructions, or of all servers that are not as they\n" +
			"were approved, ask, and then approve them as they are now, and write the lock file. Without a terminal nobody\n" +
			"can be asked, and nothing is approved without --yes.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.approve(cmd.Context(), args, yes) }),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, yesHelp)
	return cmd
}

func (a *app) approve(ctx context.Context, args []string, yes bool) error {
	var want admin.Approval
	if len(args) == 1 {
		var err error
		if want, err = a.pinTarget(ctx, args[0]); err != nil {
			return err
		}
	}
	if !yes {
		pins, err := a.client().Pins(ctx)
		if err != nil {
			return err
		}
		pins.Changes = want.Concerned(pins.Changes)
		want.Seen = admin.Fingerprint(pins.Changes)
		if len(pins.Changes) > 0 {
			command := strings.Join(append([]string{"tools approve"}, args...), " ")
			if err := a.confirm(command, "Approve this?", func(w io.Writer) { _ = showPins(w, pins) }); err != nil {
				return err
			}
		}
	}
	done, err := a.client().Approve(ctx, want)
	if err != nil {
		return err
	}
	if a.forMachines() {
		return writeLine(a.stdout, done)
	}
	_, err = fmt.Fprintf(a.stdout, "%s approved\n", plural(done.Count, "definition"))
	return err
}

// pinTarget reads server or server.tool, with the longest server name that
// fits, since names may have dots.
func (a *app) pinTarget(ctx context.Context, text string) (admin.Approval, error) {
	st, err := a.client().Status(ctx)
	if err != nil {
		return admin.Approval{}, err
	}
	var found admin.Approval
	for _, s := range st.Servers {
		if s.Name == text {
			return admin.Approval{Server: s.Name}, nil
		}
		if tool, ok := strings.CutPrefix(text, s.Name+"."); ok && len(s.Name) > len(found.Server) {
			found = admin.Approval{Server: s.Name, Tool: tool}
		}
	}
	if found.Server == "" {
		return found, noServer(text, st.Servers)
	}
	return found, nil
}
