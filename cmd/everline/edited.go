package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/trust"
)

// formatFlag is the help of --format.
func formatFlag() string {
	return "how the files are written, in place of what they look like: " + strings.Join(clients.Formats(), ", ")
}

// difference shows which lines an edit takes out and puts in, each as show has
// it; what is common at both ends is left out, but for a line or two around.
func difference(before, after string, show func(string) string) string {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	const around = 2
	var out strings.Builder
	line := func(sign, text string) {
		if text = strings.TrimRight(text, "\r\n"); text != "" || sign != " " {
			fmt.Fprintf(&out, "%s %s\n", sign, printable(show(text)))
		}
	}
	for i := max(0, head-around); i < head; i++ {
		line(" ", a[i])
	}
	for _, text := range a[head : len(a)-tail] {
		line("-", text)
	}
	for _, text := range b[head : len(b)-tail] {
		line("+", text)
	}
	for i := len(a) - tail; i < min(len(a), len(a)-tail+around); i++ {
		line(" ", a[i])
	}
	return out.String()
}

// An editResult is what the editing commands print for machines.
type editResult struct {
	File    string  `json:"file"`
	Changed bool    `json:"changed"`
	DryRun  bool    `json:"dryRun"`
	Backup  *string `json:"backup"` // null if nothing was there before, or nothing was changed
	Remedy  *string `json:"remedy"` // what to type before serve starts what the file names; null for nothing
}

// finishEdit makes the edit of a command, or shows it. done says what was done;
// remedy, once that is done, what is left to do.
func (a *app) finishEdit(e fileedit.Edit, done func(fileedit.Result) string, remedy func() string) (fileedit.Result, error) {
	made, err := e.Run()
	if err != nil {
		return made, err
	}
	r := editResult{File: e.Path, Changed: string(made.Old) != string(made.Text), DryRun: e.DryRun}
	if made.Backup != "" {
		r.Backup = &made.Backup
	}
	if left := remedy(); left != "" && r.Changed && !e.DryRun {
		r.Remedy = &left
	}
	if a.forMachines() {
		return made, writeLine(a.stdout, r)
	}
	switch {
	case !r.Changed:
		fmt.Fprintf(a.stdout, "%s: nothing to change\n", e.Path)
	case e.DryRun:
		hide := redact.InFile(e.Path, made.Old, made.Text)
		fmt.Fprintf(a.stdout, "%s would become:\n%s", e.Path, difference(string(made.Old), string(made.Text), hide))
	default:
		fmt.Fprintf(a.stdout, "%s: %s\n", e.Path, done(made))
	}
	if r.Backup != nil {
		fmt.Fprintf(a.stdout, "  before: %s\n", *r.Backup)
	}
	if r.Remedy != nil {
		fmt.Fprintf(a.stdout, "  serve asks for your approval first; look at it, then: %s\n", *r.Remedy)
	}
	return made, nil
}

// editTrusted makes an edit of the user's own. Of what was trusted the result
// is trusted, too, and so is a file that is new: nobody else has written in it.
func (a *app) editTrusted(ctx context.Context, path string, dryRun bool, done string, change func(old []byte) ([]byte, error)) error {
	remedy, failed := trust.Remedy(path), error(nil)
	if a.isTakenUp(ctx, path) {
		remedy = ""
	}
	e := fileedit.Edit{Path: path, DryRun: dryRun, Change: change, Before: func(old, text []byte) error {
		if !trust.Needed(nil, path) {
			return nil
		}
		if failed = trust.Keep(a.stateDir, path, old, text); failed == nil {
			remedy = ""
		}
		return nil // a file that is not trusted can be edited all the same
	}}
	_, err := a.finishEdit(e, func(fileedit.Result) string { return done }, func() string { return remedy })
	if err == nil && failed != nil && !errors.Is(failed, trust.ErrNotTrusted) {
		fmt.Fprintf(a.stderr, "%s could not be trusted: %v\n", path, failed)
	}
	return err
}
