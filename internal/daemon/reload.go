package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// reload reads the files again and applies what changed; a bad file changes
// nothing, and status says so. One runs at a time: of two edits in a row the
// second is read once the first is applied.
func (d *daemon) reload(ctx context.Context, dryRun bool) (admin.Reload, error) {
	return d.reloadIf(ctx, dryRun, func(*config.Config) error { return nil })
}

// reloadIf is reload where the configuration that was read must be accepted. It
// is read once: what is accepted is what is applied.
func (d *daemon) reloadIf(ctx context.Context, dryRun bool, accept func(*config.Config) error) (admin.Reload, error) {
	select {
	case d.reloading <- struct{}{}:
		defer func() { <-d.reloading }()
	case <-ctx.Done():
		return admin.Reload{}, fault.From("reload", ctx.Err())
	}
	if !dryRun { // whatever comes of it: systemctl reload waits for both words
		notifySystemd("RELOADING=1\n" + monotonic())
		defer func() { notifySystemd("READY=1\n" + d.statusLine()) }()
	}
	cfg, err := d.load()
	if err == nil {
		err = accept(cfg)
	}
	if err == nil {
		err = d.mayApply(cfg)
	}
	if err != nil {
		if !dryRun {
			d.refused(ctx, err)
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
	logWarnings(d.parts.Log, cfg.Warnings)
	for _, text := range restart {
		d.parts.Log.Warn(text)
	}
	plan, err := d.hub.Apply(ctx, cfg)
	if err != nil {
		d.refused(ctx, err)
		return admin.Reload{}, err
	}
	d.guardBy(cfg)
	d.recorded(ctx, done, nil)
	d.reloads.taken(plan)
	d.history.Forget(func(name string) bool { _, ok := cfg.Server(name); return ok })
	done.Applied = true
	d.lookAtWarnings()
	d.api.ConfigError(nil)
	d.parts.Log.Info("configuration reloaded", "added", done.Added, "removed", done.Removed,
		"restarted", done.Restarted, "adjusted", done.Adjusted, "kept", done.Kept)
	return done, nil
}

// guardBy has a configuration that was applied decide who comes in, and what is recorded.
func (d *daemon) guardBy(cfg *config.Config) {
	if d.parts.entrance != nil {
		d.parts.entrance.Use(cfg)
		d.gateway.Recheck()
	}
	d.audit.Set(cfg.Audit)
	d.keepAudit(cfg.Audit)
	select {
	case d.reexposed <- struct{}{}:
	default: // it is to look anyway
	}
}

// refused reports in log and status why the files are not applied.
func (d *daemon) refused(ctx context.Context, err error) {
	d.recorded(ctx, admin.Reload{}, err)
	d.reloads.refuse()
	d.api.ConfigError(err)
	d.parts.Log.Error("the configuration is not reloaded; the old one stays", "cause", err, "remedy", fault.From("reload", err).Remedy)
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
// its servers in one edit is more likely half saved than meant so: it is applied
// only if somebody asks for a reload.
func (d *daemon) reloadSeen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	_, _ = d.reloadIf(ctx, false, func(cfg *config.Config) error { // an error is in the log and in status
		if len(cfg.Servers) > 0 || len(d.hub.Config().Servers) == 0 {
			return nil
		}
		f := fault.New(fault.Invalid, "reload", "the configuration has no server any more; it may be half saved")
		f.Remedy = "if that is meant: everline reload"
		return f
	})
}

// mayApply refuses a configuration that would open the endpoint, which goes on
// listening where it does, to whoever comes.
func (d *daemon) mayApply(c *config.Config) error {
	at := d.parts.address
	if at == "" {
		return nil
	}
	if f := MayServe(c, at, d.parts.unauthenticated); f != nil {
		return f
	}
	if was := d.hub.Config(); (was.TLS.CertFile == "") != (c.TLS.CertFile == "") {
		return &fault.Fault{
			Kind: fault.Invalid, Op: "reload", Outcome: fault.NotSent, Err: errors.New(`"tls" cannot come or go while the endpoint is open`), Remedy: "end it, and run: everline serve",
		}
	}
	return nil
}
