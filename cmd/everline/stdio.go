package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/gateway"
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
	f.addCommon(cmd)
	cmd.Flags().StringVar(&f.group, "group", "", "serve the servers of this group, in place of all")
	return cmd
}

func (a *app) stdio(parent context.Context, f serveFlags) error {
	log, err := f.logger(a.err)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(parent, stopSignals...)
	defer stop()
	st, err := a.glance().Status(ctx)
	switch {
	case err == nil && st.Endpoint != "":
		return gateway.Bridge(ctx, a.in, a.raw(), fileedit.GroupURL(st.Endpoint, f.group))
	case err != nil && !errors.Is(err, admin.ErrNotRunning):
		return err
	}
	found, err := f.load(a.stateDir)
	if err != nil {
		return err
	}
	if !joinChain(found.files) {
		stop() // nothing is to be ended in order
		return gateway.ServeLoop(a.in, a.raw())
	}
	// Several clients may each start a gateway of their own on the same folder.
	// The first one has it, socket and all; the others keep nothing on disk,
	// because none may depend on another that ends with its client.
	o := daemonOptions{config: found.cfg, files: found.files, load: f.reload(a.stateDir, found.files), log: log, gateway: gateway.Options{Version: buildVersion()}}
	if socket, err := admin.Listen(a.stateDir); err == nil {
		defer func() { _ = socket.Close() }() // the program ends with it
		o.socket, o.stateDir = socket, a.stateDir
	} else {
		log.Warn("running without a state folder", "cause", err)
	}
	d, err := startDaemon(ctx, o)
	if err != nil {
		return err
	}
	logWarnings(log, found.cfg)
	d.watchFiles(found.seen)
	served := a.serveGroup(ctx, d.gateway, f.group)
	hurry, now := signal.NotifyContext(context.Background(), os.Interrupt)
	defer now()
	if err := d.close(hurry); err != nil && served == nil {
		log.Warn("not everything ended in order", "cause", err)
	}
	return served
}

// serveGroup serves stdin and stdout from the whole catalog, or from a group.
func (a *app) serveGroup(ctx context.Context, g *gateway.Gateway, group string) error {
	if group != "" {
		if g = g.Group(group); g == nil {
			return &fault.Fault{
				Kind: fault.NotFound, Op: "serve", Err: fmt.Errorf("the configuration has no group %q", group), Remedy: "everline config shows the groups",
			}
		}
	}
	return g.ServeStdio(ctx, a.in, a.raw())
}
