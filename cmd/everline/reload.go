package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// reload reads the files again and applies what changed; a bad file changes
// nothing, and status says so. One runs at a time: of two edits in a row the
// second is read once the first is applied.
func (d *daemon) reload(ctx context.Context, dryRun bool) (admin.Reload, error) {
	select {
	case d.reloading <- struct{}{}:
		defer func() { <-d.reloading }()
	case <-ctx.Done():
		return admin.Reload{}, fault.From("reload", ctx.Err())
	}
	return d.reloadHolding(ctx, dryRun)
}

// reloadHolding is reload for who holds the token.
func (d *daemon) reloadHolding(ctx context.Context, dryRun bool) (admin.Reload, error) {
	cfg, err := d.opts.load()
	if err != nil {
		if !dryRun {
			d.refused(err)
		}
		return admin.Reload{}, err
	}
	if f := config.Breaks(d.hub.Config(), cfg); f != nil && dryRun {
		return admin.Reload{}, f
	}
	done := admin.ShapeReload(d.hub.Config(), cfg)
	restart := d.api.NeedsRestart(cfg)
	done.Warnings = append(done.Warnings, restart...)
	if dryRun {
		return done, nil
	}
	logWarnings(d.opts.log, cfg)
	for _, text := range restart {
		d.opts.log.Warn(text)
	}
	if _, err := d.hub.Apply(ctx, cfg); err != nil {
		d.refused(err)
		return admin.Reload{}, err
	}
	done.Applied = true
	d.api.ConfigError(nil)
	d.opts.log.Info("configuration reloaded", "added", done.Added, "removed", done.Removed,
		"restarted", done.Restarted, "adjusted", done.Adjusted, "kept", done.Kept)
	return done, nil
}

// refused tells log and status why the files are not applied.
func (d *daemon) refused(err error) {
	d.api.ConfigError(err)
	d.opts.log.Error("the configuration is not reloaded; the old one stays", "cause", err, "remedy", fault.From("reload", err).Remedy)
}

// reloadLimit bounds a reload that nobody waits for.
const reloadLimit = time.Minute

// reloadNow is a reload at the word of a signal.
func (d *daemon) reloadNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	_, _ = d.reload(ctx, false) // an error is in the log and in status
}

// reloadSeen is a reload because a file has changed. A file that has lost all
// its servers at once is more likely half saved than meant so: it is applied
// only by somebody's word.
func (d *daemon) reloadSeen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	select {
	case d.reloading <- struct{}{}:
		defer func() { <-d.reloading }()
	case <-ctx.Done():
		return
	}
	if cfg, err := d.opts.load(); err == nil && len(cfg.Servers) == 0 && len(d.hub.Config().Servers) > 0 {
		f := fault.New(fault.Invalid, "reload", "the configuration has no server any more; it may be half saved")
		f.Remedy = "if that is meant: everline reload"
		d.refused(f)
		return
	}
	_, _ = d.reloadHolding(ctx, false)
}

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
		return writeJSON(a.out, r)
	case "jsonl":
		return writeLine(a.out, r)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(a.err, "warning: %s\n", printable(w))
	}
	for _, part := range []struct {
		sign, what string
		names      []string
	}{
		{"+", "new", r.Added},
		{"-", "removed: its calls may finish, then it ends", r.Removed},
		{"~", "changed: gets a new life", r.Restarted},
		{"~", "changed: no restart", r.Adjusted},
	} {
		if len(part.names) > 0 {
			fmt.Fprintf(a.out, "%s %s  (%s)\n", part.sign, strings.Join(part.names, ", "), part.what)
		}
	}
	kept := plural(r.Kept, "server") + " as before"
	if !r.Applied {
		kept += "; nothing was changed yet"
	}
	_, err := fmt.Fprintln(a.out, kept)
	return err
}
