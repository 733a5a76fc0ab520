package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/everline/everline/internal/admin"
)

func encodeWords(t *testing.T, schema string, words ...string) (string, error) {
	t.Helper()
	args, err := splitArguments(words)
	if err != nil {
		return "", err
	}
	got, err := args.encode(json.RawMessage(schema), "everline tools show s.t")
	return string(got), err
}

// TestFaultU11: what a word on the command line means is the schema's to say.
func TestFaultU11(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"text":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer"},"yes":{"type":"boolean"},"nothing":{"type":"null"},
		"list":{"type":"array","items":{"type":"string"}},"ints":{"type":"array","items":{"type":"integer"}},"bag":{"type":"array"},
		"obj":{"type":"object"},"maybe":{"type":["string","null"]},"either":{"anyOf":[{"type":"string"},{"type":"integer"}]},
		"id":{"oneOf":[{"type":"integer"},{"type":"null"}]},"level":{"enum":["4","5"]},"size":{"enum":[4,5]},"mode":{"const":"1"},
		"ref":{"$ref":"#/$defs/Code"},"both":{"allOf":[{"type":["string","number"]},{"type":["number","boolean"]}]},
		"old":{"type":"string","nullable":true},"any":{},"loop":{"$ref":"#/properties/loop"},"away":{"$ref":"https://example.com/x"},
		"nested":{"type":"array","items":{"$ref":"#/properties/nested"}}
	},"$defs":{"Code":{"type":"string"}}}`
	for _, c := range []struct {
		words string // separated by blanks
		want  string
	}{
		{"text=5", `{"text":"5"}`},
		{"text=true", `{"text":"true"}`},
		{"text=null", `{"text":"null"}`},
		{`text={"a":1}`, `{"text":"{\"a\":1}"}`},
		{`text="quoted"`, `{"text":"\"quoted\""}`},
		{"text=", `{"text":""}`},
		{"text=a=b<c>&d", `{"text":"a=b<c>&d"}`},
		{"text:=5", `{"text":5}`},
		{"n=5 n:=6", ""},
		{"n=1.50", `{"n":1.50}`},
		{"n=12345678901234567890", `{"n":12345678901234567890}`},
		{"n=five", ""},
		{"n=NaN", ""},
		{"i=5", `{"i":5}`},
		{"i=5.0", `{"i":5.0}`},
		{"i=5.5", ""},
		{"yes=true", `{"yes":true}`},
		{"yes=yes", ""},
		{"nothing=null", `{"nothing":null}`},
		{"nothing=0", ""},
		{"list=a", `{"list":["a"]}`},
		{"list=5", `{"list":["5"]}`},
		{"list=a list=b", `{"list":["a","b"]}`},
		{`list=["a","b"]`, `{"list":["a","b"]}`},
		{"ints=1 text=x ints=2", `{"ints":[1,2],"text":"x"}`},
		{"ints=1 ints=two", ""},
		{"bag=1 bag=two", `{"bag":[1,"two"]}`},
		{`obj={"a":[1.0]}`, `{"obj":{"a":[1.0]}}`},
		{"obj=a", ""},
		{"obj=[]", ""},
		{"maybe=null", `{"maybe":null}`},
		{"maybe=5", `{"maybe":"5"}`},
		{"either=5", `{"either":5}`},
		{`either="5"`, `{"either":"5"}`},
		{"either=five", `{"either":"five"}`},
		{"id=null", `{"id":null}`},
		{"id=x", ""},
		{"level=5", `{"level":"5"}`},
		{"size=5", `{"size":5}`},
		{"mode=1", `{"mode":"1"}`},
		{"ref=5", `{"ref":"5"}`},
		{"both=5", `{"both":5}`},
		{"old=5", `{"old":"5"}`},
		{"any=5", `{"any":5}`},
		{"any=x", `{"any":"x"}`},
		{"loop=5", `{"loop":5}`},
		{"away=5", `{"away":5}`},
		{"nested=[]", `{"nested":[]}`},
		{"nested=5", ""},
		{"more=5", `{"more":5}`},
		{"more=5 more=6", ""},
		{"text:=five", ""},
		{"text", ""},
		{"=5", ""},
		{":=5", ""},
	} {
		got, err := encodeWords(t, schema, strings.Fields(c.words)...)
		if (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.words, got, err, c.want)
		}
		if err != nil && exitCode(asFault(err)) != exitUsage {
			t.Errorf("%s: exit %d", c.words, exitCode(asFault(err)))
		}
	}
	for name, schema := range map[string]string{"none": "", "true": "true", "broken": "{", "strange": `{"properties":7}`} {
		if got, err := encodeWords(t, schema, "a=1", "b=two", `c={"x":[]}`, "d=", "e=x=y", `q"=true`); got != `{"a":1,"b":"two","c":{"x":[]},"d":"","e":"x=y","q\"":true}` {
			t.Errorf("%s schema: %s, %v", name, got, err)
		}
	}
	const closed = `{"properties":{"query":{"type":"string"}},"additionalProperties":false}`
	if _, err := encodeWords(t, closed, "querry=5"); err == nil || asFault(err).Remedy != "did you mean query?" {
		t.Errorf("a key that there is not: %v", err)
	}
	if got, err := encodeWords(t, `{"additionalProperties":{"type":"string"}}`, "x=5"); got != `{"x":"5"}` {
		t.Errorf("of any name: %s, %v", got, err)
	}
	tell(t, "u11")
}

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
