package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
)

// doing does something to what is kept on disk, and has it recorded: by the everline
// that runs, else behind what the last one has recorded. what is filled in by do.
// Nothing is done where that must be recorded and cannot be, or where the everline
// that runs does not let this process do anything.
func (a *app) doing(ctx context.Context, action string, what *admin.Doing, do func() error) error {
	if err := a.mayDo(ctx, action); err != nil {
		return err
	}
	err := do()
	a.did(ctx, action, what.Failed(err))
	return err
}

func (a *app) mayDo(ctx context.Context, action string) error {
	err := a.glance().MayDo(ctx, action)
	if !errors.Is(err, admin.ErrNotRunning) {
		if errors.Is(err, &fault.Fault{Kind: fault.NotFound}) { // it is older than this program
			return nil
		}
		return err
	}
	o := a.recordAlone()
	if !o.Settings.Strict || o.Settings.Level == config.AuditOff {
		return nil
	}
	l, err := audit.Open(o)
	if err = errors.Join(err, l.Close(ctx)); err != nil {
		f := *fault.From(action, err)
		f.Outcome, f.Remedy, f.Err = fault.NotSent, "everline doctor", fmt.Errorf("it cannot be recorded, and audit.strict lets nothing happen unrecorded: %w", f.Err)
		return &f
	}
	return nil
}

// didLimit is how long a command waits for the record of what it has done.
const didLimit = 5 * time.Second

func (a *app) did(ctx context.Context, action string, d admin.Doing) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), didLimit)
	defer cancel()
	err := a.glance().Did(ctx, action, d)
	if errors.Is(err, admin.ErrNotRunning) {
		uid := os.Geteuid()
		err = audit.Append(ctx, a.recordAlone(), d.Record(action, audit.Actor{Kind: audit.CLI, UID: &uid, PID: os.Getpid()}))
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: this has no audit record: %s\n", printable(fault.From(action, err).Reason()))
	}
}

// recordAlone is how the last everline on the state folder kept its record.
func (a *app) recordAlone() audit.Options {
	settings, err := audit.Kept(a.stateDir)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: how records are kept cannot be read: %s\n", printable(err.Error()))
	}
	var run [4]byte
	_, _ = rand.Read(run[:]) // never fails
	o := audit.Options{Run: hex.EncodeToString(run[:]), Settings: settings, Folder: settings.Path}
	switch settings.Path {
	case "":
		o.Folder = filepath.Join(a.stateDir, admin.AuditFolder)
	case config.AuditStderr:
		o.Folder, o.Out = "", a.stderr
	}
	return o
}
