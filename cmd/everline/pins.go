package main

import (
	"bytes"
	"context"
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
		Use:   "diff [server[.tool]]",
		Short: "Show definitions that are not as they were approved",
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

func newToolsApprove(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [server[.tool]]",
		Short: "Approve definitions as they are now",
		Long: "Show the definitions of one tool, of one server with its instructions, or of all servers that are not as they\n" +
			"were approved, ask, and then approve them as they are now, and write the lock file. Without a terminal nobody\n" +
			"can be asked, and nothing is approved without --yes.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.approve(cmd.Context(), args, yes) }),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, yesHelp)
	return cmd
}

func (a *app) approve(ctx context.Context, args []string, yes bool) error {
	var want admin.Approval
	if len(args) == 1 {
		var err error
		if want, err = a.pinTarget(ctx, args[0]); err != nil {
			return err
		}
	}
	if !yes {
		pins, err := a.client().Pins(ctx)
		if err != nil {
			return err
		}
		pins.Changes = want.Concerned(pins.Changes)
		want.Seen = admin.Fingerprint(pins.Changes)
		if len(pins.Changes) > 0 {
			command := strings.Join(append([]string{"tools approve"}, args...), " ")
			if err := a.confirm(command, "Approve this?", func(w io.Writer) { _ = showPins(w, pins) }); err != nil {
				return err
			}
		}
	}
	done, err := a.client().Approve(ctx, want)
	if err != nil {
		return err
	}
	if a.forMachines() {
		return writeLine(a.out, done)
	}
	_, err = fmt.Fprintf(a.out, "%s approved\n", plural(done.Count, "definition"))
	return err
}

// pinTarget reads server or server.tool, with the longest server name that
// fits, since names may have dots.
func (a *app) pinTarget(ctx context.Context, text string) (admin.Approval, error) {
	st, err := a.client().Status(ctx)
	if err != nil {
		return admin.Approval{}, err
	}
	var found admin.Approval
	for _, s := range st.Servers {
		if s.Name == text {
			return admin.Approval{Server: s.Name}, nil
		}
		if tool, ok := strings.CutPrefix(text, s.Name+"."); ok && len(s.Name) > len(found.Server) {
			found = admin.Approval{Server: s.Name, Tool: tool}
		}
	}
	if found.Server == "" {
		return found, noServer(text, st.Servers)
	}
	return found, nil
}

func (a *app) printPins(p admin.Pins) error {
	switch a.output {
	case "json":
		return writeJSON(a.out, p)
	case "jsonl":
		for _, c := range p.Changes {
			if err := writeLine(a.out, c); err != nil {
				return err
			}
		}
		return nil
	}
	return showPins(a.out, p)
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
	was, now := leaves(c.Was), leaves(c.Now)
	paths := maps.Clone(was)
	maps.Copy(paths, now)
	shown := false
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		before, had := was[path]
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
	if !shown { // such as a key that is there twice
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
