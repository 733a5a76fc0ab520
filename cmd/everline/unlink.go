package main

import (
	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/fileedit"
)

func newUnlink(a *app) *cobra.Command {
	var f linkFlags
	cmd := &cobra.Command{
		Use:       "unlink client",
		Short:     "Take our endpoint out of a client's configuration",
		Long:      linkLong("Take the server \"everline\" out of a client's own configuration file. What else is in it\nstays, and so does an entry that link did not write. A file that link made is removed if nothing else is in it,\nand a token that link made for the client is revoked."),
		Args:      oneClient,
		ValidArgs: clients.Formats()[1:],
		RunE: runE(func(_ *cobra.Command, args []string) error {
			return a.unlink(args[0], f)
		}),
	}
	f.addTo(cmd)
	return cmd
}

func (a *app) unlink(format string, f linkFlags) error {
	l, err := a.clientLink(format, f)
	if err != nil {
		return err
	}
	made, err := a.finishEdit(l.Take(f.dryRun), func(taken fileedit.Result) string {
		if taken.Text == nil {
			return "removed: nothing else was in it"
		}
		return clients.Title(format) + " no longer knows everline"
	}, func() string { return "" })
	if err != nil || f.dryRun {
		return err
	}
	if err := l.Forget(made); err != nil {
		return err
	}
	return a.takeTokenBack(l.Token)
}
