package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/everline/everline/bench/internal/record"
)

const (
	beginMark = "<!-- begin of what go run ./bench report writes -->\n"
	endMark   = "<!-- end of what go run ./bench report writes -->\n"
)

// runReport prints measurements as tables, writes them into a page between two
// marks, or draws their graphs.
func runReport(args []string) error {
	f := flag.NewFlagSet("bench report", flag.ContinueOnError)
	var in []string
	f.Func("in", "file of measurements; may be repeated", func(s string) error { in = append(in, s); return nil })
	page := f.String("write", "", "page that gets the tables between its marks")
	folder := f.String("svg", "", "folder that gets the graphs")
	if err := f.Parse(args); err != nil {
		return err
	}
	var rows []record.Row
	for _, file := range in {
		more, err := record.Read(file)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if *folder != "" {
		if err := errors.Join(drawGrowth(*folder, rows), drawSoakOf(*folder, rows)); err != nil {
			return err
		}
	}
	if *page == "" {
		record.Write(os.Stdout, rows, record.Plain)
		record.Goals(os.Stdout, rows)
		record.Behind(os.Stdout, rows)
		return nil
	}
	var b bytes.Buffer
	writeFacts(&b, rows)
	record.Goals(&b, rows)
	record.Behind(&b, rows)
	record.Write(&b, rows, record.Markdown)
	return between(*page, b.String())
}

func drawSoakOf(folder string, rows []record.Row) error {
	samples := slices.DeleteFunc(slices.Clone(rows), func(r record.Row) bool { return r.Mode != "soak" })
	if len(samples) == 0 {
		return nil
	}
	return drawSoak(folder, samples)
}

// writeFacts lists what the runs were made with.
func writeFacts(w io.Writer, rows []record.Row) {
	fmt.Fprint(w, "\n| made with | |\n|---|---|\n")
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Mode != record.Setup {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Facts)) {
			line := fmt.Sprintf("| %s | %s |\n", name, strings.ReplaceAll(r.Facts[name], "|", "\\|"))
			if !seen[line] && r.Facts[name] != "" {
				seen[line] = true
				fmt.Fprint(w, line)
			}
		}
	}
}

// between replaces what stands between the marks of a page.
func between(page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), beginMark)
	_, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s has not both marks, %q and %q", page, strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return os.WriteFile(page, []byte(head+beginMark+text+"\n"+endMark+tail), 0o644)
}
