package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var rewrite = flag.Bool("rewrite", false, "write the reference of the commands anew")

const commandsHead = `# Commands

` + "`everline COMMAND --help`" + ` says the same. stdout is data, stderr is talk; ` + "`-o json` and `-o jsonl`" + ` print
[documented JSON](json.md), to which members are added, and none renamed or removed. Colours only on a terminal, and not with ` + "`NO_COLOR`" + `.

| exit code | means |
|---|---|
| 0 | all is well |
| 1 | it failed |
| 2 | the command line is wrong |
| 3 | no everline runs on the state folder |
| 4 | a server needs a login |
| 5 | a server that should be up is down |
| 6 | the configuration is invalid |
| 124 | it took too long |
| 130 | it was interrupted |

This page is made by ` + "`go test ./cmd/everline -rewrite`" + ` from the commands themselves.

## Options of every command

`

// TestCommandsPage keeps docs/reference/commands.md as the commands say.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	root := newRoot(&streams{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	var b bytes.Buffer
	b.WriteString(commandsHead)
	describeFlags(&b, root.PersistentFlags())
	describeCommands(&b, root)
	const path = "../../docs/reference/commands.md"
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is not what the commands say; run go test ./cmd/everline -run TestCommandsPage -rewrite", path)
	}
}

func describeCommands(b *bytes.Buffer, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."), cmd.UseLine())
		if cmd.Long != "" {
			fmt.Fprintf(b, "\n%s\n", cmd.Long)
		}
		if cmd.Example != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.Example)
		}
		if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
			b.WriteString("\n")
			describeFlags(b, cmd.LocalNonPersistentFlags())
		}
		describeCommands(b, cmd)
	}
}

// describeFlags leaves out what depends on the machine: the default of
// --state-dir, and the help flag that comes and goes.
func describeFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	b.WriteString("| option | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		standard := ""
		if f.Name != "state-dir" && f.DefValue != "" && f.DefValue != "[]" {
			standard = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, standard, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}

// TestEveryCommandHelps finds commands without a word about themselves.
func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
	root := newRoot(&streams{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" && !cmd.Hidden {
			t.Errorf("%s says nothing about itself", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// TestPackaging reads the files of packaging/ as far as that is possible
// without the programs that use them, and parses the command lines in them.
func TestPackaging(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, unit := range []string{"packaging/systemd/everline.service", "packaging/systemd/everline-user.service"} {
		text := read(unit)
		if !strings.Contains(text, "\nType=notify\n") {
			t.Errorf("%s does not wait for READY=1", unit)
		}
		if !strings.Contains(text, "\nRestart=always\nRestartSec=100ms\n") || !strings.Contains(text, "\nStartLimitIntervalSec=0\n") {
			t.Errorf("%s does not start everline again, always and soon", unit)
		}
		socket := read(strings.TrimSuffix(unit, ".service") + ".socket")
		if strings.Count(socket, "\nListenStream=127.0.0.1:7433\n") != 1 || !strings.Contains(socket, "\nWantedBy=sockets.target\n") {
			t.Errorf("the socket unit beside %s holds no port of ours open", unit)
		}
		if !strings.Contains(text, "\nDelegate=yes\n") {
			t.Errorf("%s gives servers no limits", unit)
		}
		lines := regexp.MustCompile(`(?m)^Exec(?:Start|Reload)=\S+/everline (.*)$`).FindAllStringSubmatch(text, -1)
		if len(lines) != 2 {
			t.Errorf("%s has %d command lines", unit, len(lines))
		}
		for _, l := range lines {
			parses(t, unit, strings.Fields(l[1]))
		}
	}
	for _, file := range []string{"packaging/Dockerfile", "packaging/Dockerfile.tools"} {
		var words []string
		for _, m := range regexp.MustCompile(`(?m)^(?:ENTRYPOINT|CMD) (\[.*\])$`).FindAllStringSubmatch(read(file), -1) {
			var list []string
			if err := yaml.Unmarshal([]byte(m[1]), &list); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			words = append(words, list...)
		}
		if len(words) < 2 {
			t.Fatalf("%s starts %q", file, words)
		}
		parses(t, file, words[1:])
		if slices.Contains(words, "--state-dir") || !strings.Contains(read(file), "\nENV XDG_STATE_HOME=/var/lib\n") {
			t.Errorf("%s: docker exec would look for another state folder", file)
		}
	}
	dec := xml.NewDecoder(strings.NewReader(read("packaging/launchd/everline.plist")))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("launchd: %v", err)
		}
	}
	var release struct {
		Builds []struct{ Main string }
	}
	if err := yaml.Unmarshal([]byte(read(".goreleaser.yaml")), &release); err != nil || len(release.Builds) != 1 || release.Builds[0].Main != "./cmd/everline" {
		t.Errorf("goreleaser: %+v, %v", release, err)
	}
}

// parses finds the command and reads its flags, and runs nothing.
func parses(t *testing.T, where string, words []string) {
	t.Helper()
	root := newRoot(&streams{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	cmd, rest, err := root.Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || cmd == root {
		t.Errorf("%s: %q is no command line: %v", where, words, err)
	}
}
