// Command mutants proves that the tests of the lifecycle can fail: it plants
// one bug at a time, by an overlay and without touching a file of the tree,
// and demands that the tests see it. It is no test of its own, because it
// runs the whole test binary once for each bug.
//
//	go run ./internal/lifecycle/mutants
//
// With -run only the named tests are asked, which tells how much the others
// are worth.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	target  = "github.com/everline/everline/internal/lifecycle"
	hang    = time.Minute     // a test run that takes so long ends itself, and counts as seen
	timeout = 5 * time.Minute // of one go command, compiling included
)

func main() {
	run := flag.String("run", "", "ask only tests that match this pattern")
	verbose := flag.Bool("v", false, "tell which test saw each bug")
	flag.Parse()
	if err := all(*run, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func all(run string, verbose bool) error {
	dir, err := command("list", "-f", "{{.Dir}}", target)
	if err != nil {
		return fmt.Errorf("go list %s: %w", target, err)
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a temporary folder
	r := runner{dir: strings.TrimSpace(dir), tmp: tmp, run: run}
	if text, passed := r.test(""); !passed {
		return fmt.Errorf("the tests fail without any bug:\n%s", text)
	}
	var bad []error
	for _, m := range table {
		by, err := r.kill(m)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", m.name, err))
			continue
		}
		if verbose {
			fmt.Printf("seen  %-34s %s\n", m.name, by)
		}
	}
	fmt.Printf("%d of %d bugs were seen\n", len(table)-len(bad), len(table))
	return errors.Join(bad...)
}

type runner struct{ dir, tmp, run string }

// kill plants m and returns the tests that failed because of it.
func (r runner) kill(m mutant) (by string, err error) {
	overlay, err := r.plant(m)
	if err != nil {
		return "", err
	}
	text, passed := r.test(overlay)
	switch {
	case passed:
		return "", errors.New("survived")
	case strings.Contains(text, "[build failed]"):
		return "", fmt.Errorf("does not compile:\n%s", text)
	}
	return failed(text), nil
}

// plant writes the changed file and the overlay that puts it into place.
func (r runner) plant(m mutant) (overlay string, err error) {
	path := filepath.Join(r.dir, m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("its text occurs %d times in %s, not once", n, m.file)
	}
	changed := filepath.Join(r.tmp, m.file)
	if err := os.WriteFile(changed, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o644); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(r.tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// test runs the tests, with an overlay unless that is empty.
func (r runner) test(overlay string) (text string, passed bool) {
	args := []string{"test", "-count=1", "-short", "-vet=off", "-timeout=" + hang.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	if r.run != "" {
		args = append(args, "-run="+r.run)
	}
	text, err := command(append(args, target)...)
	return text, err == nil
}

// command runs the go tool and returns all that it prints.
func command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	return string(out), err
}

// failed lists the top-level tests that a test run reports as failed.
func failed(text string) string {
	var names []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "(panic or timeout)"
	}
	return strings.Join(names, " ")
}
