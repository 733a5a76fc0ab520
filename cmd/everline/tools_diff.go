package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
)

func newToolsDiff(a *app) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:               "diff [server[.tool]]",
		ValidArgsFunction: one(a.completePinned),
		Short:             "Show definitions that are not as they were approved",
		Long: "Show what differs between the definitions that were approved and those that servers send now.\n" +
			"Characters that do not show, or that change the order of others, are written as <U+200B>.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			pins, err := a.client().Pins(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				want, err := a.pinTarget(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				pins.Changes = want.Concerned(pins.Changes)
			}
			if err := a.printPins(pins); err != nil {
				return err
			}
			if check && (len(pins.Changes) > 0 || pins.Problem != nil) {
				return exit(exitDegraded)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit with 5 if anything differs, or the lock file does not say what is in force")
	return cmd
}

func (a *app) printPins(p admin.Pins) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, p)
	case "jsonl":
		for _, c := range p.Changes {
			if err := writeLine(a.stdout, c); err != nil {
				return err
			}
		}
		return nil
	}
	return showPins(a.stdout, p)
}

// showPins writes what is not as it was approved.
func showPins(w io.Writer, p admin.Pins) error {
	var b strings.Builder
	switch {
	case p.Mode == "off":
		b.WriteString("pins are off\n  try: write \"pins\": \"warn\" under \"everline\" in the configuration\n")
	case p.Problem != nil:
		statusPrinter{now: time.Now(), width: terminalWidth(w)}.problem(&b, *p.Problem)
		if len(p.Changes) == 0 {
			b.WriteString("all definitions are as approved in what everline has read\n")
		}
	case len(p.Changes) == 0:
		fmt.Fprintf(&b, "all definitions are as approved in %s\n", printable(p.File))
	}
	for _, c := range p.Changes {
		writeChange(&b, c)
	}
	_, err := fmt.Fprint(w, b.String())
	return err
}

var changeTitles = map[string]string{
	"changed": "changed since approved", "new": "never approved", "removed": "approved, and not offered any more",
}

func writeChange(b *strings.Builder, c admin.PinChange) {
	name := c.Server + "." + c.Tool
	if c.Tool == "" {
		name = c.Server + ": the instructions"
	}
	fmt.Fprintf(b, "%s: %s", printable(name), changeTitles[c.What])
	if c.Withheld {
		b.WriteString(", withheld")
	}
	b.WriteString("\n")
	old, now := leaves(c.Was), leaves(c.Now)
	paths := maps.Clone(old)
	maps.Copy(paths, now)
	shown := false
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		before, had := old[path]
		after, has := now[path]
		if had == has && before == after {
			continue
		}
		shown = true
		if had {
			writeLeaf(b, '-', path, before)
		}
		if has {
			writeLeaf(b, '+', path, after)
		}
	}
	if !shown { // such as a duplicate key
		writeLeaf(b, '-', "", string(c.Was))
		writeLeaf(b, '+', "", string(c.Now))
	}
}

func writeLeaf(b *strings.Builder, sign byte, path, value string) {
	if path != "" {
		path += ": "
	}
	fmt.Fprintf(b, "  %c %s\n", sign, printable(path+value))
}

// leaves are the values of a JSON text that hold no others, by their paths.
func leaves(raw json.RawMessage) map[string]string {
	all := map[string]string{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil && v != nil {
		addLeaves(all, "", v)
	}
	return all
}

func addLeaves(all map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			all[path] = "{}"
		}
		for key, sub := range v {
			if strings.ContainsAny(key, `.[]":`) || key == "" { // or another path could look the same
				key = strconv.Quote(key)
			}
			addLeaves(all, strings.TrimPrefix(path+"."+key, "."), sub)
		}
	case []any:
		if len(v) == 0 {
			all[path] = "[]"
		}
		for i, sub := range v {
			addLeaves(all, path+"["+strconv.Itoa(i)+"]", sub)
		}
	default:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(v) == nil { // scalars always do
			all[path] = strings.TrimSuffix(b.String(), "\n")
		}
	}
}
