package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/toolargs"
)

func newToolsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "show server.tool",
		ValidArgsFunction: one(a.completeTools),
		Short:             "Show what a tool does, its hints and its schema",
		Long: "Show the description, the hints and the schema of one tool, as its server sent them. The tool is server.tool,\n" +
			"or the name that clients see.",
		Args: cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			t, err := a.toolNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch a.output {
			case "json":
				return writeJSON(a.stdout, t)
			case "jsonl":
				return writeLine(a.stdout, t)
			}
			_, err = fmt.Fprint(a.stdout, toolText(t, terminalWidth(a.stdout)))
			return err
		}),
	}
}

// hints are those that the server gave, in words.
func (d definition) hints() string {
	var words []string
	for _, h := range []struct {
		hint    *bool
		yes, no string
	}{
		{d.Annotations.ReadOnly, "read-only", "changes something"},
		{d.Annotations.Destructive, "may destroy something", "destroys nothing"},
		{d.Annotations.Idempotent, "harmless to repeat", "not harmless to repeat"},
		{d.Annotations.OpenWorld, "reaches out to the world", "stays within its own world"},
	} {
		switch {
		case h.hint == nil:
		case *h.hint:
			words = append(words, h.yes)
		default:
			words = append(words, h.no)
		}
	}
	if len(words) == 0 {
		return "none given"
	}
	return strings.Join(words, ", ")
}

// toolText is a tool for people, in lines of width columns; 0 means any.
func toolText(t admin.Tool, width int) string {
	var b strings.Builder
	d, p := definitionOf(t), statusPrinter{width: width}
	fmt.Fprintf(&b, "%s\n", printable(t.Server+"."+t.Tool))
	title := d.Title
	if title == "" {
		title = d.Annotations.Title
	}
	name := t.Name
	if t.Hidden {
		name += ", hidden: it can be called, and is not listed"
	}
	for _, line := range [][2]string{{"title: ", title}, {"clients see: ", name}, {"hints: ", d.hints()}} {
		if line[1] != "" {
			p.wrapped(&b, "  ", line[0], printable(line[1]))
		}
	}
	if text := strings.TrimSpace(d.Description); text != "" {
		b.WriteString("\n")
		for line := range strings.SplitSeq(text, "\n") {
			if strings.TrimSpace(line) == "" {
				b.WriteByte('\n')
				continue
			}
			p.wrapped(&b, "  ", "", printable(line))
		}
	}
	writeArguments(&b, p, d.Input)
	writeSchema(&b, "input schema", d.Input)
	writeSchema(&b, "output schema", d.Output)
	return b.String()
}

// writeArguments lists what a call is given, by name.
func writeArguments(b *strings.Builder, p statusPrinter, input json.RawMessage) {
	all := toolargs.Describe(input)
	if len(all) == 0 {
		return
	}
	b.WriteString("\narguments:\n")
	width := 0
	for _, one := range all {
		width = max(width, show.Width(printable(one.Name)))
	}
	for _, one := range all {
		p.wrapped(b, "  ", pad(printable(one.Name), width)+"  ", printable(one.Text))
	}
}

// writeSchema writes a schema as it is, indented.
func writeSchema(b *strings.Builder, title string, schema json.RawMessage) {
	var text bytes.Buffer
	if len(schema) == 0 || json.Indent(&text, schema, "  ", "  ") != nil {
		return
	}
	fmt.Fprintf(b, "\n%s:\n  ", title)
	for line := range strings.SplitSeq(text.String(), "\n") {
		b.WriteString(printable(line) + "\n")
	}
}
