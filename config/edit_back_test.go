package config

import (
	"path/filepath"
	"strings"
	"testing"
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
		{FormatClaudeDesktop, "c.json", "mcpServers", jsonTexts},
		{FormatClaudeCode, "c.json", "mcpServers", jsonTexts},
		{FormatCursor, "c.json", "mcpServers", jsonTexts},
		{FormatVSCode, "c.json", "servers", jsonTexts},
		{FormatWindsurf, "c.json", "mcpServers", jsonTexts},
		{FormatZed, "c.json", "context_servers", jsonTexts},
		{FormatGemini, "c.json", "mcpServers", jsonTexts},
		{FormatOpencode, "c.json", "mcp", jsonTexts},
		{FormatEverline, "c.json", "mcpServers", jsonTexts},
		{FormatCodex, "c.toml", "mcp_servers", tomlTexts},
		{FormatEverline, "c.toml", "mcpServers", tomlTexts},
		{FormatGoose, "c.yaml", "extensions", yamlTexts},
		{FormatEverline, "c.yaml", "mcpServers", yamlTexts},
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
	set, err := SetServer(format, file, []byte(text), LinkName, LinkEntry(format, linkURL, "/bin/everline", "stdio"))
	if err != nil {
		t.Errorf("%s: %v\n%q", format, err, text)
		return
	}
	if !HasServer(format, file, set, LinkName) {
		t.Errorf("%s: not there: %q", format, set)
		return
	}
	back, err := RemoveServer(format, file, set, LinkName)
	if err != nil || string(back) != text {
		t.Errorf("%s %s: %v\nwas  %q\nset  %q\nback %q", format, filepath.Ext(file), err, text, set, back)
	}
}
