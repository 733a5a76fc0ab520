package edit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/conftest"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/tree"
)

const linkURL = "http://127.0.0.1:7433/mcp"

// TestLinkIsReadByTheClient writes the entry for each client into a new file
// and into each golden file of it, and reads the result by that client's rules.
func TestLinkIsReadByTheClient(t *testing.T) {
	texts := map[string]map[string][]byte{} // by format, by name
	for path, name := range conftest.ClientFiles(t, "../../../config/testdata/clients") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format, _ := clients.Detect(name, data)
		if texts[format] == nil {
			texts[format] = map[string][]byte{"/home/u/new" + filepath.Ext(name): nil}
		}
		texts[format][name] = data
	}
	for format, files := range texts {
		for name, data := range files {
			linked, err := edit.SetServer(format, name, data, clients.LinkName, clients.LinkEntry(format, linkURL, "/bin/everline", "stdio"))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			checkLinked(t, format, name, linked)
			again, err := edit.SetServer(format, name, linked, clients.LinkName, clients.LinkEntry(format, linkURL, "/bin/everline", "stdio"))
			if err != nil || string(again) != string(linked) {
				t.Errorf("%s: linking twice: %v\n%s", name, err, again)
			}
			back, err := edit.RemoveServer(format, name, linked, clients.LinkName)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if edit.HasServer(format, name, back, clients.LinkName) {
				t.Errorf("%s: still there:\n%s", name, back)
			}
		}
	}
}

func checkLinked(t *testing.T, format, name string, text []byte) {
	t.Helper()
	o := config.Options{Workspace: "/home/u/project"}
	o.Format = format
	cfg, err := o.Parse(name, text)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
		return
	}
	s, ok := cfg.Server(clients.LinkName)
	want := s.URL == linkURL && (s.Transport == "http" || s.Transport == "auto")
	if format == clients.ClaudeDesktop {
		want = s.Command == "/bin/everline" && len(s.Args) == 1
	}
	if !ok || s.Err != nil || s.Disabled || !want {
		if format == clients.Gemini && !ok {
			return // the file itself allows only the servers that it names
		}
		t.Errorf("%s: %+v\n%s", name, s, text)
	}
}

// TestEditKeepsTheRest is the text before and after, for each way to write it.
func TestEditKeepsTheRest(t *testing.T) {
	entry := tree.Pairs("command", "x", "args", []string{"-y", "a b"})
	for _, c := range []struct{ name, file, before, after string }{
		{"new", "e.json", "", "{\n  \"mcpServers\": {\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"a b\"]\n    }\n  }\n}\n"},
		{
			"comments", "e.json",
			"{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"y\"} // last\n  }\n}\n",
			"{\n  // mine\n  \"mcpServers\": {\n    \"a\": {\"command\": \"y\"}, // last\n    \"n\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"a b\"]\n    }\n  }\n}\n",
		},
		{
			"trailing comma", "e.json",
			"{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"y\"},\n\t},\n}\n",
			"{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"y\"},\n\t\t\"n\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"-y\", \"a b\"]\n\t\t},\n\t},\n}\n",
		},
		{
			"one line", "e.json", `{"mcpServers": {"a": {"command": "y"}}}`,
			`{"mcpServers": {"a": {"command": "y"}, "n": {"command": "x", "args": ["-y", "a b"]}}}`,
		},
		{
			"replaced", "e.json", "{\"mcpServers\": {\"n\": {\"command\": \"old\"}, \"b\": {\"command\": \"y\"}}}",
			"{\"mcpServers\": {\"n\": {\n  \"command\": \"x\",\n  \"args\": [\"-y\", \"a b\"]\n}, \"b\": {\"command\": \"y\"}}}",
		},
		{
			"yaml", "e.yaml", "# mine\nmcpServers:\n    a:\n        command: y\n",
			"# mine\nmcpServers:\n    n:\n      command: \"x\"\n      args: [\"-y\", \"a b\"]\n    a:\n        command: y\n",
		},
		{
			"toml", "e.toml", "[mcpServers.a]\ncommand = \"y\" # mine\n",
			"[mcpServers.a]\ncommand = \"y\" # mine\n\n[mcpServers.n]\ncommand = \"x\"\nargs = [\"-y\", \"a b\"]\n",
		},
	} {
		got, err := edit.SetServer(clients.Everline, c.file, []byte(c.before), "n", entry)
		if err != nil || string(got) != c.after {
			t.Errorf("%s: %v, got:\n%s\nwant:\n%s", c.name, err, got, c.after)
		}
	}
}

// TestEditRefusesWhatItCannotKeep has texts that must not be touched.
func TestEditRefusesWhatItCannotKeep(t *testing.T) {
	entry := tree.Pairs("command", "x")
	for _, c := range []struct{ file, text string }{
		{"e.json", `{"mcpServers": [1]}`},
		{"e.json", `{"mcpServers": {`},
		{"e.toml", `mcpServers = {a = {command = "y"}}`},
		{"e.yaml", "mcpServers: {a: {command: y}}\n"},
	} {
		if got, err := edit.SetServer(clients.Everline, c.file, []byte(c.text), "n", entry); err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s became\n%s\n%v", c.text, got, err)
		}
	}
	if _, err := edit.RemoveServer(clients.Everline, "e.json", []byte(`{"mcpServers": {}}`), "n"); err == nil || fault.KindOf(err) != fault.NotFound {
		t.Errorf("removing what is not there: %v", err)
	}
}

// FuzzEdit puts a server into any text, and takes it out again.
func FuzzEdit(f *testing.F) {
	for path, name := range conftest.ClientFiles(f, "../../../config/testdata/clients") {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(strings.TrimPrefix(filepath.Ext(name), "."), data)
		}
	}
	f.Fuzz(func(t *testing.T, ext string, data []byte) {
		if ext != "json" && ext != "yaml" && ext != "toml" {
			return
		}
		file := "f." + ext
		set, err := edit.SetServer(clients.Everline, file, data, "new-one", tree.Pairs("command", "x"))
		if err != nil {
			return
		}
		if !edit.HasServer(clients.Everline, file, set, "new-one") {
			t.Fatalf("not there:\n%s", set)
		}
		back, err := edit.RemoveServer(clients.Everline, file, set, "new-one")
		if err != nil {
			return
		}
		if edit.HasServer(clients.Everline, file, back, "new-one") {
			t.Fatalf("still there:\n%s", back)
		}
		if set, err = edit.SetServer(clients.Everline, file, back, "new-one", tree.Pairs("command", "x")); err != nil {
			return
		}
		if again, err := edit.RemoveServer(clients.Everline, file, set, "new-one"); err != nil || string(again) != string(back) {
			t.Fatalf("%v:\nbefore %q\nset    %q\nafter  %q", err, back, set, again)
		}
	})
}

// TestLinkAndUnlinkKeepComments puts a server in and takes it out again: every
// comment is there as before, and so is the kind of line ends.
func TestLinkAndUnlinkKeepComments(t *testing.T) {
	for _, c := range []struct{ name, format, file, before, after string }{
		{
			"a comment alone", clients.Cursor, "m.json",
			"{\n  \"mcpServers\": {\n    // only a comment\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    // only a comment\n  }\n}\n",
		},
		{
			"in one line", clients.Cursor, "m.json", "{\"mcpServers\": {/*e*/}}\n", "{\"mcpServers\": {/*e*/}}\n",
		},
		{
			"behind the last", clients.Cursor, "m.json",
			"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"y\"} // last\n    /* end */\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"y\"} // last\n    /* end */\n  }\n}\n",
		},
		{
			"trailing comma", clients.Cursor, "m.json",
			"{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"y\"}, // a\n\t},\n}\n",
			"{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"y\"}, // a\n\t},\n}\n",
		},
		{
			"CRLF", clients.Cursor, "m.json",
			"{\r\n  \"mcpServers\": {\r\n    \"a\": {\"command\": \"y\"} // last\r\n  }\r\n}\r\n",
			"{\r\n  \"mcpServers\": {\r\n    \"a\": {\"command\": \"y\"} // last\r\n  }\r\n}\r\n",
		},
		{"toml", clients.Codex, "c.toml", "# mine\r\nmodel = \"x\"\r\n", "# mine\r\nmodel = \"x\"\r\n"},
		{"goose", clients.Goose, "c.yaml", "extensions: {}\n# end\n", "extensions: {}\n# end\n"},
	} {
		linked, err := edit.SetServer(c.format, c.file, []byte(c.before), clients.LinkName, clients.LinkEntry(c.format, linkURL, "/bin/everline", "stdio"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if strings.Contains(c.before, "\r\n") && strings.Count(string(linked), "\n") != strings.Count(string(linked), "\r\n") {
			t.Errorf("%s: two kinds of line ends:\n%q", c.name, linked)
		}
		back, err := edit.RemoveServer(c.format, c.file, linked, clients.LinkName)
		if err != nil || string(back) != c.after {
			t.Errorf("%s: %v, got:\n%s\nwant:\n%s\nlinked:\n%s", c.name, err, back, c.after, linked)
		}
	}
}

// TestRemoveKeepsCommentsAround has comments of others on all sides of a server.
func TestRemoveKeepsCommentsAround(t *testing.T) {
	for _, c := range []struct{ name, file, before, after string }{
		{
			"toml", "c.toml",
			"# top\n[mcpServers.n]\nurl = \"x\"\n# inside\nlazy = true\n\n[mcpServers.n.env]\nA = \"b\"\n\n# about other\n[mcpServers.other]\ncommand = \"y\"\n",
			"# top\n\n# about other\n[mcpServers.other]\ncommand = \"y\"\n",
		},
		{"toml, last", "c.toml", "[mcpServers.o]\ncommand = \"y\"\n\n[mcpServers.n]\nurl = \"x\"\n# end\n", "[mcpServers.o]\ncommand = \"y\"\n\n# end\n"},
		{
			"yaml", "c.yaml",
			"mcpServers:\n  n:\n    url: x\n    # inside\n    lazy: true\n  # about o\n  o:\n    command: y\n",
			"mcpServers:\n  # about o\n  o:\n    command: y\n",
		},
		{
			"yaml, the only one", "c.yaml", "mcpServers:\n  n:\n    url: x\n# about other\nother: 1\n", "mcpServers: {}\n# about other\nother: 1\n",
		},
		{
			"json", "c.json",
			"{\"mcpServers\": {\n  // before\n  \"n\": {\"url\": \"x\"}, // beside\n  /* after */ \"o\": {\"command\": \"y\"}\n}}",
			"{\"mcpServers\": {\n  // before\n  // beside\n  /* after */ \"o\": {\"command\": \"y\"}\n}}",
		},
		{
			"json, in one line", "c.json", `{"mcpServers": {"a": {"command": "x"}, "n": {"url": "x"}}}`, `{"mcpServers": {"a": {"command": "x"}}}`,
		},
		{
			"json, twice", "c.json", `{"mcpServers": {"n": {"command": "x"}, "n": {"url": "x"}}}`, `{"mcpServers": {}}`,
		},
	} {
		got, err := edit.RemoveServer(clients.Everline, c.file, []byte(c.before), "n")
		if err != nil || string(got) != c.after {
			t.Errorf("%s: %v, got:\n%s\nwant:\n%s", c.name, err, got, c.after)
		}
	}
}

// TestSameServerIsNoEdit links anew what is written with other white space.
func TestSameServerIsNoEdit(t *testing.T) {
	const was = "{\n\t\"mcpServers\": {\n\t\t\"everline\": {\n\t\t\t\"url\": \"" + linkURL + "\"\n\t\t}\n\t}\n}\n"
	got, err := edit.SetServer(clients.Cursor, "m.json", []byte(was), clients.LinkName, clients.LinkEntry(clients.Cursor, linkURL, ""))
	if err != nil || string(got) != was {
		t.Errorf("%v:\n%s", err, got)
	}
	other, err := edit.SetServer(clients.Cursor, "m.json", []byte(was), clients.LinkName, clients.LinkEntry(clients.Cursor, "http://127.0.0.1:1/mcp", ""))
	if want := strings.Replace(was, linkURL, "http://127.0.0.1:1/mcp", 1); err != nil || string(other) != want {
		t.Errorf("%v:\n%s", err, other)
	}
}
