package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/doctor"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/trust"
	"github.com/everline/everline/internal/typed"
)

type doctorFlags struct {
	configs []string
	format  string
	timeout time.Duration
}

func newDoctor(a *app) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:               "doctor [server]",
		ValidArgsFunction: one(a.completeConfigured),
		Short:             "What is wrong, and the command that fixes it",
		Long: "Look at the configuration, the commands, the network and the everline that runs, and say what is wrong and\n" +
			"what fixes it. A server that no everline runs is started once, and ended. Exits with 1 if anything failed.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.doctor(cmd, args, f) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.configs, "config", "c", nil, "configuration file; by default those of the everline that runs")
	flags.StringVar(&f.format, "format", "", formatFlag())
	a.addCredentialsKey(flags)
	flags.DurationVar(&f.timeout, "timeout", 15*time.Second, "how long each check may wait")
	return cmd
}

func (a *app) doctor(cmd *cobra.Command, args []string, f doctorFlags) error {
	ctx := cmd.Context()
	o := doctor.Options{
		StateDir: a.stateDir, Version: buildVersion(), Env: os.LookupEnv, PortOwner: daemon.PortOwner, Timeout: f.timeout,
		CredentialsKey: a.credentialsKey,
	}
	o.Home, _ = os.UserHomeDir() // "" finds no version managers
	if st, err := a.client().Status(ctx); err == nil {
		o.Running = &st
		if o.Tools, err = a.client().Tools(ctx); err != nil {
			return err
		}
		if len(f.configs) == 0 {
			f.configs = st.Config
		}
	} else if !errors.Is(err, admin.ErrNotRunning) {
		return err
	}
	var err error
	if o.Files, err = trust.Files(f.configs); err != nil {
		return err
	}
	texts := trust.Texts{}
	if o.Config, err = (config.Options{Format: f.format, ReadFile: texts.Read}).Load(o.Files...); err == nil {
		err = trust.Owned(o.Files, o.Config)
	}
	if err != nil {
		return err
	}
	if o.Running == nil { // servers are going to be started
		if err := trust.Check(a.stateDir, f.configs, o.Files, texts.Read, o.Config); err != nil {
			return err
		}
	}
	o.MayServe = func(address string) *fault.Fault { return daemon.MayServe(o.Config, address, false) }
	if len(args) == 1 {
		if o.Server = args[0]; !knows(o.Config, o.Server) {
			return noConfigured(o.Config, o.Server)
		}
	}
	return a.examine(cmd, o)
}

func knows(c *config.Config, name string) bool {
	_, ok := c.Server(name)
	return ok
}

func noConfigured(c *config.Config, name string) error {
	var names []string
	for _, s := range c.Servers {
		names = append(names, s.Name)
	}
	f := fault.New(fault.NotFound, "doctor", "no server is called "+shownName(name))
	f.Remedy = "everline validate"
	if near := typed.Nearest(name, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

// A diagnosis is the JSON of everline doctor.
type diagnosis struct {
	OK       bool             `json:"ok"`
	Findings []doctor.Finding `json:"findings"`
}

func (a *app) examine(cmd *cobra.Command, o doctor.Options) error {
	all := []doctor.Finding{}
	colour := colours(a.stdout)
	var at atomic.Pointer[string] // the server that is looked at
	o.Begin = func(server string) { at.Store(&server) }
	p := a.progress(func() string {
		if server := at.Load(); server != nil {
			return "looking at " + *server
		}
		return "looking around"
	})
	failed := doctor.Run(cmd.Context(), o, func(f doctor.Finding) {
		all = append(all, f)
		p.print(func() {
			switch a.output {
			case "json":
			case "jsonl":
				_ = writeLine(a.stdout, f) // a failure is told at the end
			default:
				fmt.Fprint(a.stdout, findingText(f, colour, terminalWidth(a.stdout)))
			}
		})
	})
	p.stop()
	if a.output == "json" {
		if err := writeJSON(a.stdout, diagnosis{!failed, all}); err != nil {
			return err
		}
	}
	if failed {
		return exit(exitFailed)
	}
	return nil
}

var verdicts = map[doctor.Verdict]look{
	doctor.OK: {"\u2713", "32"}, doctor.Warn: {"!", "33"}, doctor.Fail: {"\u2717", "31"},
}

// findingText is a finding in lines of width columns; 0 means any. What there is
// to type stays in one piece.
func findingText(f doctor.Finding, colour bool, width int) string {
	l := verdicts[f.Verdict]
	about := f.Check
	if f.Server != "" {
		about = shownName(f.Server) + ": " + f.Check
	}
	text := printable(about) + ": " + printable(strings.TrimSpace(f.Text))
	if f.TookMS > 0 {
		text += fmt.Sprintf(" (%d ms)", f.TookMS)
	}
	if width > 0 {
		text = strings.Join(show.Wrap(text, max(width-4, 20)), "\n    ")
	}
	line := paint(l.symbol, l.colour, colour) + " " + text + "\n"
	if f.Verdict != doctor.OK && f.Remedy != "" {
		line += "    " + advice(f.Remedy) + "\n"
	}
	return line
}
