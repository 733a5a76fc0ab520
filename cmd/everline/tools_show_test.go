package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/everline/everline/internal/admin"
)

func TestFaultU11(t *testing.T) { tell(t, "u11") }

func TestToolText(t *testing.T) {
	t.Parallel()
	tool := admin.Tool{Name: "m__find", Server: "m", Tool: "find", Definition: json.RawMessage(`{"name":"find","title":"Find",
		"description":"Finds things.\n\nAll of \u200bthem, in a text that is long enough to need another line of the terminal.",
		"annotations":{"readOnlyHint":true,"openWorldHint":false},
		"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"what to find"},"limit":{"type":"integer","default":10},
		"kind":{"enum":["a","b"]},"tags":{"type":"array","items":{"type":"string"}},"x":{}},"required":["query"]}}`)}
	got := toolText(tool, 60)
	for _, want := range []string{
		"m.find\n  title: Find\n  clients see: m__find\n  hints: read-only, stays within its own world\n",
		"\n  Finds things.\n\n  All of <U+200B>them, in a text that is long enough to need\n  another line of the terminal.\n",
		"\narguments:\n" +
			"  kind   one of \"a\", \"b\"\n" +
			"  limit  integer, default 10\n" +
			"  query  string, required; what to find\n" +
			"  tags   array of string\n" +
			"  x      anything\n",
		"\ninput schema:\n  {\n    \"type\": \"object\",\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if bare := toolText(admin.Tool{Server: "m", Tool: "x", Name: "x", Hidden: true, Definition: json.RawMessage("7")}, 0); !strings.Contains(bare, "hints: none given") || !strings.Contains(bare, "hidden") {
		t.Errorf("of a strange definition:\n%s", bare)
	}
}
