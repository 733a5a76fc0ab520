package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
)

// openAudit opens the record. It fails where nothing may happen unrecorded, and
// nothing can be recorded.
func (d *daemon) openAudit() error {
	s := d.parts.found.Config.Audit
	o := audit.Options{
		Folder: s.Path, Run: d.journal.Run(), Settings: s, Hide: d.hideLater,
		Warn: func(text string, cause error) {
			d.parts.Log.Error(text, "cause", cause, "remedy", fault.From("audit", cause).Remedy)
		},
	}
	switch {
	case s.Path == config.AuditStderr:
		o.Folder, o.Out = "", os.Stderr
	case s.Path == "" && d.parts.stateDir != "":
		o.Folder = filepath.Join(d.parts.stateDir, admin.AuditFolder)
	case s.Path == "":
		return d.withoutAudit(s)
	}
	if s.Level != config.AuditOff && s.Arguments == config.AuditFull {
		d.parts.Log.Warn("the arguments of calls are recorded in full: \"audit.arguments\" is \"full\"")
	}
	log, err := audit.Open(o)
	if err != nil && s.Strict {
		_ = log.Close(context.Background()) // nothing was written
		f := *fault.From("open the audit record", err)
		f.Kind, f.Outcome = fault.Invalid, fault.NotSent
		if f.Remedy == "" {
			f.Remedy = "make " + o.Folder + " a folder of your own, or set audit.strict to false"
		}
		return &f
	}
	d.audit = log
	d.keepAudit(s)
	return nil
}

// keepAudit says how the record is kept, for commands that do something while no
// everline runs. Where the record is does not change as long as this one does.
func (d *daemon) keepAudit(s config.Audit) {
	if d.parts.stateDir == "" {
		return
	}
	if s.Path = d.parts.found.Config.Audit.Path; s.Path != "" && s.Path != config.AuditStderr {
		s.Path, _ = filepath.Abs(s.Path) // which the log has been opened at
	}
	if err := audit.Keep(d.parts.stateDir, s); err != nil {
		d.parts.Log.Warn("commands may record what they do elsewhere while everline does not run", "cause", err)
	}
}

// unlocked has recorded that a page was given the right to act, or was not, before it
// is told so: by is the other end of its connection.
func (d *daemon) unlocked(ctx context.Context, by string, do func() error) error {
	place, f := d.audit.Reserve("unlock")
	if f != nil {
		return f
	}
	defer place.Free()
	err := do()
	host, _, _ := net.SplitHostPort(by) // "" where there is none
	r := &audit.Record{Type: audit.TypeAdmin, Action: "unlock", Outcome: audit.OK, Actor: audit.Actor{Kind: audit.Web, Addr: host}}
	if err != nil {
		r.Outcome, r.Kind, r.Cause = audit.Refused, fault.Unauthorized.String(), err.Error() // or the key cannot be had
		d.audit.Refuse(r)                                                                    // who has no code may come often
		return err
	}
	d.audit.Note(r)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
	defer cancel()
	_ = d.audit.Sync(ctx) // it is done; that it may be lost shows in status
	return nil
}

// refusedIdentity has recorded that somebody has shown a bad credential.
func (d *daemon) refusedIdentity(r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // "" for the unix socket
	d.audit.Refuse(&audit.Record{
		Type: audit.TypeAuth, Action: "authenticate", Outcome: audit.Refused, Kind: fault.Unauthorized.String(),
		Actor: audit.Actor{Kind: audit.Client, Addr: host}, Target: &audit.Target{Path: r.URL.Path},
	})
}

// withoutAudit is where there is no folder for the record.
func (d *daemon) withoutAudit(s config.Audit) error {
	const text = "nothing is recorded: there is no state folder, and audit.path names none"
	switch {
	case s.Strict && s.Level != config.AuditOff:
		f := fault.New(fault.Invalid, "open the audit record", text)
		f.Remedy = "set audit.path"
		return f
	case s.Level == config.AuditCalls:
		d.parts.Log.Warn(text)
	}
	return nil
}

// hideLater takes secrets out of a text, once it is known what they are: nobody has
// sent anything before.
func (d *daemon) hideLater(text string) string {
	if hide := d.hide.Load(); hide != nil {
		return (*hide)(text)
	}
	return text
}

// recorded has recorded what becomes of a configuration.
func (d *daemon) recorded(ctx context.Context, done admin.Reload, err error) {
	r := &audit.Record{Type: audit.TypeConfig, Action: "reload", Outcome: audit.OK, Actor: audit.From(ctx)}
	if err != nil {
		f := fault.From("reload", err)
		r.Outcome, r.Kind, r.Cause = audit.Failed, f.Kind.String(), f.Reason()
	} else {
		r.Change = &audit.Change{Added: done.Added, Removed: done.Removed, Restarted: done.Restarted, Adjusted: done.Adjusted}
	}
	d.audit.Note(r)
}

// systemRecord is a record of everline itself.
func systemRecord(action string) *audit.Record {
	return &audit.Record{Type: audit.TypeSystem, Action: action, Outcome: audit.OK, Actor: audit.Actor{Kind: audit.System, PID: os.Getpid()}}
}

// auditLimit is how long the last records may take to be written.
const auditLimit = 2 * time.Second

func (d *daemon) closeAudit() error {
	d.audit.Note(systemRecord(audit.Stop))
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	return d.audit.Close(ctx)
}

// turnedAway has recorded that another user of the machine wanted to connect.
func (d *daemon) turnedAway(uid int) {
	d.clients.Auth.Add(1)
	d.audit.Refuse(&audit.Record{
		Type: audit.TypeRefusal, Action: "connect", Outcome: audit.Refused, Kind: fault.Forbidden.String(), Actor: audit.Actor{Kind: audit.Client, UID: &uid},
	})
}
