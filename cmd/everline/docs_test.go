package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/internal/admin"
)

// TestDocs does what the documents say: the files in their ```json NAME
// blocks are written, and the commands in their ```console blocks are run, in
// order, with a scripted server in the place of npx. Building is not repeated.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	var docs []string
	for _, kind := range []string{"tutorial", "how-to"} {
		found, err := filepath.Glob("../../docs/" + kind + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents of the kind %s: %v", kind, err)
		}
		docs = append(docs, found...)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		script := scriptOf(t, string(text))
		name := filepath.Base(filepath.Dir(doc)) + "-" + strings.TrimSuffix(filepath.Base(doc), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/xdg")
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/.config")
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"kill9": kill9},
	})
}

// scriptOf turns a document into a script. The port in it may be taken here,
// so that everline serves on one of its own.
func scriptOf(t *testing.T, doc string) string {
	t.Helper()
	var commands, files strings.Builder
	block, ran := "", 0
	for _, line := range strings.Split(doc, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && block == "":
			block = fence
			if name, ok := fileBlock(fence); ok {
				fmt.Fprintf(&files, "-- %s --\n", name)
			}
		case isFence:
			block = ""
		case block == "json everline.json" && line == "{":
			files.WriteString("{ \"everline\": {\"listen\": \"127.0.0.1:0\"},\n") // the port of the documents may be taken here
		case isFileBlock(block):
			files.WriteString(line + "\n")
		case block == "console":
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				t.Errorf("a console block shows %q, which is no command", line)
			}
			commands.WriteString(scriptLine(t, command))
			ran++
		}
	}
	if ran == 0 {
		t.Error("a document without a command")
	}
	return commands.String() + files.String()
}

// fileBlock gives the name of the file that a block is, "" for other blocks.
func fileBlock(fence string) (name string, ok bool) {
	for _, syntax := range []string{"json ", "jsonc ", "yaml ", "toml "} {
		if name, ok = strings.CutPrefix(fence, syntax); ok {
			return strings.TrimPrefix(name, "~/"), true
		}
	}
	return "", false
}

func isFileBlock(fence string) bool {
	_, ok := fileBlock(fence)
	return ok
}

func scriptLine(t *testing.T, command string) string {
	t.Helper()
	switch variable, isExport := strings.CutPrefix(command, "export "); {
	case strings.HasPrefix(command, "go "), strings.HasPrefix(command, "export PATH="):
		return ""
	case isExport:
		return "env " + variable + "\n"
	case command == "everline serve &":
		return "exec everline serve --listen 127.0.0.1:0 &\n"
	case strings.HasPrefix(command, "cp "):
		return command + "\n"
	case command == "kill -9 PID":
		return "kill9\n"
	case strings.HasPrefix(command, "everline "):
		return "exec " + command + "\n"
	}
	t.Errorf("nothing here knows how to run %q", command)
	return ""
}

// kill9 kills the process of the one server that status shows.
func kill9(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("everline", "status", "-o", "json"))
	var st admin.Status
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &st))
	if len(st.Servers) != 1 || st.Servers[0].PID == nil {
		ts.Fatalf("no server with a process: %s", strconv.Quote(ts.ReadFile("stdout")))
	}
	p, err := os.FindProcess(*st.Servers[0].PID)
	ts.Check(err)
	ts.Check(p.Kill())
}
