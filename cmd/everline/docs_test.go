package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/mcptest"
)

// TestDocs does what the documents say: the files in their ```json NAME
// blocks are written, and the commands in their ```console blocks are run, in
// order, with scripted servers in the place of npx. Building is not repeated;
// a page that builds begins in a clone of the repository, as its reader does.
func TestDocs(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), collector(t)
	var docs []string
	for _, kind := range []string{"tutorial", "how-to"} {
		found, err := filepath.Glob("../../docs/" + kind + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents of the kind %s: %v", kind, err)
		}
		for _, doc := range found {
			if filepath.Base(doc) != "README.md" { // an index
				docs = append(docs, doc)
			}
		}
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		script := scriptOf(t, strings.ReplaceAll(string(text), "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", "export OTEL_EXPORTER_OTLP_ENDPOINT="+to))
		name := filepath.Base(filepath.Dir(doc)) + "-" + strings.TrimSuffix(filepath.Base(doc), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/xdg")
			e.Setenv("XDG_CONFIG_HOME", home+"/.config")
			e.Setenv("HOME", home)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"kill9": kill9},
	})
}

// collector is one for whoever exports in the documents: it must have got every signal
// when all of them are over.
func collector(t *testing.T) (url string) {
	t.Helper()
	var got sync.Map
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r.URL.Path, true) }))
	t.Cleanup(func() {
		web.Close()
		for _, path := range []string{"/v1/traces", "/v1/metrics", "/v1/logs"} {
			if _, ok := got.Load(path); !ok {
				t.Errorf("the page about collectors says how to export, and nothing came to %s", path)
			}
		}
	})
	return web.URL
}

// scriptOf turns a document into a script. The port in it may be taken here,
// so that everline serves on one of its own.
func scriptOf(t *testing.T, doc string) string {
	t.Helper()
	var commands, files strings.Builder
	folder := "home"
	commands.WriteString("mkdir home clone/.git\n")
	if strings.Contains(doc, "$ go build ") {
		folder = "clone"
	}
	commands.WriteString("cd " + folder + "\n")
	block, ran := "", 0
	for _, line := range strings.Split(doc, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && block == "":
			block = fence
			if name, ok := fileBlock(fence, folder); ok {
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
			if to, ok := newFolder(command); ok {
				folder = "home/" + to
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

// fileBlock gives the name of the file that a block is, for a reader who is in
// the folder; ok is false for other blocks.
func fileBlock(fence, folder string) (name string, ok bool) {
	for _, syntax := range []string{"json ", "jsonc ", "yaml ", "toml "} {
		if name, ok = strings.CutPrefix(fence, syntax); !ok {
			continue
		}
		if own, ok := strings.CutPrefix(name, "~/"); ok {
			return "home/" + own, true
		}
		return folder + "/" + name, true
	}
	return "", false
}

func isFileBlock(fence string) bool {
	_, ok := fileBlock(fence, "")
	return ok
}

var newFolderLine = regexp.MustCompile(`^mkdir -p ~/(\S+) && cd ~/(\S+)$`)

// newFolder is the folder below the reader's home that a command goes to.
func newFolder(command string) (string, bool) {
	m := newFolderLine.FindStringSubmatch(command)
	if m == nil || m[1] != m[2] {
		return "", false
	}
	return m[1], true
}

func scriptLine(t *testing.T, command string) string {
	t.Helper()
	if to, ok := newFolder(command); ok {
		return "mkdir $HOME/" + to + "\ncd $HOME/" + to + "\n"
	}
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
	case strings.HasPrefix(command, "everline trust "):
		return "exec " + command + " --yes\n" // the reader says so at a terminal
	case strings.HasPrefix(command, "everline "):
		return "exec " + command + "\n"
	}
	t.Errorf("nothing here knows how to run %q", command)
	return ""
}

// packageTools are the tools that the real servers of the documents have, by
// their packages.
var packageTools = map[string]string{
	"@modelcontextprotocol/server-memory": "create_entities create_relations add_observations delete_entities delete_observations " +
		"delete_relations read_graph search_nodes open_nodes",
	"@modelcontextprotocol/server-everything":          "echo get-sum get-env get-structured-content trigger-long-running-operation",
	"@modelcontextprotocol/server-sequential-thinking": "sequentialthinking",
}

// npx stands in for the program that starts servers from a registry: a call
// that the real server could not answer fails here, too.
func npx() {
	names, known := packageTools[os.Args[len(os.Args)-1]]
	if !known {
		fmt.Fprintf(os.Stderr, "nothing here knows the package of %q\n", os.Args)
		os.Exit(1)
	}
	var cfg mcptest.Config
	for _, name := range strings.Fields(names) {
		cfg.Tools = append(cfg.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	}
	if err := mcptest.New(cfg).Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
