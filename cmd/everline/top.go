package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/top"
)

func newTop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Watch all servers live, and act on them with a key",
		Long: "A view of the whole terminal that keeps itself up to date: a row for each server, and below what happens.\n" +
			"Enter shows all about the selected server; r, c, d and e restart, reconnect, disable and enable it; ? helps.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.top(cmd.Context()) }),
	}
}

func (a *app) top(ctx context.Context) error {
	if a.forMachines() {
		return usage("everline status -o "+a.output, "top has no output for programs")
	}
	if !isTerminal(a.stdout) || !isTerminal(a.stdin) {
		return usage("everline status, or everline events --follow", "top needs a terminal, and this is none")
	}
	screen, err := tcell.NewScreen()
	if err != nil {
		return usage("everline status", "this terminal cannot show top: %v", err)
	}
	ctx, stop := signal.NotifyContext(ctx, daemon.StopSignals...)
	defer stop()
	err = top.Run(ctx, top.Options{API: a.client(), Screen: screen, Colours: colours(a.stdout)})
	if _, gone := a.glance().Version(ctx); err == nil && errors.Is(gone, admin.ErrNotRunning) {
		fmt.Fprintln(a.stderr, admin.ErrStopped)
	}
	return err
}
