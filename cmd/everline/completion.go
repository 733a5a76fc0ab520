package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/show"
)

// completionLimit is how long a shell is made to wait for names.
const completionLimit = time.Second

// The completions of arguments, which each command names for itself. The servers
// and tools are those of the everline that runs; for commands that read files,
// the servers are those of the configuration. Where there are none, nothing is
// offered.

func (a *app) completeServers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return without(a.serverNames(cmd.Context()), args), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeConfigured(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	return without(a.configuredNames(ctx), args), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeTools(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.toolNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
}

// completePinned offers what can be approved: servers and tools.
func (a *app) completePinned(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return append(a.serverNames(cmd.Context()), a.toolNames(cmd.Context())...), cobra.ShellCompDirectiveNoFileComp
}

// one is a completion of the first argument alone.
func one(names cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, word)
	}
}

// completeFlags offers the words that flags take, and files for no flag that
// takes none. The other flags with a text take files.
func completeFlags(root *cobra.Command) {
	words := map[string][]string{
		"output": outputs, "format": clients.Formats(), "log-format": {"text", "json"}, "log-level": {"debug", "info", "warn", "error"},
		"type": {"http", "sse"},
	}
	var states []string
	for state := range looks {
		states = append(states, string(state))
	}
	slices.Sort(states)
	filesFor := []string{"config", "credentials-key", "state-dir", "cwd", "to", "file"}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		complete := func(f *pflag.Flag) {
			offered, known := words[f.Name]
			if f.Name == "wait" {
				offered = states
			}
			_, has := cmd.GetFlagCompletionFunc(f.Name)
			if has || f.Value.Type() == "bool" || !known && slices.Contains(filesFor, f.Name) {
				return
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(offered, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
		}
		cmd.LocalFlags().VisitAll(complete)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

func (a *app) serverNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	st, err := a.glance().Status(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range st.Servers {
		if s.Name == show.Line(s.Name) { // a shell gets no other
			names = append(names, s.Name+"\t"+string(s.State))
		}
	}
	return names
}

func (a *app) toolNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	tools, err := a.glance().Tools(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range tools {
		if name := t.Server + "." + t.Tool; name == show.Line(name) { // a shell gets no other
			names = append(names, name)
		}
	}
	return names
}

func (a *app) configuredNames(ctx context.Context) []string {
	files, err := a.usedFiles(ctx, nil)
	if err != nil {
		return nil
	}
	cfg, err := config.Load(files...)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range cfg.Servers {
		if s.Name == show.Line(s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// without leaves out the names that stand on the command line already.
func without(names, there []string) []string {
	taken := map[string]bool{}
	for _, t := range there {
		taken[t] = true
	}
	var left []string
	for _, n := range names {
		plain := n
		for i := range n {
			if n[i] == '\t' {
				plain = n[:i]
				break
			}
		}
		if !taken[plain] {
			left = append(left, n)
		}
	}
	return left
}
