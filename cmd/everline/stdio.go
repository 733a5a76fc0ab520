package main

import (
	"context"
	"errors"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/fileedit"
)

func newStdio(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Speak MCP on stdin and stdout",
		Long: "Speak MCP on stdin and stdout, for clients that start their servers. If an everline runs on the\n" +
			"state folder, this is a bridge to it, and --config is not read; else it is a whole gateway.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.stdio(cmd.Context(), f) }),
	}
	f.addCommon(a, cmd)
	cmd.Flags().StringVar(&f.group, "group", "", "serve the servers of this group, in place of all")
	return cmd
}

func (a *app) stdio(parent context.Context, f serveFlags) error {
	log, err := f.logger(a.stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(parent, daemon.StopSignals...)
	defer stop()
	st, err := a.glance().Status(ctx)
	switch {
	case err == nil && st.Endpoint != "":
		own := daemon.NewOwnWay(a.stateDir)
		defer own.Close()
		return bridge.Run(ctx, a.stdin, a.raw(), fileedit.GroupURL(st.Endpoint, f.group), own)
	case err != nil && !errors.Is(err, admin.ErrNotRunning):
		return err
	}
	stop() // the gateway has signals of its own
	found, err := f.source(a.stateDir).Load()
	if err != nil {
		return err
	}
	return daemon.ServeStdio(parent, found, daemon.Options{Version: buildVersion(), Log: log, CredentialsKey: a.credentialsKey}, daemon.Stdio{In: a.stdin, Out: a.raw(), Group: f.group})
}
