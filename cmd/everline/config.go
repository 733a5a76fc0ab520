package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/visible"
)

func newConfig(a *app) *cobra.Command {
	var files []string
	var format string
	var all, schema bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "The effective configuration, secrets hidden",
		Long: "Print what the configuration files come to, as one everline.json, with every secret replaced by ***.\n" +
			"Only what is not the default is shown, unless --all is given.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			if schema {
				_, err := a.stdout.Write(settings.Schema())
				return err
			}
			return a.config(cmd.Context(), files, format, all)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&files, "config", "c", nil, "configuration file; may be given more than once (default: those of the everline that runs, else the one that serve would read)")
	flags.StringVar(&format, "format", "", formatFlag())
	flags.BoolVar(&all, "all", false, "defaults as well")
	flags.BoolVar(&schema, "schema", false, "print the JSON Schema of everline.json instead")
	return cmd
}

func (a *app) config(ctx context.Context, named []string, format string, all bool) error {
	files, err := a.usedFiles(ctx, named)
	if err != nil {
		return err
	}
	cfg, err := config.Options{Format: format}.Load(files...)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", printable(w.String()))
	}
	for _, s := range cfg.Servers {
		if s.Err != nil {
			fmt.Fprintf(a.stderr, "unusable: %s: %s\n", shownName(s.Name), printable(s.Err.Reason()))
		}
	}
	_, err = a.stdout.Write(visible.JSON(settings.Effective(cfg, all)))
	return err
}
