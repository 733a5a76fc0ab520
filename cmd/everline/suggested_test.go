package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// prose are the words that stand behind the name in sentences, and so are no
// commands. A new one that is neither is probably a command that is missing.
var prose = map[string]bool{}

func init() {
	const words = `a again already an and answers are as at asks bridge broke by call calls can cannot checks clients could did do does
		does doctor's ended ends exits fails follows for from gives had has have here in into is it itself keeps listens looks may
		must never no not of on once only or own owns reads refuses reports returns run runs says sends server servers serves shuts
		since so starts state still stops takes tells than that the then this to under uses waits was were when which while will
		with without would unpublishes knows read start sets gets catalog write failed goes session`
	for word := range strings.FieldsSeq(words) {
		prose[word] = true
	}
}

// literals are the texts of a Go file, with those that + joins in one piece.
func literals(t *testing.T, path string) []string {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(src)), src, nil, 0)
	var all []string
	joined := false
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.ADD:
			joined = true
			continue
		case token.STRING:
			text, err := strconv.Unquote(lit)
			if err != nil {
				t.Fatal(path, err)
			}
			if joined && len(all) > 0 {
				all[len(all)-1] += text
			} else {
				all = append(all, text)
			}
		default:
		}
		joined = false
	}
}

// spans are the commands of a document: its code spans and console lines.
func spans(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
			all = append(all, command)
		}
	}
	return all
}

var suggestion = regexp.MustCompile(`\beverline((?: --[a-z-]+ [^ ]+)*) ([a-z][a-z0-9-]*)([^\n]*)`)

// wrongWith says what of the commands in a text does not exist.
func wrongWith(root *cobra.Command, text string, strict bool) (wrong []string) {
	for _, m := range suggestion.FindAllStringSubmatch(text, -1) {
		word, rest := m[2], m[3]
		if !strict && prose[word] {
			continue
		}
		cmd, left, err := root.Find([]string{word})
		if err != nil || cmd == root || len(left) > 0 {
			wrong = append(wrong, "everline "+word)
			continue
		}
		if sub := regexp.MustCompile(`^ ([a-z]+)\b`).FindStringSubmatch(rest); sub != nil && cmd.HasSubCommands() {
			if under, left, err := cmd.Find([]string{sub[1]}); err == nil && len(left) == 0 {
				cmd = under
			} else if strict || !prose[sub[1]] {
				wrong = append(wrong, "everline "+word+" "+sub[1])
			}
		}
		command, _, _ := strings.Cut(rest, " -- ") // behind it stand another program's
		command, _, _ = strings.Cut(command, ", or ")
		for _, flag := range regexp.MustCompile(` --([a-z][a-z-]*)`).FindAllStringSubmatch(command, -1) {
			if cmd.Flags().Lookup(flag[1]) == nil && cmd.InheritedFlags().Lookup(flag[1]) == nil && flag[1] != "help" {
				wrong = append(wrong, cmd.CommandPath()+" --"+flag[1])
			}
		}
	}
	return wrong
}

// TestFaultU3: whatever command a text of ours suggests, there is one.
func TestFaultU3(t *testing.T) {
	s := &streams{stdin: strings.NewReader(""), stdout: os.Stdout, stderr: os.Stderr}
	root := newRoot(s)
	completionCommand(root)
	checked := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == "adr" || name == "bench" || name == ".git" || name == "checklists") {
			return fs.SkipDir
		}
		var texts []string
		strict := strings.HasSuffix(path, ".md")
		switch {
		case strict:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts = spans(string(text))
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			texts = literals(t, path)
		}
		for _, text := range texts {
			checked += len(suggestion.FindAllString(text, -1))
			for _, wrong := range wrongWith(root, text, strict) {
				t.Errorf("%s suggests what does not exist: %s (%q)", path, wrong, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 200 {
		t.Errorf("only %d commands were found: the search is broken", checked)
	}
	for text, want := range map[string]string{
		"run: everline token mint x": "everline token mint", "try: everline status --nonsense": "everline status --nonsense",
		"everline tools shwo x": "everline tools shwo", "everline --state-dir /x frobnicate": "everline frobnicate",
	} {
		if got := wrongWith(root, text, false); len(got) != 1 || got[0] != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	tell(t, "u3")
}
