package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
)

func newAudit(a *app) *cobra.Command {
	var follow bool
	var folder, since string
	var f audit.Filter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Who did what through everline, and what became of it",
		Long: "Show the record of who did what. What is recorded is the configuration's matter: see audit there. It is read from its\n" +
			"files, so it shows what an everline has done that does not run any more. With -o jsonl the lines come as they stand there.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = sinceWhen(since, time.Now()); err != nil {
				return err
			}
			if f.Type != "" && !slices.Contains(audit.Types, f.Type) {
				return usage("write one of "+strings.Join(audit.Types, ", "), "no record has the type %q", f.Type)
			}
			return a.untilEnd(cmd.Context(), func(ctx context.Context) error {
				err := audit.Read(ctx, a.auditFolder(folder), f, follow, a.printRecord)
				return a.noRecord(folder, err)
			})
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "go on with the records to come")
	flags.StringVar(&f.Server, "server", "", "only what is about this server")
	flags.StringVar(&f.Type, "type", "", "only records of this type: "+strings.Join(audit.Types, ", "))
	flags.StringVar(&f.Outcome, "outcome", "", "only what ended so: ok, failed, refused, answered, unknown, …")
	flags.StringVar(&f.Client, "client", "", "only what a client of this name did, or of this proven identity")
	flags.StringVar(&since, "since", "", "only what is not older: a time like 2h, a day like 2026-11-28, or both like 2026-11-28T09:00:00Z")
	cmd.PersistentFlags().StringVar(&folder, "folder", "", "folder of the record (default: that of the last everline on the state folder)")
	cmd.AddCommand(newAuditVerify(a, &folder))
	return cmd
}

func newAuditVerify(a *app, folder *string) *cobra.Command {
	var has string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no line of the record was changed or taken out",
		Long: "Compare each line of the record with the hash that the next one has of it, and say where they differ. Exit 1 means that a\n" +
			"line was changed, taken out or put in. A line that everline was killed in the middle of is told, and is no such case. The\n" +
			"end of the record proves nothing about itself: note the head, the hash of the last line, somewhere else, and ask for it\n" +
			"later with --has.",
		Args: cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			v, err := audit.Verify(a.auditFolder(*folder), has)
			if err = a.noRecord(*folder, err); err != nil {
				return err
			}
			if err := a.printVerdict(v); err != nil {
				return err
			}
			if !v.Intact {
				return exit(exitFailed)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&has, "has", "", "a head that was noted before, and that must still be there")
	return cmd
}

// auditFolder is where the record is: as named, or where the last everline on the
// state folder kept it.
func (a *app) auditFolder(named string) string {
	if named != "" {
		return named
	}
	if s, err := audit.Kept(a.stateDir); err == nil && s.Path != "" && s.Path != config.AuditStderr {
		return s.Path
	}
	return filepath.Join(a.stateDir, admin.AuditFolder)
}

// noRecord says what is to be done where there is no record.
func (a *app) noRecord(named string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := fault.New(fault.NotFound, "read the audit record", "there is none in "+a.auditFolder(named))
	f.Remedy = "name its folder with --folder, as audit.path does; with audit off there is none"
	return f
}

// sinceWhen reads a span before now, a day or a moment; the zero time for "".
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--since 2h, or --since 2026-11-28", "%q is no time", text)
}

func (a *app) printRecord(r *audit.Record, line []byte) error {
	var err error
	switch a.output {
	case "jsonl":
		_, err = fmt.Fprintf(a.stdout, "%s\n", line)
	case "json":
		err = writeJSON(a.stdout, r)
	default:
		_, err = fmt.Fprintln(a.stdout, recordLine(r, a.output == "wide"))
	}
	return err
}

// recordLine is a record in a line for people: when, who, what, to what, and how it
// ended.
func recordLine(r *audit.Record, wide bool) string {
	form := "15:04:05"
	if wide {
		form = "2006-01-02 15:04:05.000"
	}
	words := []string{r.Time.Local().Format(form), r.Type, shownActor(r.Actor), r.Action}
	if what := shownTarget(r.Target); what != "" {
		words = append(words, what)
	}
	words = append(words, r.Outcome)
	if r.Kind != "" {
		words = append(words, r.Kind)
	}
	if r.Saved != "" {
		words = append(words, "saved by "+r.Saved)
	}
	if r.Count > 0 {
		words = append(words, fmt.Sprintf("(%d)", r.Count))
	}
	if wide {
		words = append(words, r.ID)
	}
	text := strings.Join(words, "  ")
	if r.Cause != "" {
		text += ": " + r.Cause
	}
	return printable(text)
}

func shownActor(w audit.Actor) string {
	switch {
	case w.Subject != "":
		return w.Subject
	case w.Name != "":
		return w.Name
	case w.UID != nil:
		return fmt.Sprintf("%s of uid %d", w.Kind, *w.UID)
	case w.Addr != "":
		return w.Kind + " at " + w.Addr
	default:
		return w.Kind
	}
}

func shownTarget(t *audit.Target) string {
	switch {
	case t == nil:
		return ""
	case t.Tool != "":
		return t.Server + "." + t.Tool
	case t.URI != "":
		return t.URI
	case t.Server != "":
		return t.Server
	case t.Exposed != "":
		return t.Exposed
	case t.Token != "":
		return "token " + t.Token
	default:
		return t.Path
	}
}

func (a *app) printVerdict(v audit.Verdict) error {
	if a.forMachines() {
		return writeJSON(a.stdout, v)
	}
	var b strings.Builder
	word := "intact"
	if !v.Intact {
		word = "NOT INTACT"
	}
	fmt.Fprintf(&b, "%s: %s in %s of %s\n", word, plural(v.Records, "record"), plural(v.Files, "file"), printable(v.Folder))
	if v.First != nil {
		fmt.Fprintf(&b, "  from %s to %s\n", v.First.Local().Format(time.DateTime), v.Last.Local().Format(time.DateTime))
	}
	for _, f := range v.Broken {
		fmt.Fprintf(&b, "  broken: %s\n", printable(f.String()))
	}
	for _, f := range v.Torn {
		fmt.Fprintf(&b, "  torn: %s\n", printable(f.String()))
	}
	if v.Found != nil && !*v.Found {
		fmt.Fprintln(&b, "  the head that was asked for is not there: the record ended with it, and was cut or written anew")
	}
	if v.Lost > 0 {
		fmt.Fprintf(&b, "  lost: %s could not be written, as the record itself says\n", plural(int(v.Lost), "record"))
	}
	if v.Killed > 0 {
		fmt.Fprintf(&b, "  %s of everline ended without saying so: what was done in the last moments may have no record\n", plural(v.Killed, "run"))
	}
	if v.Unchained > 0 {
		fmt.Fprintf(&b, "  %s without a hash of the line before: only numbers show what is missing there\n", plural(v.Unchained, "record"))
	}
	if v.Pruned {
		fmt.Fprintln(&b, "  older records were deleted, as audit.keepFor and audit.maxTotal say")
	}
	if v.Head != "" {
		fmt.Fprintf(&b, "  head: %s\n", v.Head)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
