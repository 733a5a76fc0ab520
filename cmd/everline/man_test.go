package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manDir is where the manual pages are kept, one for each command.
const manDir = "../../packaging/man"

// TestManPages keeps packaging/man as the commands say.
func TestManPages(t *testing.T) {
	t.Parallel()
	pages := manPages(t)
	if *rewrite {
		writeManPages(t, pages)
	}
	files, err := filepath.Glob(filepath.Join(manDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if _, ours := pages[filepath.Base(path)]; !ours {
			t.Errorf("%s is the page of no command", path)
		}
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(manDir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the command says; run go test ./cmd/everline -run TestManPages -rewrite (%v)", name, err)
		}
	}
}

func writeManPages(t *testing.T, pages map[string][]byte) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(manDir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(manDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(manDir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pageDate is the date in the first line of a page, which would make each page
// another one every month.
var pageDate = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "1") "[^"]*"`)

// manPages are the pages by file name.
func manPages(t *testing.T) map[string][]byte {
	t.Helper()
	root := newRoot(&streams{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	root.DisableAutoGenTag = true
	root.PersistentFlags().Lookup("state-dir").DefValue = "~/.local/state/everline" // not that of this machine
	pages := map[string][]byte{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd != root && !cmd.IsAvailableCommand() {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "everline", Manual: "everline manual"}
		var b bytes.Buffer
		if err := doc.GenMan(cmd, header, &b); err != nil {
			t.Fatal(err)
		}
		page := pageDate.ReplaceAll(b.Bytes(), []byte(`$1 ""`))
		if cmd == root {
			page = append(page, exitStatus()...)
		}
		pages[name+".1"] = page
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	return pages
}

// exitStatus is the section on exit codes, from the table of the reference.
func exitStatus() string {
	var b strings.Builder
	b.WriteString(".SH EXIT STATUS\n")
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(commandsHead, -1) {
		b.WriteString(".TP\n" + m[1] + "\n" + m[2] + "\n")
	}
	return b.String()
}

// TestReleaseHasItsFiles finds patterns of the release configuration that
// match nothing.
func TestReleaseHasItsFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct{ Archives []struct{ Files []string } }
	if err := yaml.Unmarshal(text, &release); err != nil || len(release.Archives) != 1 {
		t.Fatalf("%+v, %v", release, err)
	}
	files := release.Archives[0].Files
	for _, pattern := range files {
		if found, err := filepath.Glob(filepath.Join("../..", pattern)); err != nil || len(found) == 0 {
			t.Errorf("%s matches no file: %v", pattern, err)
		}
	}
	if !slices.Contains(files, "packaging/man/*.1") {
		t.Error("the manual pages are not in the release")
	}
}
