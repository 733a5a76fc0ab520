package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

func newTools(a *app) *cobra.Command {
	list := func(cmd *cobra.Command, args []string) error {
		tools, err := a.client().Tools(cmd.Context())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			kept := []admin.Tool{}
			for _, t := range tools {
				if t.Server == args[0] {
					kept = append(kept, t)
				}
			}
			if len(kept) == 0 {
				if _, err := a.statusWith(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			tools = kept
		}
		return a.printTools(tools)
	}
	cmd := &cobra.Command{Use: "tools [ls|show|diff|approve]", Short: "What is published to clients", Args: subcommandOnly, RunE: runE(list)}
	cmd.AddCommand(&cobra.Command{Use: "ls [server]", Short: "List the tools", Args: cobra.MaximumNArgs(1), ValidArgsFunction: one(a.completeServers), RunE: runE(list)})
	cmd.AddCommand(newToolsShow(a), newToolsDiff(a), newToolsApprove(a))
	return cmd
}

func (a *app) printTools(tools []admin.Tool) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, tools)
	case "jsonl":
		for _, t := range tools {
			if err := writeLine(a.stdout, t); err != nil {
				return err
			}
		}
		return nil
	}
	width := 0
	for _, t := range tools {
		width = max(width, len([]rune(t.Server+"."+t.Tool)))
	}
	for _, t := range tools {
		if _, err := fmt.Fprintln(a.stdout, toolLine(t, width, a.output == "wide")); err != nil {
			return err
		}
	}
	return nil
}

func toolLine(t admin.Tool, width int, wide bool) string {
	text, _, _ := strings.Cut(strings.TrimSpace(definitionOf(t).Description), "\n")
	line := pad(printable(t.Server+"."+t.Tool), width)
	if wide {
		line += fmt.Sprintf("  %s  ~%d tokens", printable(t.Name), t.Tokens)
	}
	for _, m := range []struct {
		applies bool
		word    string
	}{{t.Hidden, "hidden"}, {t.ReadOnly && wide, "read-only"}, {t.Idempotent && wide, "idempotent"}} {
		if m.applies {
			line += " (" + m.word + ")"
		}
	}
	return strings.TrimRight(line+"  "+shorten(printable(text), 100), " ")
}

func shorten(text string, width int) string {
	r := []rune(text)
	if len(r) <= width {
		return text
	}
	return string(r[:width-3]) + "..."
}
