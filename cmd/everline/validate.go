package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/trust"
)

// A validation is the JSON of everline validate.
type validation struct {
	OK       bool            `json:"ok"`
	Files    []validatedFile `json:"files"`
	Servers  []validated     `json:"servers"`
	Warnings []string        `json:"warnings"`
}

type validatedFile struct {
	Path   string `json:"path"`
	Format string `json:"format"`
}

type validated struct {
	Name   string  `json:"name"`
	Origin string  `json:"origin"`
	Error  *string `json:"error"`
	Remedy *string `json:"remedy"`
}

func newValidate(a *app) *cobra.Command {
	var format string
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate [file...]",
		Short: "Check configuration files without starting anything",
		Long: "Check configuration files, ours or those of a client, without starting anything: those that are named, else\n" +
			"those of the everline that runs, else the one that serve would read. Exits with 6 if a file cannot be read, if a server could not start as it is configured, or, with --strict, on any warning.",
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			return a.validate(cmd.Context(), args, format, strict)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "", formatFlag())
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings are errors")
	return cmd
}

func (a *app) validate(ctx context.Context, named []string, format string, strict bool) error {
	files, err := a.usedFiles(ctx, named)
	if err != nil {
		return err
	}
	texts := trust.Texts{} // a pipe gives its text once
	if err := trust.Owned(files, nil); err != nil {
		return err
	}
	cfg, err := config.Options{Format: format, ReadFile: texts.Read, Ask: a.newAsker().Ask}.Load(files...)
	if err == nil {
		err = trust.Owned(files, cfg)
	}
	if err != nil {
		return err
	}
	v := validation{OK: true, Servers: []validated{}, Warnings: []string{}}
	for _, path := range files {
		f := validatedFile{path, format}
		if format == "" {
			f.Format, _ = clients.Detect(path, texts[path]) // it was read above
		}
		v.Files = append(v.Files, f)
	}
	for _, s := range cfg.Servers {
		one := validated{Name: s.Name, Origin: s.Origin.String()}
		switch {
		case s.Err != nil && s.Disabled: // nobody starts it; to enable it is to look at it again
			v.Warnings = append(v.Warnings, fmt.Sprintf("%s: %s is disabled, and could not be enabled: %s", s.Origin, shownName(s.Name), s.Err.Reason()))
		case s.Err != nil:
			text := s.Err.Reason()
			one.Error, one.Remedy, v.OK = &text, &s.Err.Remedy, false
		}
		v.Servers = append(v.Servers, one)
	}
	for _, w := range cfg.Warnings {
		v.Warnings = append(v.Warnings, w.String())
	}
	pins := everline.CheckPins(cfg)
	v.OK = v.OK && pins == nil && (!strict || len(v.Warnings) == 0)
	if err := a.printValidation(v); err != nil {
		return err
	}
	if pins != nil {
		f := *fault.From("", pins)
		f.Op = tree.OpRead
		return &f
	}
	if !v.OK {
		return exit(exitConfig)
	}
	return nil
}

func (a *app) printValidation(v validation) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, v)
	case "jsonl":
		return writeLine(a.stdout, v)
	}
	bad := 0
	for _, s := range v.Servers {
		if s.Error == nil {
			continue
		}
		bad++
		fmt.Fprintf(a.stdout, "%s %s: %s\n", looks[event.StateFailed].symbol, shownName(s.Name), printable(*s.Error))
		if *s.Remedy != "" {
			fmt.Fprintf(a.stdout, "    %s\n", advice(*s.Remedy))
		}
	}
	for _, w := range v.Warnings {
		fmt.Fprintf(a.stdout, "! %s\n", printable(w))
	}
	for _, f := range v.Files {
		fmt.Fprintf(a.stdout, "%s: read as a file of %s\n", f.Path, clients.Title(f.Format))
	}
	_, err := fmt.Fprintf(a.stdout, "%s, %d unusable, %s\n", plural(len(v.Servers), "server"), bad, plural(len(v.Warnings), "warning"))
	return err
}
