package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
)

// completionLimit is how long a shell is made to wait for names.
const completionLimit = time.Second

// completeNames adds the names of servers and tools to the commands that take
// them: those of the everline that runs, or, for the commands that read files,
// those of the configuration. Where there are none, there is nothing to offer.
func (a *app) completeNames(root *cobra.Command) {
	running := func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return without(a.serverNames(cmd.Context()), args), cobra.ShellCompDirectiveNoFileComp
	}
	configured := func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return without(configuredNames(), args), cobra.ShellCompDirectiveNoFileComp
	}
	one := func(names cobra.CompletionFunc) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, args, word)
		}
	}
	tools := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.toolNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	for name, f := range map[string]cobra.CompletionFunc{
		"status": one(running), "drill": one(running), "logs": one(running), "restart": running, "reconnect": running, "enable": running, "disable": running,
		"call": one(tools), "doctor": one(configured), "remove": configured,
	} {
		if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
			cmd.ValidArgsFunction = f
		}
	}
}

func (a *app) serverNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	st, err := a.client().Status(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range st.Servers {
		names = append(names, s.Name+"\t"+s.State)
	}
	return names
}

func (a *app) toolNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	tools, err := a.client().Tools(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range tools {
		names = append(names, t.Server+"."+t.Tool)
	}
	return names
}

func configuredNames() []string {
	files, err := configFiles(nil)
	if err != nil {
		return nil
	}
	cfg, err := config.Load(files...)
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range cfg.Servers {
		names = append(names, s.Name)
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
