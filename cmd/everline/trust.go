package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/trust"
)

func newTrust(a *app) *cobra.Command {
	var revoke, yes bool
	cmd := &cobra.Command{
		Use:   "trust [file]",
		Short: "Let the commands of a project's configuration be started",
		Long: "A configuration that serve finds in the working folder may start any program, and send your secrets\n" +
			"anywhere, and anybody may have written it. This command shows what it would start, asks, and then says that it\n" +
			"may. A file that changes afterwards must be trusted again, but for changes by everline add and remove; files that\n" +
			"are named with --config, and those in your own configuration folder, need no trust. Without a terminal nobody can\n" +
			"be asked, and nothing is trusted without --yes.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.trust(cmd.Context(), args, revoke, yes) }),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, yesHelp)
	return cmd
}

func (a *app) trust(ctx context.Context, named []string, revoke, yes bool) error {
	files, err := trust.Files(named)
	if err != nil {
		return err
	}
	if v, err := a.glance().Version(ctx); err == nil && admin.Below(os.Getpid(), v.PID) {
		return &fault.Fault{
			Kind: fault.Forbidden, Op: "trust", Outcome: fault.NotSent, Remedy: "run the command in a terminal of your own",
			Err: errors.New("a server of the everline that runs, or what it has started, may not trust anything"),
		}
	}
	for _, path := range files {
		if err := a.trustFile(ctx, path, revoke, yes); err != nil {
			return err
		}
	}
	return nil
}

// trustFile trusts the text that it has shown, once the user has said so.
func (a *app) trustFile(ctx context.Context, path string, revoke, yes bool) error {
	what := admin.Doing{Target: &audit.Target{Path: daemon.Absolute([]string{path})[0]}}
	if revoke {
		if err := a.doing(ctx, admin.DidTrustRevoke, &what, func() error { return trust.Revoke(a.stateDir, path) }); err != nil {
			return err
		}
		return a.printTrust(trust.NothingSeen(path), "%s is not trusted any more\n")
	}
	l, err := trust.Look(path)
	if err != nil {
		return err
	}
	if !yes {
		if err := a.confirm("trust "+path, "Let everline start and connect to this?", func(w io.Writer) { showLooked(w, l) }); err != nil {
			return err
		}
	}
	what.Change = &audit.Change{Now: l.Digest()}
	if err := a.doing(ctx, admin.DidTrust, &what, func() error { return trust.Grant(a.stateDir, l) }); err != nil {
		return err
	}
	l.Trusted = true
	if yes && !a.forMachines() {
		showLooked(a.stdout, l)
	}
	return a.printTrust(l, "%s is trusted\n")
}

// showLooked writes what a file starts or connects to, each word so that it is seen
// where it ends.
func showLooked(w io.Writer, l trust.Looked) {
	fmt.Fprintf(w, "%s starts or connects to:\n", show.Quoted(l.File))
	for _, r := range l.Servers {
		what, where := "env", r.Command
		if r.URL != nil {
			what, where = "headers", []string{*r.URL}
		}
		words := make([]string, len(where))
		for i, word := range where {
			words[i] = show.Quoted(word)
		}
		fmt.Fprintf(w, "  %s: %s\n", show.Quoted(r.Name), strings.Join(words, " "))
		if r.URL != nil && len(r.Command) > 0 {
			fmt.Fprintf(w, "      token of: %s\n", show.Quoted(strings.Join(r.Command, " ")))
		}
		if r.Cwd != nil {
			fmt.Fprintf(w, "      cwd: %s\n", show.Quoted(*r.Cwd))
		}
		for _, name := range r.Sends {
			fmt.Fprintf(w, "      %s: %s=%s\n", what, show.Quoted(name), show.Quoted(r.Values[name]))
		}
	}
	if len(l.Reads) > 0 {
		words := make([]string, len(l.Reads))
		for i, word := range l.Reads {
			words[i] = show.Quoted(word)
		}
		fmt.Fprintf(w, "with what is in: %s\n", strings.Join(words, ", "))
	}
}

func (a *app) printTrust(l trust.Looked, done string) error {
	if a.forMachines() {
		return writeLine(a.stdout, l)
	}
	_, err := fmt.Fprintf(a.stdout, done, show.Quoted(l.File))
	return err
}
