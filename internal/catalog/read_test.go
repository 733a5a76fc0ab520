package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
)

// readAll reads a page of tools that must be readable.
func readAll(t *testing.T, kind Kind, items ...string) ([]Item, []string) {
	t.Helper()
	page := fmt.Sprintf(`{%q:[%s]}`, kind, strings.Join(items, ","))
	got, _, warnings, err := Read(kind, []byte(page))
	if err != nil {
		t.Fatalf("Read(%s): %v", page, err)
	}
	for _, i := range got {
		if !json.Valid(i.Raw) {
			t.Errorf("%s is not JSON any more: %s", i.Name, i.Raw)
		}
	}
	return got, warnings
}

func names(items []Item) []string {
	all := []string{}
	for _, i := range items {
		all = append(all, i.Name)
	}
	return all
}

const good = `"inputSchema":{"type":"object"}`

func TestFaultH1_OneBadSchemaCostsNoOtherTool(t *testing.T) {
	tests := []struct {
		schema string // the whole inputSchema; "" for none
		want   string // as it is after Read; "" if the tool is dropped
		says   string // part of the warning; "" for none
	}{
		{`{"type":"object"}`, `{"type":"object"}`, ""},
		{`{ "type" : "object" , "x":1 }`, `{ "type" : "object" , "x":1 }`, ""},
		{``, `{"type":"object"}`, "has no inputSchema"},
		{`null`, `{"type":"object"}`, "inputSchema is null"},
		{`true`, `{"type":"object"}`, "inputSchema is true"},
		{`[]`, `{"type":"object"}`, "inputSchema is []"},
		{`false`, ``, "dropped"},
		{`"object"`, ``, "dropped"},
		{`7`, ``, "dropped"},
		{`[1]`, ``, "dropped"},
		{`{}`, `{"type":"object"}`, "has no type"},
		{`{"anyOf":[{"type":"object"},{"required":["a"]}]}`, `{"anyOf":[{"type":"object"},{"required":["a"]}],"type":"object"}`, "has no type"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, "has no type"},
		{`{"type":"int"}`, ``, "takes no object"},
		{`{"type":"string"}`, ``, "takes no object"},
		{`{"type":["string","null"]}`, ``, "takes no object"},
		{`{"type":["null","object"]}`, `{"type":"object"}`, "read as"},
		{`{"type":"any"}`, `{"type":"object"}`, "read as"},
		{`{"type":null}`, `{"type":"object"}`, "read as"},
		{`{"type":"dict"}`, `{"type":"object"}`, "read as"},
		{
			`{"type":"object","properties":{"a":{"type":"int","x":1.0},"b":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","x":1.0},"b":{"type":"string"}}}`, "inputSchema.properties.a.type",
		},
		{`{"type":"object","properties":{"a":{"type":"thing"}}}`, `{"type":"object","properties":{"a":{}}}`, "removed"},
		{`{"type":"object","properties":{"a":{"type":["int","null"]}}}`, `{"type":"object","properties":{"a":{"type":["integer","null"]}}}`, "read as"},
		{`{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`, "array without items"},
		{
			`{"type":"object","properties":{"a":{"type":"string"},"required":["a"]}}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`, "properties.required is no schema",
		},
		{`{"type":"object","properties":{"required":{"type":"string"}}}`, `{"type":"object","properties":{"required":{"type":"string"}}}`, ""},
		{`{"type":"object","properties":{"a":null,"b":"text"}}`, `{"type":"object","properties":{"a":{},"b":{}}}`, "is no schema"},
		{`{"type":"object","properties":[]}`, `{"type":"object"}`, "is not an object"},
		{`{"type":"object","properties":{"a":{"required":true}}}`, `{"type":"object","properties":{"a":{}}}`, "not a list of names"},
		{`{"type":"object","required":null,"description":null}`, `{"type":"object"}`, "is null"},
		{`{"type":"object","anyOf":[]}`, `{"type":"object"}`, "not a list of schemas"},
		{`{"type":"object","oneOf":[null,{}]}`, `{"type":"object"}`, "is no schema"},
		{`{"type":"object","default":null,"properties":{"a":{"const":null,"enum":[null]}}}`, `{"type":"object","default":null,"properties":{"a":{"const":null,"enum":[null]}}}`, ""},
		{`{"type":"object","additionalProperties":{"type":"float"}}`, `{"type":"object","additionalProperties":{"type":"number"}}`, "read as"},
	}
	for _, tt := range tests {
		t.Run(tt.schema, func(t *testing.T) {
			bad := `{"name":"odd","inputSchema":` + tt.schema + `}`
			if tt.schema == "" {
				bad = `{"name":"odd"}`
			}
			items, warnings := readAll(t, Tools, `{"name":"a",`+good+`}`, bad, `{"name":"z",`+good+`}`)
			want := []string{"a", "odd", "z"}
			if tt.want == "" {
				want = []string{"a", "z"}
			}
			if !reflect.DeepEqual(names(items), want) {
				t.Fatalf("kept %v, want %v; %q", names(items), want, warnings)
			}
			if tt.want != "" {
				if raw := `{"name":"odd","inputSchema":` + tt.want + `}`; string(items[1].Raw) != raw {
					t.Errorf("got  %s\nwant %s", items[1].Raw, raw)
				}
			}
			said := strings.Join(warnings, "\n")
			if (tt.says == "") != (said == "") || !strings.Contains(said, tt.says) {
				t.Errorf("warnings %q, want %q", said, tt.says)
			}
			if said != "" && !strings.Contains(said, `tool "odd": `) {
				t.Errorf("the warning does not name the tool: %q", said)
			}
		})
	}
}

func TestFaultH1_DeepAndLargeSchemasEnd(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000)
	wide := `{"type":"object","properties":{` + strings.Repeat(`"a":1,`, 100_000) + `"a":1}}`
	large := `{"type":"object","x":"` + strings.Repeat("y", maxSchema) + `"}`
	for schema, says := range map[string]string{deep: "too deep", wide: "and 99996 more", large: "too large"} {
		items, warnings := readAll(t, Tools, `{"name":"a","inputSchema":`+schema+`}`)
		if len(items) != 1 || len(warnings) != 1 || !strings.Contains(warnings[0], says) {
			t.Errorf("a schema of %d bytes: %d tools are left, %q", len(schema), len(items), warnings)
		}
	}
}

func TestFaultH2_NullIsAbsent(t *testing.T) {
	tests := []struct {
		kind        Kind
		input, want string
	}{
		{
			Tools,
			`{"name":"a","annotations":null,"title":null,"icons":null,"_meta":null,"outputSchema":null,"description":null,"execution":null,` + good + `}`,
			`{"name":"a",` + good + `}`,
		},
		{
			Tools,
			`{"name":"a","annotations":{"title":null,"readOnlyHint":true,"idempotentHint":"yes"},` + good + `}`,
			`{"name":"a","annotations":{"readOnlyHint":true},` + good + `}`,
		},
		{Tools, `{"name":"a","unknown":null,"_meta":{"x":null},` + good + `}`, `{"name":"a","unknown":null,"_meta":{"x":null},` + good + `}`},
		{Tools, `{"name":"a","title":5,"icons":{},` + good + `}`, `{"name":"a",` + good + `}`},
		{
			Tools,
			`{"name":"a","icons":[{"src":"x","mimeType":null},null,{"mimeType":"y"}],` + good + `}`,
			`{"name":"a","icons":[{"src":"x"}],` + good + `}`,
		},
		{
			Prompts,
			`{"name":"p","arguments":[{"name":"x","required":null,"title":"t"},{}],"description":null}`,
			`{"name":"p","arguments":[{"name":"x","title":"t"}]}`,
		},
		{Prompts, `{"name":"p","arguments":null}`, `{"name":"p"}`},
		{
			Resources,
			`{"uri":"a:b","name":"n","size":null,"mimeType":null,"annotations":{"audience":null,"priority":0.50}}`,
			`{"uri":"a:b","name":"n","annotations":{"priority":0.50}}`,
		},
		{Resources, `{"uri":"a:b","name":null}`, `{"uri":"a:b","name":"a:b"}`},
		{Templates, `{"uriTemplate":"a:{b}"}`, `{"uriTemplate":"a:{b}","name":"a:{b}"}`},
	}
	for _, tt := range tests {
		items, warnings := readAll(t, tt.kind, tt.input)
		if len(items) != 1 || string(items[0].Raw) != tt.want {
			t.Errorf("%s\ngot  %+v\nwant %s", tt.input, names(items), tt.want)
			if len(items) == 1 {
				t.Errorf("%s", items[0].Raw)
			}
		}
		if (tt.input != tt.want) != (len(warnings) == 1) {
			t.Errorf("%s: warnings %q", tt.input, warnings)
		}
	}
	if _, next, _, err := Read(Tools, []byte(`{"tools":[],"nextCursor":null}`)); err != nil || next != nil {
		t.Errorf("nextCursor null: %q, %v", next, err)
	}
}

func TestFaultH3_BadOutputSchemaGoesAlone(t *testing.T) {
	for _, bad := range []string{`"x"`, `[]`, `{"type":"thing"}`, `{"properties":[]}`, `{"type":"object","properties":{"a":1}}`, `{}`, `{"type":"array"}`} {
		items, warnings := readAll(t, Tools, `{"name":"a",`+good+`,"outputSchema":`+bad+`,"x":1}`, `{"name":"b",`+good+`}`)
		if len(items) != 2 || string(items[0].Raw) != `{"name":"a",`+good+`,"x":1}` || len(warnings) != 1 {
			t.Errorf("%s: kept %v as %s, %q", bad, names(items), items[0].Raw, warnings)
		}
	}
	for _, fine := range []string{`{"type":"object"}`, `{"type":"object","properties":{"a":{"type":["string","null"]}}}`} {
		input := `{"name":"a",` + good + `,"outputSchema":` + fine + `}`
		if items, warnings := readAll(t, Tools, input); string(items[0].Raw) != input || warnings != nil {
			t.Errorf("%s: changed to %s, %q", fine, items[0].Raw, warnings)
		}
	}
}

func TestFaultQ1_RawBytesKept(t *testing.T) {
	tool := "{ \"zeta\": 1152921504606846976.000, \"name\" : \"a\\u0062\",\n\t\"inputSchema\": {\"type\":\"object\",\"$defs\":{\"x\":{\"minimum\":1e300}}}," +
		` "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"vendor":[1, 2]},"_meta":{"k":null},"<&>":"\u003c/é" }`
	items, warnings := readAll(t, Tools, tool)
	if len(items) != 1 || string(items[0].Raw) != tool || warnings != nil {
		t.Fatalf("got %s, %q", items[0].Raw, warnings)
	}
	if items[0].Name != "ab" || !items[0].ReadOnly || items[0].Idempotent {
		t.Errorf("read as %+v", items[0])
	}
	table := Merge([]Entry{
		{Server: "s", Published: true, Catalog: &Catalog{Items: [4][]Item{items}}}, {Server: "other"},
	}, Naming{})
	want := "[" + strings.Replace(tool, `"a\u0062"`, `"s__ab"`, 1) + "]"
	if got := string(table.Array(Tools)); got != want {
		t.Errorf("published as\n%s\nwant\n%s", got, want)
	}
}

func TestReadKeepsNothingOfTheResult(t *testing.T) {
	page := []byte(`{"tools":[{"name":"a",` + good + `}],"nextCursor":"c"}`)
	items, next, _, err := Read(Tools, page)
	if err != nil {
		t.Fatal(err)
	}
	for i := range page {
		page[i] = '#'
	}
	if string(items[0].Raw) != `{"name":"a",`+good+`}` || string(next) != `"c"` {
		t.Errorf("changed with the frame: %s %s", items[0].Raw, next)
	}
}

func TestReadBadItems(t *testing.T) {
	items, warnings := readAll(t, Tools, `7`, `{"name":"a",`+good+`}`, `{"title":"x"}`, `{"name":"a","second":1,`+good+`}`,
		`{"name":""}`, `null`, `{"name":"one","name":"two",`+good+`}`)
	if want := []string{"a", "two"}; !reflect.DeepEqual(names(items), want) {
		t.Errorf("kept %v, want %v", names(items), want)
	}
	if string(items[0].Raw) != `{"name":"a",`+good+`}` || string(items[1].Raw) != `{"name":"two",`+good+`}` {
		t.Errorf("kept %s and %s", items[0].Raw, items[1].Raw)
	}
	want := []string{
		`tools[0]: not an object; dropped`, `tools[2]: has no name; dropped`, `tools[4]: has no name; dropped`,
		`tools[5]: not an object; dropped`, `tool "two": name is given more than once; the last one counts`,
		`tool "a": listed more than once; the first one is kept`,
	}
	if !reflect.DeepEqual(warnings, want) {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(warnings, "\n"), strings.Join(want, "\n"))
	}
}

func TestReadPages(t *testing.T) {
	tests := []struct {
		result, next string
		n            int
		warned, err  bool
	}{
		{result: `{"tools":[]}`},
		{result: ` { "tools" : [ ] , "nextCursor" : "" } `, next: `""`},
		{result: `{"tools":[],"nextCursor":"a\u0062"}`, next: `"a\u0062"`},
		{result: `{"tools":[],"nextCursor":2}`, next: `2`, warned: true},
		{result: `{"tools":[],"nextCursor":{}}`, warned: true},
		{result: `{"tools":null}`, warned: true},
		{result: `{"nextCursor":"x","tools":[{"name":"a",` + good + `}]}`, next: `"x"`, n: 1},
		{result: `{}`, err: true},
		{result: `{"tools":{}}`, err: true},
		{result: `{"prompts":[]}`, err: true},
		{result: `[]`, err: true},
		{result: `null`, err: true},
		{result: ``, err: true},
		{result: `{"tools":[]}x`, err: true},
	}
	for _, tt := range tests {
		items, next, warnings, err := Read(Tools, []byte(tt.result))
		if (err != nil) != tt.err || string(next) != tt.next || (next != nil) != (tt.next != "") || len(items) != tt.n || (len(warnings) > 0) != tt.warned {
			t.Errorf("%s: %d items, next %q, %q, %v", tt.result, len(items), next, warnings, err)
		}
		if err != nil && !errors.Is(err, &fault.Fault{Kind: fault.Protocol}) {
			t.Errorf("%s: %v is not of kind Protocol", tt.result, err)
		}
	}
}

func TestDropBadHeaders(t *testing.T) {
	items, _ := readAll(t, Tools, `{"name":"a",`+good+`}`, `{"name":"b","inputSchema":{"type":"object","x-mcp-header":"A"}}`)
	kept, warnings := DropBadHeaders(items)
	if !reflect.DeepEqual(names(kept), []string{"a"}) || len(warnings) != 1 || !strings.HasPrefix(warnings[0], `tool "b": dropped: `) {
		t.Errorf("kept %v, %q", names(kept), warnings)
	}
}
