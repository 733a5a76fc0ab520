package toolargs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
)

func encodeWords(t *testing.T, schema string, words ...string) (string, error) {
	t.Helper()
	args, err := Words(words)
	if err != nil {
		return "", err
	}
	got, err := args.Encode(json.RawMessage(schema), "everline tools show s.t")
	return string(got), err
}

// TestFaultU11: what a word on the command line means is the schema's to say.
func TestFaultU11(t *testing.T) {
	t.Parallel()
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
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", c.words, err)
		}
	}
	for name, schema := range map[string]string{"none": "", "true": "true", "broken": "{", "strange": `{"properties":7}`} {
		if got, err := encodeWords(t, schema, "a=1", "b=two", `c={"x":[]}`, "d=", "e=x=y", `q"=true`); got != `{"a":1,"b":"two","c":{"x":[]},"d":"","e":"x=y","q\"":true}` {
			t.Errorf("%s schema: %s, %v", name, got, err)
		}
	}
	const closed = `{"properties":{"query":{"type":"string"}},"additionalProperties":false}`
	if _, err := encodeWords(t, closed, "querry=5"); err == nil || fault.From("", err).Remedy != "did you mean query?" {
		t.Errorf("a key that there is not: %v", err)
	}
	if got, err := encodeWords(t, `{"additionalProperties":{"type":"string"}}`, "x=5"); got != `{"x":"5"}` {
		t.Errorf("of any name: %s, %v", got, err)
	}
}
