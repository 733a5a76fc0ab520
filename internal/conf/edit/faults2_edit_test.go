package edit_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/conftest"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/tree"
)

// TestFaultS6Edit puts every name into a file of each syntax and takes it out.
func TestFaultS6Edit(t *testing.T) {
	for _, format := range []string{clients.Everline, clients.Codex, clients.Goose, clients.Zed} {
		path, text, _ := strings.Cut(conftest.OneServerFiles[format], " ")
		was := []byte(fmt.Sprintf(text, "other"))
		if tree.SyntaxOf(path) == tree.JSON {
			was = []byte(fmt.Sprintf(text, `"other"`))
		}
		entry := tree.Pairs("command", "y", "args", []string{"z"})
		if format == clients.Goose {
			entry = tree.Pairs("type", "stdio", "cmd", "y")
		}
		for _, name := range conftest.StrangeNames {
			with, err := edit.SetServer(format, path, was, name, entry)
			if err != nil {
				t.Errorf("%s: %q cannot be written: %v", format, name, err)
				continue
			}
			if c, err := (config.Options{Format: format}).Parse(path, with); err != nil || len(c.Servers) != 3 || !edit.HasServer(format, path, with, name) {
				t.Errorf("%s: %q was written, and is not there: %v\n%s", format, name, err, with)
			}
			again, err := edit.SetServer(format, path, with, name, entry)
			if err != nil || !bytes.Equal(again, with) {
				t.Errorf("%s: %q is written twice: %v\n%s", format, name, err, again)
			}
			without, err := edit.RemoveServer(format, path, with, name)
			if err != nil || !bytes.Equal(without, was) {
				t.Errorf("%s: %q stays: %v\n%s", format, name, err, without)
			}
		}
	}
}

// TestFaultS6Quotes edits names that are written in other quotes.
func TestFaultS6Quotes(t *testing.T) {
	for file, text := range map[string]string{
		"config.yaml": "extensions:\n  good:\n    type: stdio\n    cmd: x\n  'acme/it''s':\n    type: stdio\n    cmd: x\n",
		"config.toml": "[mcp_servers.good]\ncommand = \"x\"\n[mcp_servers.'acme/it']\ncommand = \"x\"\n[mcp_servers.'acme/it'.env]\nA = \"b\"\n",
	} {
		format, name := clients.Goose, "acme/it's"
		if tree.SyntaxOf(file) == tree.TOML {
			format, name = clients.Codex, "acme/it"
		}
		out, err := edit.RemoveServer(format, file, []byte(text), name)
		if err != nil || strings.Contains(string(out), "acme") || !edit.HasServer(format, file, out, "good") {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}
