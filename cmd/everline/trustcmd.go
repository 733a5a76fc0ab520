package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/show"
)

func newTrust(a *app) *cobra.Command {
	var revoke, yes bool
	cmd := &cobra.Command{
		Use:   "trust [file]",
		Short: "Let the commands of a project's configuration be started",
		Long: "A configuration that serve comes across in the working folder may start any program, and send your secrets\n" +
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

// A trusting is what everline trust has done with a file: its JSON.
type trusting struct {
	File    string    `json:"file"`
	Trusted bool      `json:"trusted"`
	Servers []reached `json:"servers"` // what the file names; empty with --revoke
	Reads   []string  `json:"reads"`   // files of the project that are read with it, and trusted with it
}

// reached is what a server starts, or where it is.
type reached struct {
	Name    string            `json:"name"`
	Command []string          `json:"command"` // with its arguments; empty for a URL
	URL     *string           `json:"url"`     // null for a command
	Sends   []string          `json:"sends"`   // the names of the variables or headers that it gets
	Cwd     *string           `json:"cwd"`     // where the command starts; null for the folder of everline
	Values  map[string]string `json:"values"`  // of what it sends, secrets hidden
}

func (a *app) trust(ctx context.Context, named []string, revoke, yes bool) error {
	files, err := configFiles(named)
	if err != nil {
		return err
	}
	if v, err := a.client().Version(ctx); err == nil && admin.Below(os.Getpid(), v.PID) {
		return &fault.Fault{
			Kind: fault.Forbidden, Op: "trust", Outcome: fault.NotSent, Remedy: "run the command in a terminal of your own",
			Err: errors.New("a server of the everline that runs, or what it has started, may not trust anything"),
		}
	}
	for _, path := range files {
		if err := a.trustFile(path, revoke, yes); err != nil {
			return err
		}
	}
	return nil
}

// trustFile trusts the text that it has shown, once the user has said so.
func (a *app) trustFile(path string, revoke, yes bool) error {
	key, err := trustKey(path)
	if err != nil {
		return err
	}
	if revoke {
		err := editTrust(a.stateDir, "", func(known map[string]string) error {
			delete(known, key)
			return nil
		})
		if err != nil {
			return err
		}
		return a.printTrust(trusting{File: path, Servers: []reached{}, Reads: []string{}}, "%s is not trusted any more\n")
	}
	t, trusted, err := lookAt(path)
	if err != nil {
		return err
	}
	if !yes {
		if err := a.confirm("trust "+path, "Let everline start and connect to this?", func(w io.Writer) { t.show(w) }); err != nil {
			return err
		}
	}
	err = editTrust(a.stateDir, "", func(known map[string]string) error {
		known[key] = strings.Join(trusted, " ")
		return nil
	})
	if err != nil {
		return err
	}
	t.Trusted = true
	if yes && !a.forMachines() {
		t.show(a.out)
	}
	return a.printTrust(t, "%s is trusted\n")
}

// lookAt reads a file once: what there is to see in it, and the digests of it
// and of what is read with it.
func lookAt(path string) (t trusting, trusted []string, err error) {
	t = trusting{File: path, Servers: []reached{}, Reads: []string{}}
	if err := checkOwned([]string{path}, nil); err != nil {
		return t, nil, err
	}
	data, err := config.ReadFile(path)
	if err != nil {
		return t, nil, fileedit.Fault("read", path, err)
	}
	cfg, err := parsed(path, data)
	if err != nil {
		return t, nil, err
	}
	if t.Servers, err = reaches(path, data, cfg); err != nil {
		return t, nil, err
	}
	for _, side := range sidesOf(cfg, path) {
		if !slices.Contains(t.Reads, side.named) {
			t.Reads = append(t.Reads, side.named)
		}
	}
	return t, digests(data, cfg, path), nil
}

// reaches shows commands and URLs as they are written: a hidden part of them
// could be what matters. What is in variables stays there.
func reaches(path string, data []byte, cfg *config.Config) ([]reached, error) {
	written, err := config.Written(path, data)
	if err != nil {
		return nil, err
	}
	all := []reached{}
	for _, s := range written.Servers {
		r, gets := reached{Name: s.Name, Command: []string{}, Values: map[string]string{}}, maps.Clone(s.Headers)
		if s.URL != "" {
			r.URL = &s.URL
		} else {
			r.Command, gets = append([]string{s.Command}, s.Args...), map[string]string{}
			if is, ok := cfg.Server(s.Name); ok {
				maps.Copy(gets, is.Env) // with those of its envFile
			}
			maps.Copy(gets, s.Env)
		}
		if s.Cwd != "" {
			r.Cwd = &s.Cwd
		}
		for name, value := range gets {
			r.Values[name] = redact.Value(name, value)
		}
		r.Sends = slices.AppendSeq([]string{}, maps.Keys(gets))
		slices.Sort(r.Sends)
		all = append(all, r)
	}
	return all, nil
}

// show writes what a file starts or connects to, each word so that it is seen
// where it ends.
func (t trusting) show(w io.Writer) {
	fmt.Fprintf(w, "%s starts or connects to:\n", show.Quoted(t.File))
	for _, r := range t.Servers {
		what, where := "env", r.Command
		if r.URL != nil {
			what, where = "headers", []string{*r.URL}
		}
		words := make([]string, len(where))
		for i, word := range where {
			words[i] = show.Quoted(word)
		}
		fmt.Fprintf(w, "  %s: %s\n", show.Quoted(r.Name), strings.Join(words, " "))
		if r.Cwd != nil {
			fmt.Fprintf(w, "      cwd: %s\n", show.Quoted(*r.Cwd))
		}
		for _, name := range r.Sends {
			fmt.Fprintf(w, "      %s: %s=%s\n", what, show.Quoted(name), show.Quoted(r.Values[name]))
		}
	}
	if len(t.Reads) > 0 {
		words := make([]string, len(t.Reads))
		for i, word := range t.Reads {
			words[i] = show.Quoted(word)
		}
		fmt.Fprintf(w, "with what is in: %s\n", strings.Join(words, ", "))
	}
}

func (a *app) printTrust(t trusting, done string) error {
	if a.forMachines() {
		return writeLine(a.out, t)
	}
	_, err := fmt.Fprintf(a.out, done, show.Quoted(t.File))
	return err
}
