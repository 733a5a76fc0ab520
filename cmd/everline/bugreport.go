package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/trust"
	"github.com/everline/everline/internal/visible"
)

func newBugreport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "bugreport",
		Short: "Everything that a report of a bug should have, secrets hidden",
		Long: "Print, as one text, the version and system, the effective configuration, the status, the last events and the\n" +
			"last stderr lines of every server. Secrets are hidden as far as everline knows them; read it before you post it.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.bugreport(cmd.Context()) }),
	}
}

func (a *app) bugreport(ctx context.Context) error {
	st, err := a.client().Status(ctx)
	files := st.Config
	if err != nil {
		files, _ = trust.Files(nil) // the report says below that there is none
	}
	cfg, cfgErr := loadReported(files)
	report := &bytes.Buffer{}
	defer func() { _, _ = io.WriteString(a.stdout, cfg.Hider()(report.String())) }() // once more, and with the secrets of the files as they are now
	w := io.Writer(report)
	fmt.Fprintf(w, "# everline %s\n\n%s/%s, %s, %d CPUs\n", buildVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" {
				fmt.Fprintf(w, "%s: %s\n", s.Key, s.Value)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(w, "\n# status\n\n%v\n", err)
	}
	reportConfig(w, files, cfg, cfgErr)
	if err != nil {
		return nil // what there is to say without it has been said
	}
	fmt.Fprint(w, "\n# status\n\n")
	if err := writeJSON(w, st); err != nil {
		return err
	}
	fmt.Fprint(w, "\n# events\n\n")
	if err := a.client().Events(ctx, false, func(e admin.Event) error { return writeLine(w, e) }); err != nil {
		return err
	}
	for _, s := range st.Servers {
		fmt.Fprintf(w, "\n# logs of %s\n\n", s.Name)
		err := a.client().Logs(ctx, s.Name, false, func(l admin.LogLine) error {
			_, err := fmt.Fprintln(w, printable(l.Text))
			return err
		})
		if err != nil {
			fmt.Fprintf(w, "%v\n", err)
		}
	}
	return nil
}

// loadReported reads the files that a report is about. What cannot be read has
// no secret that is known.
func loadReported(files []string) (*config.Config, error) {
	if len(files) == 0 {
		return config.New(), nil
	}
	cfg, err := config.Load(files...)
	if err != nil {
		return config.New(), err
	}
	return cfg, nil
}

func reportConfig(w io.Writer, files []string, cfg *config.Config, err error) {
	fmt.Fprint(w, "\n# configuration\n\n")
	if len(files) == 0 {
		fmt.Fprintln(w, "none was found")
		return
	}
	if err != nil {
		fmt.Fprintf(w, "%v\n", err)
		return
	}
	for _, warning := range cfg.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	_, _ = w.Write(visible.JSON(settings.Effective(cfg, false))) // if the reader is gone, the next write says so
}
