package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// deep nests a schema n levels deep.
func deep(n int) string {
	return strings.Repeat(`{"items":`, n) + `{}` + strings.Repeat(`}`, n)
}

// badInside are members of a schema that compilers refuse, and what the warning
// says of each.
var badInside = []struct{ member, says string }{
	{`"$ref":"#/$defs/Missing"`, "leads nowhere"},
	{`"$ref":"#missing"`, "leads nowhere"},
	{`"$ref":"#/%zz"`, "leads nowhere"},
	{`"$ref":"#/type"`, "leads nowhere"},
	{`"$ref":"https://example.com/schema.json"`, "leads out of the schema"},
	{`"$ref":"other.json#/a"`, "leads out of the schema"},
	{`"$ref":7`, "is not a text"},
	{`"$ref":"#/$defs/loop","$defs":{"loop":{"$ref":"#/properties/x/$defs/loop"}}`, "leads nowhere"},
	{`"$dynamicRef":"#node"`, "leads nowhere"},
	{`"$recursiveRef":"#up"`, "leads nowhere"},
	{`"pattern":"^[\\w-.]+$"`, "regular expression of ECMAScript"},
	{`"pattern":"(?i)a"`, "regular expression of ECMAScript"},
	{`"pattern":"["`, "regular expression of ECMAScript"},
	{`"pattern":5`, "regular expression of ECMAScript"},
	{`"patternProperties":{"(":{}}`, "regular expression of ECMAScript"},
	{`"minimum":1,"exclusiveMinimum":true`, "exclusiveMinimum is not a number"},
	{`"maximum":1e400`, "too large a number"},
	{`"minLength":"3"`, "is not a number"},
	{`"maxItems":-1`, "is not a whole number"},
	{`"minItems":1.5`, "is not a whole number"},
	{`"multipleOf":0`, "is not above 0"},
	{`"uniqueItems":"yes"`, "neither true nor false"},
	{`"required":true`, "not a list of names"},
	{`"required":["a",1]`, "not a list of names"},
	{`"enum":[]`, "is empty"},
	{`"enum":{}`, "not a list"},
	{`"type":"thing"`, "thing"},
	{`"type":[]`, "[]"},
	{`"properties":[]`, "not an object"},
	{`"properties":{"a":5}`, "is no schema"},
	{`"dependencies":{"a":5}`, "is no schema"},
	{`"dependentRequired":{"a":"b"}`, "not a list of names"},
	{`"allOf":{}`, "not a list of schemas"},
	{`"not":3`, "is no schema"},
	{`"format":{}`, "is not a text"},
	{`"title":[]`, "is not a text"},
	{`"$schema":"urn:my:draft"`, "is not known"},
	{`"$schema":"http://json-schema.org/draft-04/schema#"`, "is not known"},
	{`"$anchor":"a b"`, "is not a plain name"},
	{`"$id":5`, "$id "},
	{`"items":` + deep(200), "too large or too deep"},
	{`"x":"` + strings.Repeat("y", maxSchema) + `"`, "too large or too deep"},
}

func TestFaultS1_OutputSchemasThatCompilersRefuse(t *testing.T) {
	bad := map[string]string{
		`{"$ref":"#"}`:                  `"object"`,
		`{"type":"object","$ref":"#"}`:  "refers to itself",
		`{"type":["object","null"]}`:    `"object"`,
		`{"anyOf":[{"type":"object"}]}`: `"object"`,
		`{"type":5}`:                    `"object"`,
		`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}`: "refers to itself",
		`{"type":"object","properties":{"x":{"$id":"http://h/x"}}}`:                                                            "below the root",
		`{"type":"object","$id":"http://h/x","properties":{"x":{"$ref":"http://h/x#/$defs/a"}},"$defs":{"a":{}}}`:              "leads out of",
		`{"type":"object","components":{"a":{"minimum":"x"}},"properties":{"x":{"$ref":"#/components/a"}}}`:                    "leads to",
	}
	for _, b := range badInside {
		bad[`{"type":"object","properties":{"x":{`+b.member+`}}}`] = b.says
	}
	for schema, says := range bad {
		items, warnings := readAll(t, Tools, `{"name":"a",`+good+`,"outputSchema":`+schema+`}`, `{"name":"b",`+good+`}`)
		if len(items) != 2 || string(items[0].Raw) != `{"name":"a",`+good+`}` {
			t.Errorf("%s: kept %v, as %.300s", clip([]byte(schema)), names(items), items[0].Raw)
		}
		said := strings.Join(warnings, "\n")
		if !strings.Contains(said, `tool "a": outputSchema removed: `) || !strings.Contains(said, says) {
			t.Errorf("%s: warnings %.300q, want %q", clip([]byte(schema)), said, says)
		}
	}
}

func TestFaultS1_InputSchemasThatCompilersRefuse(t *testing.T) {
	for _, b := range badInside {
		schema := `{"type":"object","properties":{"x":{` + b.member + `},"y":{"type":"string"}}}`
		items, warnings := readAll(t, Tools, `{"name":"a","inputSchema":`+schema+`}`, `{"name":"b",`+good+`}`)
		if len(items) != 2 {
			t.Errorf("%s: kept %v", b.member, names(items))
			continue
		}
		if said := strings.Join(warnings, "\n"); !strings.Contains(said, b.says) || !strings.HasPrefix(said, `tool "a": inputSchema`) {
			t.Errorf("%.100s: warnings %.300q, want %q", b.member, said, b.says)
		}
		// What is left is in order.
		if again, warnings := readAll(t, Tools, string(items[0].Raw)); warnings != nil || string(again[0].Raw) != string(items[0].Raw) {
			t.Errorf("%.100s: %.300s is not in order: %.300q", b.member, items[0].Raw, warnings)
		}
	}
}

// What is taken away from an input schema must not make it refuse more.
func TestFaultS1_InputSchemasStayPermissive(t *testing.T) {
	const bad = `{"pattern":"("}`
	for schema, want := range map[string]string{
		`"not":` + bad:                                                               `{"type":"object"}`,
		`"if":` + bad + `,"then":false`:                                              `{"type":"object","then":false}`,
		`"oneOf":[` + bad + `,{}]`:                                                   `{"type":"object"}`,
		`"anyOf":[` + bad + `,{"minLength":1}]`:                                      `{"type":"object","anyOf":[{},{"minLength":1}]}`,
		`"unevaluatedProperties":false,"allOf":[{"$ref":"#/x"}]`:                     `{"type":"object"}`,
		`"patternProperties":{"(":{}},"additionalProperties":false`:                  `{"type":"object","patternProperties":{}}`,
		`"additionalProperties":false,"patternProperties":{"(":{}}`:                  `{"type":"object","patternProperties":{}}`,
		`"properties":{"a":true,"b":false,"c":{"properties":{"d":true}}}`:            `{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{"properties":{"d":true}}}}`,
		`"type":"int","type":"object"`:                                               `{"type":"object"}`,
		`"minimum":"x","minimum":1,"items":5,"items":{}`:                             `{"type":"object","minimum":1,"items":{}}`,
		`"properties":{"a":{"items":[{}]},"b":{"items":[]}}`:                         `{"type":"object","properties":{"a":{"prefixItems":[{}]},"b":{}}}`,
		`"x-vendor":{"a":{"$anchor":"a b"}},"examples":{}`:                           `{"type":"object"}`,
		`"required":["a","b","a"]`:                                                   `{"type":"object","required":["a","b"]}`,
		`"properties":{"id":{"type":["string","string"]}},"id":"x"`:                  `{"type":"object","properties":{"id":{"type":["string"]}}}`,
		`"properties":{"a":{"nullable":true},"b":{"type":"string","nullable":true}}`: `{"type":"object","properties":{"a":{},"b":{"type":"string","nullable":true}}}`,
		`"properties":{"a":{"$ref":"#/$defs/gone/items"}},"$defs":{"gone":3}`:        `{"type":"object","properties":{"a":{}},"$defs":{"gone":{}}}`,
		`"properties":{"a":{"$ref":"#/not"}},"not":` + bad:                           `{"type":"object"}`,
	} {
		items, warnings := readAll(t, Tools, `{"name":"a","inputSchema":{"type":"object",`+schema+`}}`)
		if got := strings.TrimSuffix(strings.TrimPrefix(string(items[0].Raw), `{"name":"a","inputSchema":`), "}"); got != want || len(warnings) != 1 {
			t.Errorf("%s\ngot  %s\nwant %s\n%q", schema, got, want, warnings)
		}
	}
}

// Schemas that are in order stay as they are, byte for byte.
func TestFaultS1_GoodSchemasStay(t *testing.T) {
	for _, inside := range []string{
		`"properties":{"t":{"$ref":"#/$defs/tree"}},"$defs":{"tree":{"properties":{"kids":{"items":{"$ref":"#/$defs/tree"}}}}}`,
		`"properties":{"t":{"items":{"$ref":"#"}}}`,
		`"properties":{"t":{"$ref":"#n"}},"$defs":{"a":{"$anchor":"n"}}`,
		`"properties":{"t":{"$dynamicRef":"#n"}},"$defs":{"a":{"$dynamicAnchor":"n"}}`,
		`"properties":{"t":{"$ref":"#/$defs/a~1b~0%20c"}},"$defs":{"a/b~ c":true}`,
		`"properties":{"t":{"$ref":"#/anyOf/1/items"}},"anyOf":[{},{"items":{}}]`,
		`"properties":{"t":{"$ref":"#/components/x"}},"components":{"x":{"type":"string"}}`,
		`"properties":{"t":{"$r\u0065f":"#/definitions/x"}},"definitions":{"x":{"pattern":"^\\p{L}+/[\\w\\-.]{1,3}$"}}`,
		`"properties":{"$ref":{"type":"string"},"pattern":{"type":"string"},"id":{},"required":{}}`,
		`"patternProperties":{"^x-":{}},"additionalProperties":false,"dependencies":{"a":["b"],"c":{}},"dependentRequired":{"a":["b"]}`,
		`"properties":{"n":{"minimum":-1.5,"exclusiveMaximum":1e9,"multipleOf":0.01,"minLength":1.0}}`,
		`"$schema":"http://json-schema.org/draft-07/schema#","default":{"$ref":"#/x"},"examples":[{"pattern":"("}],"x-vendor":{"pattern":"("}`,
		`"properties":{"a":{"const":null,"enum":[null],"nullable":true,"type":"string"}}`,
	} {
		schema := `{"type":"object",` + inside + `}`
		tool := `{"name":"a","inputSchema":` + schema + `,"outputSchema":` + schema + `}`
		if items, warnings := readAll(t, Tools, tool); string(items[0].Raw) != tool || warnings != nil {
			t.Errorf("%s\nbecame %s\n%q", tool, items[0].Raw, warnings)
		}
	}
	// Recursive types name themselves in input schemas.
	tool := `{"name":"a","inputSchema":{"type":"object","properties":{"n":{"$id":"N","items":{"$ref":"N"}}}}}`
	if items, warnings := readAll(t, Tools, tool); string(items[0].Raw) != tool || warnings != nil {
		t.Errorf("became %s, %q", items[0].Raw, warnings)
	}
	// Compilers keep output schemas by name, those of all servers together.
	items, warnings := readAll(t, Tools, `{"name":"a",`+good+`,"outputSchema":{"$id":"x","type":"object"}}`)
	if want := `{"name":"a",` + good + `,"outputSchema":{"type":"object"}}`; string(items[0].Raw) != want || len(warnings) != 1 {
		t.Errorf("became %s, %q", items[0].Raw, warnings)
	}
}

// Values that are of the right type and still refused.
func TestFaultS1_ValuesThatStrictClientsRefuse(t *testing.T) {
	for _, tt := range []struct {
		kind        Kind
		input, want string
	}{
		{Resources, `"annotations":{"priority":5,"audience":["everyone"],"lastModified":"yesterday","x":1}`, `"annotations":{"x":1}`},
		{Resources, `"annotations":{"lastModified":"2025-01-12T15:00:58"}`, `"annotations":{}`},
		{Resources, `"annotations":{"lastModified":"2025-02-30T15:00:58Z"}`, `"annotations":{}`},
		{Resources, `"annotations":{"audience":["user","assistant"],"priority":1,"lastModified":"2025-01-12T15:00:58.5+01:00"},"size":10`, ``},
		{Resources, `"size":1.5,"icons":[{"src":"x","theme":"blue","sizes":[48]}]`, `"icons":[{"src":"x"}]`},
		{Resources, `"size":1e3,"_meta":{"n":-1e999}`, `"_meta":{"n":-1.7976931348623157e+308}`},
		{Templates, `"annotations":{"priority":-0.1}`, `"annotations":{}`},
		{Tools, `"execution":{"taskSupport":"sometimes"},` + good, `"execution":{},` + good},
		{Tools, `"_meta":{"deep":` + deep(150) + `},` + good, good},
		{Prompts, `"x":` + deep(5000) + `,"y":1`, `"y":1`},
	} {
		id := map[Kind]string{Tools: `"name":"a",`, Prompts: `"name":"a",`, Resources: `"uri":"a:b","name":"a",`, Templates: `"uriTemplate":"a:{b}","name":"a",`}[tt.kind]
		input, want := "{"+id+tt.input+"}", "{"+id+tt.want+"}"
		if tt.want == "" {
			want = input
		}
		items, warnings := readAll(t, tt.kind, input, strings.Replace(input, `a`, `b`, 1))
		if len(items) == 0 || string(items[0].Raw) != want || (input != want) != (len(warnings) > 0) {
			t.Errorf("%.200s\ngot  %+v\nwant %s\n%.300q", input, names(items), want, warnings)
		}
	}
	for uri, why := range map[string]string{"notes/1": "no scheme", "http://": "host", "http://h:99999/": "host", "https://[::g]/": "host", "1a:b": "no scheme"} {
		items, warnings := readAll(t, Resources, `{"uri":"`+uri+`","name":"n"}`, `{"uri":"a:b","name":"n"}`)
		if len(items) != 1 || len(warnings) != 1 || !strings.Contains(warnings[0], why) {
			t.Errorf("%s: %v, %q", uri, names(items), warnings)
		}
	}
	for _, uri := range []string{"a:b", "file:///x y", "urn:isbn:1", "ui://s/x", "https://user@h:80/p?q#f", "file:///C:/x", "HTTP://[::1]:1/", "postgres://h/db", "mem:"} {
		if items, warnings := readAll(t, Resources, `{"uri":"`+uri+`","name":"n"}`); len(items) != 1 || warnings != nil {
			t.Errorf("%s: %v, %q", uri, names(items), warnings)
		}
	}
}

// A catalog that an older version has kept is read anew.
func TestFaultS1_KeptCatalogs(t *testing.T) {
	w := writer{b: make([]byte, bodyAt)}
	copy(w.b, before)
	w.text("key")
	w.uint(7)
	w.bytes(nil)
	w.flag(true)
	c := &Catalog{}
	c.Items[Tools] = []Item{{Name: "a", Raw: []byte(`{"name":"a",` + good + `,"outputSchema":{"type":"object","$ref":"#/x"}}`)}}
	c.Items[Resources] = []Item{{Name: "x", Raw: []byte(`{"uri":"x","name":"x"}`)}}
	w.text(c.Instructions)
	w.bytes(nil)
	w.bytes(nil)
	for range Kinds {
		w.texts(nil)
	}
	for _, items := range c.Items {
		w.uint(uint64(len(items)))
		for _, i := range items {
			w.text(i.Name)
			w.bytes(i.Raw)
			w.flag(true)
			w.flag(false)
			w.text("")
			w.uint(0)
		}
	}
	saved, err := decode("key", seal(w.b))
	if err != nil || saved == nil || saved.Gen != 7 || len(saved.Catalog.Items[Tools]) != 1 || len(saved.Catalog.Items[Resources]) != 0 {
		t.Fatalf("%+v, %v", saved, err)
	}
	if got := string(saved.Catalog.Items[Tools][0].Raw); got != `{"name":"a",`+good+`}` {
		t.Errorf("kept %s", got)
	}
}

// Names that are no text are published with U+FFFD, and known by what they are.
func TestFaultS11_NamesThatAreNoText(t *testing.T) {
	for kind, item := range map[Kind]string{
		Tools:     `{"name":"a%s","description":"x %[1]s y",` + good + `}`,
		Prompts:   `{"name":"a%s"}`,
		Resources: `{"uri":"a:b%s","name":"n"}`,
		Templates: `{"uriTemplate":"a:{b}%s","name":"n"}`,
	} {
		sent := `{"` + kind.String() + `":[` + fmt.Sprintf(item, `\ud83d`) + `]}`
		text := `{"` + kind.String() + `":[` + fmt.Sprintf(item, `\ufffd`) + `]}`
		items, _, warnings, err := ReadSent(kind, []byte(text), []byte(sent))
		if err != nil || len(items) != 1 || len(warnings) != 1 || !strings.Contains(warnings[0], "not Unicode") {
			t.Fatalf("%v: %v, %q, %v", kind, names(items), warnings, err)
		}
		if !strings.HasSuffix(items[0].Name, "\uFFFD") || !strings.HasSuffix(string(items[0].Sent), `\ud83d"`) || strings.Contains(string(items[0].Raw), `\ud83d`) {
			t.Errorf("%v: read as %q, sent %s, %s", kind, items[0].Name, items[0].Sent, items[0].Raw)
		}
		c := &Catalog{}
		c.Items[kind] = items
		saved, err := decode("k", encode("k", Saved{Catalog: c}))
		if err != nil || string(saved.Catalog.Items[kind][0].Sent) != string(items[0].Sent) {
			t.Errorf("%v: on disk it is %+v, %v", kind, saved, err)
		}
		table := Merge([]Entry{{Server: "s", Published: true, Catalog: c}}, Naming{})
		target, ok := map[Kind]func(string) (Target, bool){
			Tools: table.Tool, Prompts: table.Prompt, Resources: table.Resource, Templates: table.Resource,
		}[kind](items[0].Name)
		if kind != Templates && (!ok || string(target.Sent) != string(items[0].Sent)) {
			t.Errorf("%v: found as %+v, %v", kind, target, ok)
		}
	}
}
