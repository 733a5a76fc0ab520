package edit_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
)

// jsonTexts are files as clients and people leave them; K is the key of the
// servers, and CRLF, BOM and the rest are made of each by TestSetAndRemove.
var jsonTexts = []string{
	`{"K":{}}`,
	`{"a":1,"K":{},"b":[1,2]}`,
	`{"K":{"a":{"command":"y"}}}`,
	`{ "K": { "a": { "command": "y" } } }`,
	`{"K": {"a": {"command": "y"},}, }`,
	`{"K": {/*e*/}}`,
	`{"K": { }}`,
	`{"K": {"a": {"command": "y"} /* last */ }}`,
	"{\n  \"K\": {}\n}",
	"{\n  \"K\": {},\n  \"theme\": \"dark\"\n}",
	"{\n  \"theme\": \"dark\",\n  \"K\": {\n    \"a\": {\n      \"command\": \"y\",\n      \"args\": []\n    }\n  }\n}",
	"{\n\t\"K\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"y\"\n\t\t}\n\t}\n}",
	"{\n\t\"K\": {\n\t\t\"a\": {\"command\": \"y\"}, // a\n\t},\n}",
	"// mine\n{\n  \"K\": {\n    // none\n  }\n}",
	"{\n  \"K\": { // none {\n  }\n}",
	"{\n  \"K\": {\n    \"a\": {\"command\": \"y\"} // last\n    /* end */\n  } // K\n}\n// end",
	"{\n\"K\": {\n\"a\": {\"command\": \"y\"}\n}\n}",
	"{\n  \"K\": {\n    \"a\": {\"command\": \"y\"}  \n\n\n  }\n}",
	"{\n  \"K\": {\n\n  }\n}",
	"{\"K\": {\"a\": {\n  \"command\": \"y\"\n}}}",
}

var tomlTexts = []string{
	"",
	"# mine\nmodel = \"x\"",
	"model = \"x\" # mine\n\n[K.a]\ncommand = \"y\"\nargs = [\n  \"b\",\n]",
	"[K.a]\ncommand = \"y\"\n\n[K.a.env]\n\tA = \"b\"\n\n# end",
	"[K]\n\n[other]\nx = 1\n  ",
	"x = \"\"\"\nlong\n\n\"\"\"",
}

var yamlTexts = []string{
	"K: {}",
	"K: {}  ",
	"# mine\nK: {}\n# end",
	"K: {}\nGOOSE_MODEL: x",
	"---\nGOOSE_MODEL: x\n\nK:\n  a:\n    cmd: y\n    args:\n    - z",
	"K:\n    # first\n    a:\n        cmd: y # y\n    # last",
	"K:\n  a:\n    cmd: y\n\nhint: |\n  two\n  lines",
	"hint: >-\n  two\n  lines\nK:\n  a:\n    cmd: |\n      z",
}

// TestSetAndRemove puts the entry of everline into files that have none, and
// takes it out again: the file is as it was, to the byte.
func TestSetAndRemove(t *testing.T) {
	for _, c := range []struct {
		format, file, key string
		texts             []string
	}{
		{clients.ClaudeDesktop, "c.json", "mcpServers", jsonTexts},
		{clients.ClaudeCode, "c.json", "mcpServers", jsonTexts},
		{clients.Cursor, "c.json", "mcpServers", jsonTexts},
		{clients.VSCode, "c.json", "servers", jsonTexts},
		{clients.Windsurf, "c.json", "mcpServers", jsonTexts},
		{clients.Zed, "c.json", "context_servers", jsonTexts},
		{clients.Gemini, "c.json", "mcpServers", jsonTexts},
		{clients.Opencode, "c.json", "mcp", jsonTexts},
		{clients.Everline, "c.json", "mcpServers", jsonTexts},
		{clients.Codex, "c.toml", "mcp_servers", tomlTexts},
		{clients.Everline, "c.toml", "mcpServers", tomlTexts},
		{clients.Goose, "c.yaml", "extensions", yamlTexts},
		{clients.Everline, "c.yaml", "mcpServers", yamlTexts},
	} {
		for _, text := range c.texts {
			text = strings.ReplaceAll(text, "K", c.key)
			for _, end := range []string{"", "\n", "\n\n\n"} {
				setAndRemove(t, c.format, c.file, text+end)
				setAndRemove(t, c.format, c.file, strings.ReplaceAll(text+end, "\n", "\r\n"))
				setAndRemove(t, c.format, c.file, strings.Replace(text+end, "\n", "\r\n", 1))
				setAndRemove(t, c.format, c.file, "\xef\xbb\xbf"+text+end)
			}
		}
	}
}

func setAndRemove(t *testing.T, format, file, text string) {
	t.Helper()
	set, err := edit.SetServer(format, file, []byte(text), clients.LinkName, clients.LinkEntry(format, linkURL, "/bin/everline", "stdio"))
	if err != nil {
		t.Errorf("%s: %v\n%q", format, err, text)
		return
	}
	if !edit.HasServer(format, file, set, clients.LinkName) {
		t.Errorf("%s: not there: %q", format, set)
		return
	}
	back, err := edit.RemoveServer(format, file, set, clients.LinkName)
	if err != nil || string(back) != text {
		t.Errorf("%s %s: %v\nwas  %q\nset  %q\nback %q", format, filepath.Ext(file), err, text, set, back)
	}
}
