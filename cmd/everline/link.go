package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/trust"
	"github.com/everline/everline/internal/typed"
)

func newLink(a *app) *cobra.Command {
	var f linkFlags
	var o linkOptions
	cmd := &cobra.Command{
		Use:   "link client",
		Short: "Write our endpoint into a client's own configuration",
		Long: linkLong("Write the endpoint of everline into a client's own configuration file, as the server \"everline\". What else is\nin the file stays, a server of yours with that name included, and a copy of the file is kept in the state folder.\n" +
			"Where the endpoint asks who comes, the client gets a token of its own, or logs in by itself if there is an issuer."),
		Args:      oneClient,
		ValidArgs: clients.Formats()[1:],
		RunE:      runE(func(cmd *cobra.Command, args []string) error { return a.link(cmd, args[0], f, o) }),
	}
	o.addTo(cmd)
	f.addTo(cmd)
	return cmd
}

// bridge is the command by which a client that can only start commands reaches
// everline. It needs nothing of where it is started, or of our environment: a
// client that was started from a desktop has another. Where no everline runs it
// is a whole gateway, and so has to find the configuration, too.
func (a *app) bridge(cmd *cobra.Command) (program string, args []string, err error) {
	if program, err = os.Executable(); err != nil {
		return "", nil, fileedit.Fault("find", "this program", err)
	}
	if isBuiltToRun(program) {
		return "", nil, &fault.Fault{
			Kind: fault.Invalid, Op: "link", Outcome: fault.NotSent, Err: errors.New("this program was built by go run, and is gone when it ends"),
			Remedy: "go install github.com/everline/everline/cmd/everline@latest, and link with that",
		}
	}
	if cmd.Flags().Changed("state-dir") || os.Getenv("XDG_STATE_HOME") != "" {
		dir, err := filepath.Abs(a.stateDir)
		if err != nil {
			return "", nil, fileedit.Fault("find", a.stateDir, err)
		}
		args = append(args, "--state-dir", dir)
	}
	files, err := a.linkedFiles(cmd.Context())
	args = append(args, "stdio")
	for _, file := range files {
		args = append(args, "--config", file)
	}
	return program, args, err
}

// linkedFiles are the files that a bridge is to read, by their absolute
// paths. What is named is started without being asked about, so that it has to
// be trusted before; else it gets none.
func (a *app) linkedFiles(ctx context.Context) ([]string, error) {
	if running := a.runningFiles(ctx); len(running) > 0 {
		return running, nil
	}
	files, err := trust.Files(nil)
	if err != nil {
		return nil, nil //nolint:nilerr // there is none yet: the bridge looks for the user's own
	}
	texts := trust.Texts{}
	cfg, err := config.Options{ReadFile: texts.Read}.Load(files...)
	if err != nil {
		return nil, err
	}
	if f := fault.From("", trust.Check(a.stateDir, nil, files, texts.Read, cfg)); f != nil {
		fmt.Fprintf(a.stderr, "the link works only while everline serve runs: %s\n  %s, and link again\n", printable(f.Reason()), advice(f.Remedy))
		return nil, nil
	}
	if trust.FromRepository(files[0]) {
		fmt.Fprintf(a.stderr, "%s belongs to a repository: what comes into it later is started without asking\n", printable(files[0]))
	}
	return daemon.Absolute(files), nil
}

func linkLong(text string) string {
	return text + "\n\nClients: " + strings.Join(clients.Formats()[1:], ", ") + "."
}

// linkFlags are the flags of link and unlink.
type linkFlags struct {
	file, name      string
	project, dryRun bool
}

func (f *linkFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "the client's file, where it is not at its usual place")
	cmd.Flags().StringVar(&f.name, "name", clients.LinkName, "what the server is called in the client's file")
	cmd.Flags().BoolVar(&f.project, "project", false, "the client's file of this project, not of the user")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the change, and make none")
}

// oneClient says which client was probably meant.
func oneClient(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return err
	}
	known := clients.Formats()[1:]
	if slices.Contains(known, args[0]) {
		return nil
	}
	help := fmt.Sprintf("\n  try: %s --help", cmd.CommandPath())
	if near := typed.Nearest(args[0], known); near != "" {
		help = "\n  did you mean " + near + "?"
	}
	return fmt.Errorf("no client is called %q here%s", args[0], help)
}

func (a *app) clientLink(format string, f linkFlags) (*fileedit.Link, error) {
	if f.name == "" {
		return nil, usage("--name "+clients.LinkName, "the server must have a name")
	}
	path := f.file
	if path == "" {
		var err error
		if path, err = fileedit.ClientFile(format, f.project); err != nil {
			return nil, err
		}
	}
	if path == "" {
		return nil, usage("leave out --project", "%s has no file of a project", clients.Title(format))
	}
	return fileedit.NewLink(a.stateDir, format, path, f.name)
}

func (a *app) link(cmd *cobra.Command, format string, f linkFlags, o linkOptions) error {
	l, err := a.clientLink(format, f)
	if err != nil {
		return err
	}
	to, err := a.linkTarget(cmd, format, o)
	if err != nil {
		return err
	}
	before, undo := l.Token, func() {}
	if l.Token = ""; to.auth == authToken {
		if undo, err = a.giveToken(l, before, &to, f, o); err != nil {
			return err
		}
	}
	for i := range to.entry {
		if to.entry[i].Key == "name" {
			to.entry[i].Value = f.name
		}
	}
	if _, err = a.finishEdit(l.Put(to.entry, f.dryRun), func(fileedit.Result) string { return to.done }, func() string { return "" }); err != nil {
		undo()
		return err
	}
	if before != l.Token && !f.dryRun {
		return a.takeTokenBack(before)
	}
	return nil
}
