package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/trust"
)

func newImport(a *app) *cobra.Command {
	var format, to string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import [file...]",
		Short: "Find the servers of your other clients, and copy them",
		Long: "Look through the configuration files of ten MCP clients, of this project and of the user, and show the servers\n" +
			"in them. With --to they are copied into an everline.json: references to variables stay references, and a name\n" +
			"that is there already stays as it is. Nothing is started, and no client's file is changed.",
		RunE: runE(func(_ *cobra.Command, args []string) error { return a.importServers(args, format, to, dryRun) }),
	}
	cmd.Flags().StringVar(&format, "format", "", formatFlag())
	cmd.Flags().StringVar(&to, "to", "", "the file of ours to copy the servers into")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "with --to: show the change, and make none")
	return cmd
}

func (a *app) importServers(named []string, format, to string, dryRun bool) error {
	all, warnings, err := fileedit.Find(a.stateDir, named, format)
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", printable(w))
	}
	if err != nil {
		return err
	}
	if to == "" {
		return a.printFound(all)
	}
	count := 0
	e := fileedit.Copy(a.stateDir, to, all, dryRun, &count)
	remedy := func() string { return trust.Remedy(to) } // some of it may have come with a repository
	_, err = a.finishEdit(e, func(fileedit.Result) string { return plural(count, "server") + " copied" }, remedy)
	return err
}

func (a *app) printFound(all []fileedit.Found) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, all)
	case "jsonl":
		for _, f := range all {
			if err := writeLine(a.stdout, f); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stdout, "no server was found in the files of other clients")
		return nil
	}
	name, client := 0, 0
	for _, f := range all {
		name, client = max(name, len(f.Server)), max(client, len(f.Client))
	}
	for _, f := range all {
		note := ""
		if f.State == fileedit.FoundDuplicate {
			note = "  (the name is taken above)"
		}
		fmt.Fprintf(a.stdout, "%s  %s  %s%s\n", pad(printable(f.Server), name), pad(f.Client, client), f.File, note)
	}
	fmt.Fprintln(a.stdout, show.AsStarted("copy them: everline import --to everline.json"))
	return nil
}
