package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/everline/everline/internal/typed"
)

// A misuse is an error about how a command was called. It reads with how the
// command is called, and what to type.
type misuse struct {
	cmd *cobra.Command
	err error
}

func (m misuse) Unwrap() error { return m.err }

func (m misuse) Error() string {
	text := strings.TrimSpace(m.err.Error())
	if m.cmd.Runnable() {
		text += "\n  usage: " + m.cmd.UseLine()
	}
	return text + "\n  try: " + m.cmd.CommandPath() + " --help"
}

// misused makes a misuse of every error that no command failed with.
func misused(cmd *cobra.Command, err error) error {
	if err == nil || errors.As(err, new(ran)) || errors.As(err, new(exit)) {
		return err
	}
	return misuse{cmd, err}
}

// flagError suggests what was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := typed.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		err = fmt.Errorf("%w\n  did you mean --%s?", err, near)
	}
	if cmd.Name() == "add" {
		err = fmt.Errorf("%w\n  the flags of a server's command stand behind --: everline add NAME -- COMMAND [args...]", err)
	}
	return err
}

// subcommandOnly refuses arguments that are no subcommand.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := typed.Nearest(args[0], names); near != "" {
		err = fmt.Errorf("%w\n  did you mean %s %s?", err, cmd.CommandPath(), near)
	}
	return err
}

// newHelp is cobra's help command, but for a wrong name it fails.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, _, err := cmd.Root().Find(args); err == nil {
				for _, c := range about.Commands() {
					if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), word) {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = subcommandOnly(about, rest)
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// completionCommand adds cobra's command that prints completion scripts, but
// for a shell that it does not know it fails.
func completionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic("bug: cobra has no completion command")
	}
	cmd.Args = subcommandOnly
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
