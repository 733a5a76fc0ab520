package upstream

import (
	"encoding/json"
	"testing"

	"github.com/everline/everline/fault"
)

const modernHead = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"everline","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":`

// What goes to the server is the client's params byte for byte, but for the
// members that are this connection's own.
func TestParams(t *testing.T) {
	listening := func([]byte) {}
	for name, c := range map[string]struct {
		call           Call
		legacy, modern string
	}{
		"none":  {Call{Method: "x"}, ``, `{` + modernHead + `{}}}`},
		"empty": {Call{Method: "x", Params: []byte(`{}`)}, `{}`, `{` + modernHead + `{}}}`},
		"everything else stays": {
			Call{Method: "tools/call", Name: "a", Params: []byte(`{ "x" : 1.50, "name":"a","u":"\u00e9", "arguments" : {"n":9007199254740993 , "b":1} }`)},
			`{ "x" : 1.50, "name":"a","u":"\u00e9", "arguments" : {"n":9007199254740993 , "b":1} }`,
			`{ "x" : 1.50, "name":"a","u":"\u00e9", "arguments" : {"n":9007199254740993 , "b":1} ,` + modernHead + `{}}}`,
		},
		"the server's own name": {
			Call{Method: "tools/call", Name: "own", Params: []byte(`{"name":"s__own","z":1}`)},
			`{"name":"own","z":1}`, `{"name":"own","z":1,` + modernHead + `{}}}`,
		},
		"of a completion": {
			Call{Method: "completion/complete", Name: "own", Params: []byte(`{"ref":{"type":"ref/prompt","name":"s__own"}}`)},
			`{"ref":{"type":"ref/prompt","name":"own"}}`, `{"ref":{"type":"ref/prompt","name":"own"},` + modernHead + `{}}}`,
		},
		"of a completion for a URI": {
			Call{Method: "completion/complete", Name: "file:///{p}", Params: []byte(`{"ref":{"type":"ref/resource","uri":"file:///{p}"}}`)},
			`{"ref":{"type":"ref/resource","uri":"file:///{p}"}}`, `{"ref":{"type":"ref/resource","uri":"file:///{p}"},` + modernHead + `{}}}`,
		},
		"token": {
			Call{Method: "x", Progress: listening, Params: []byte(`{"_meta":{"progressToken":"abc","v/k":{"a": 1}}}`)},
			`{"_meta":{"progressToken":42,"v/k":{"a": 1}}}`, `{` + modernHead + `{},"progressToken":42,"v/k":{"a": 1}}}`,
		},
		"token that nobody listens for": {
			Call{Method: "x", Params: []byte(`{"_meta":{"progressToken":7}}`)},
			`{}`, `{` + modernHead + `{}}}`,
		},
		"no token, no progress": {
			Call{Method: "x", Progress: listening, Params: []byte(`{"_meta":{"traceparent":"00-1-2-01"}}`)},
			`{"_meta":{"traceparent":"00-1-2-01"}}`, `{` + modernHead + `{},"traceparent":"00-1-2-01"}}`,
		},
		"reserved keys of the client": {
			Call{Method: "x", LogLevel: "info", Params: []byte(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01",` +
				`"k":1,"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},` +
				`"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/related-task":{"taskId":"1"}}}`)},
			`{"_meta":{"k":1,"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`,
			`{` + modernHead + `{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info","k":1,"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`,
		},
		"reserved keys alone": {
			Call{Method: "x", Params: []byte(`{"a":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)},
			`{"a":1}`, `{"a":1,` + modernHead + `{}}}`,
		},
		"_meta null": {
			Call{Method: "x", Params: []byte(`{"_meta":null}`)}, `{"_meta":null}`, `{` + modernHead + `{}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := string(c.call.Params)
			for version, want := range map[string]string{"": c.legacy, "2026-07-28": c.modern} {
				e := newEnvelope(version, "everline", "1")
				got, f := e.params(&c.call, 42)
				if f != nil {
					t.Fatal(f)
				}
				if string(got) != want {
					t.Errorf("%q:\n got %s\nwant %s", version, got, want)
				}
				if want != "" && !json.Valid(got) {
					t.Errorf("not JSON: %s", got)
				}
			}
			if string(c.call.Params) != before {
				t.Error("the caller's params were changed")
			}
		})
	}
}

func TestParamsMustBeAnObject(t *testing.T) {
	for _, p := range []string{`[1]`, `7`, `null`, `"x"`} {
		e := newEnvelope("", "n", "v")
		_, f := e.params(&Call{Method: "x", Params: []byte(p)}, 1)
		if f == nil || f.Kind != fault.Invalid || f.Outcome != fault.NotSent {
			t.Errorf("%s: %v", p, f)
		}
	}
}

// A server that ignores case, or takes the first of two, would do something
// else than what was decided about.
func TestParamsReadInOneWay(t *testing.T) {
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	for p, method := range map[string]string{
		`{"name":"safe","Name":"danger"}`:                     "tools/call",
		`{"name":"danger","name":"safe"}`:                     "tools/call",
		`{"name":"safe","n\u0041me":"danger"}`:                "prompts/get",
		`{"name":"safe","arguments":{},"argumentſ":{}}`:       "tools/call",
		`{"uri":"file:///a","URI":"file:///b"}`:               "resources/read",
		`{"taskId":"a","taskID":"b"}`:                         "tasks/get",
		`{"name":"safe","requeststate":"x"}`:                  "tools/call",
		`{"ref":{"type":"ref/prompt","name":"a","NAME":"b"}}`: "completion/complete",
		`{"_meta":{},"_META":{"progressToken":1}}`:            "acme/other",
		`{"_meta":{"progressToken":1,"progressToken":2}}`:     "tools/call",
		`{"_meta":{"ProgressToken":1}}`:                       "tools/call",
		`{"_meta":{` + version + `,` + version + `}}`:         "tools/call",
		"{\"name\":\"safe\",\"arguments\":{\"a\":\"\xff\"}}":  "tools/call",
	} {
		for _, version := range []string{"", "2026-07-28"} {
			e := newEnvelope(version, "everline", "1")
			got, f := e.params(&Call{Method: method, Name: "own", Params: []byte(p), Progress: func([]byte) {}}, 9)
			if f == nil || f.Kind != fault.Invalid || f.Outcome != fault.NotSent {
				t.Errorf("%s %s: %v, %s", method, p, f, got)
			}
		}
	}
	e := newEnvelope("", "everline", "1")
	for p, method := range map[string]string{
		`{"name":"own","arguments":{"name":1,"Name":2,"_meta":{},"_Meta":{}},"x":1,"X":2}`: "tools/call",
		`{"name":"a","Name":"b"}`: "acme/other",
	} {
		if got, f := e.params(&Call{Method: method, Name: "own", Params: []byte(p)}, 9); f != nil || string(got) != p {
			t.Errorf("%s %s: %v, %s", method, p, f, got)
		}
	}
}

func FuzzParams(f *testing.F) {
	f.Add(`{"_meta":{"progressToken":1,"io.modelcontextprotocol/logLevel":"x"},"name":"n"}`)
	f.Add(`{"_meta":{"a":{"b":[1,2,{"_meta":{}}]}} , "name":null}`)
	f.Fuzz(func(t *testing.T, p string) {
		if !json.Valid([]byte(p)) {
			return // wire checks frames before they get here
		}
		for _, version := range []string{"", "2026-07-28"} {
			e := newEnvelope(version, "everline", "1")
			got, fl := e.params(&Call{Method: "tools/call", Name: "own", Params: []byte(p), Progress: func([]byte) {}}, 9)
			if fl == nil && !json.Valid(got) {
				t.Errorf("%q became %q", p, got)
			}
		}
	})
}
