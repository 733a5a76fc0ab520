//go:build interop

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline/internal/mcptest"
)

// corpusSeeds are the seeds of the corpus: each makes the lists of one server,
// with perSeed odd definitions.
var corpusSeeds = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

const perSeed = 50

// oddValues stand where a definition should have something else.
var oddValues = []string{
	`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e400`, `-1e999`, `12345678901234567890123`, `""`, `"x"`, `"\ud83d"`, `"\udc00\ud83d"`, `"\u0000"`,
	`"\ud83d\ude00"`, `[]`, `{}`, `[null]`, `[[]]`, `[1]`, `["x","x"]`, `{"a":null}`, `{"a":"\ud800"}`, `{"\ud800":1}`, `{"a":1e400}`,
}

// oddMembers are members of schemas that some compiler refuses, or might.
var oddMembers = []string{
	`"$ref":"#/$defs/Missing"`, `"$ref":"#"`, `"$ref":"https://example.com/s.json"`, `"$ref":"other"`, `"$ref":"#missing"`, `"$ref":"#/%"`, `"$ref":"#/type"`,
	`"$ref":"#/$defs/a b<c>","$defs":{"x":{}}`, `"$ref":"http://json-schema.org/draft-07/schema#"`, `"$dynamicRef":"#n"`, `"$recursiveRef":"#"`,
	`"pattern":"("`, `"pattern":"^[\\w-.]+$"`, `"pattern":"\\-"`, `"pattern":"(?i)x"`, `"pattern":"(?P<n>x)"`, `"pattern":"\\p{Foo}"`, `"pattern":"\\p{L}\\u{1F600}"`, `"pattern":"a{2,1}"`,
	`"patternProperties":{"(":{},"^x":{}}`, `"patternProperties":{"^x":5}`, `"exclusiveMinimum":true,"minimum":1`, `"exclusiveMaximum":false`, `"id":"http://h/s"`, `"id":{"type":"string"}`,
	`"$id":"http://h/s"`, `"$id":"#x"`, `"$id":7`, `"$anchor":"a"`, `"$anchor":"a b"`, `"$dynamicAnchor":"n"`, `"$schema":"http://json-schema.org/draft-04/schema#"`, `"$schema":"urn:x"`,
	`"$schema":"https://json-schema.org/draft/2020-12/schema"`, `"$schema":"http://json-schema.org/draft-07/schema#"`, `"required":true`, `"required":"a"`, `"required":["a","a"]`,
	`"required":[1]`, `"enum":[]`, `"enum":"x"`, `"enum":[1,1,null]`, `"type":"thing"`, `"type":[]`, `"type":["string","string"]`, `"type":"int"`, `"type":["null","object"]`, `"type":null`,
	`"properties":{"a":true,"b":false}`, `"properties":[]`, `"properties":{"a":null,"b":5}`, `"properties":{"required":["x"]}`, `"items":[]`, `"items":[{},{}]`, `"items":5`, `"prefixItems":[]`,
	`"prefixItems":[{"$ref":"#/nope"}]`, `"additionalProperties":null`, `"additionalProperties":"no"`, `"allOf":[]`, `"anyOf":{}`, `"oneOf":[null]`, `"not":7`, `"if":{"pattern":"("},"then":false`,
	`"nullable":true`, `"nullable":false,"type":"null"`, `"$async":true`, `"discriminator":{"propertyName":"x"}`, `"format":"nonsense"`, `"format":{}`, `"format":"regex"`, `"minLength":"3"`, `"maxLength":-1`,
	`"minItems":1.5`, `"multipleOf":0`, `"multipleOf":-2`, `"uniqueItems":"yes"`, `"uniqueItems":1`, `"minimum":"0"`, `"maximum":1e400`, `"dependencies":{"a":["b"],"c":{"$ref":"#/x"}}`, `"dependencies":{"a":5}`,
	`"dependentRequired":{"a":"b"}`, `"dependentSchemas":{"a":{"$ref":"#/x"}}`, `"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}`, `"$defs":{"t":{"properties":{"t":{"$ref":"#/$defs/t"}}}}`,
	`"allOf":[{"$ref":"#"}]`, `"unevaluatedProperties":false,"allOf":[{"$ref":"#/x"}]`, `"contains":{"type":"nope"}`, `"propertyNames":{"pattern":"["}`, `"const":1e400`, `"default":{"$ref":"#/x"}`,
	`"title":5`, `"description":null`, `"description":["a"]`, `"deprecated":"yes"`, `"readOnly":1`, `"examples":{"a":1}`, `"x-vendor":{"$id":5,"$anchor":"a b"}`, `"contentSchema":{"$ref":"#/x"}`, `"contentEncoding":5`,
	`"$comment":1`, `"components":{"s":{"pattern":"("}},"properties":{"c":{"$ref":"#/components/s"}}`, `"minContains":"1"`, `"$vocabulary":{}`, `"\u0024ref":"#/x"`, `"typ\u0065":"thing"`, `"type":"string","type":"thing"`,
}

// A corpus makes odd definitions.
type corpus struct{ *rand.Rand }

func pick[T any](c corpus, all []T) T { return all[c.IntN(len(all))] }

// odd is one of the odd values, at times deep in others.
func (c corpus) odd() string {
	v := pick(c, oddValues)
	if c.IntN(25) == 0 {
		n := 20 + c.IntN(400)
		v = strings.Repeat(`{"d":[`, n) + v + strings.Repeat(`]}`, n)
	}
	return v
}

// schema is a schema with something odd at some depth.
func (c corpus) schema(depth int) string {
	members := []string{`"type":"object"`}
	switch {
	case c.IntN(8) == 0:
		members[0] = pick(c, []string{`"type":"array"`, `"type":"string"`, `"title":"no type"`, `"type":["object","null"]`, `"type":"dict"`})
	case depth > 0 && c.IntN(3) == 0:
		members[0] = `"title":"inner"`
	}
	for range c.IntN(3) {
		members = append(members, pick(c, oddMembers))
	}
	if depth < 4 && c.IntN(2) == 0 {
		within := pick(c, []string{`"properties":{"p":%s}`, `"items":%s`, `"$defs":{"D":%s},"properties":{"d":{"$ref":"#/$defs/D"}}`, `"anyOf":[{},%s]`, `"not":%s`, `"oneOf":[%s,{}]`, `"additionalProperties":%s`})
		members = append(members, fmt.Sprintf(within, c.schema(depth+1)))
	}
	if c.IntN(12) == 0 {
		members = append(members, fmt.Sprintf(`%q:%s`, pick(c, []string{"properties", "items", "required", "enum", "$ref", "pattern", "default"}), c.odd()))
	}
	if c.IntN(3) == 0 {
		slices.Reverse(members)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// members are those of a definition: the good ones, some of them odd.
func (c corpus) members(good string, optional ...string) string {
	all := []string{good}
	for _, key := range optional {
		if c.IntN(3) == 0 {
			all = append(all, fmt.Sprintf(`%q:%s`, key, c.odd()))
		}
	}
	if c.IntN(4) == 0 {
		all = append(all, pick(c, []string{
			`"icons":[{"src":"x","sizes":[48],"theme":"blue"},{"src":5},null]`, `"_meta":{"progressToken":{},"n":1e400}`, `"_meta":{"io.modelcontextprotocol/related-task":5}`,
			`"annotations":{"priority":7,"audience":["all"],"lastModified":"yesterday","readOnlyHint":"yes","title":[]}`, `"annotations":{"priority":0.5,"lastModified":"2025-01-01T00:00:00Z"}`,
			`"annotations":{"audience":"user"}`, `"execution":{"taskSupport":"maybe"}`, `"description":"x \ud83d y"`, `"size":1e3`, `"title":"a","title":5`,
		}))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// define makes the i-th odd definition of a kind.
func (c corpus) define(kind, i int) string {
	name := fmt.Sprintf(`"odd_%d"`, i)
	if c.IntN(6) == 0 {
		name = pick(c, []string{fmt.Sprintf(`"odd \ud83d %d"`, i), `"same"`, fmt.Sprintf(`"größe/%d"`, i), `""`, `7`, `null`, fmt.Sprintf(`"%s_%d"`, strings.Repeat("long", 80), i), `"a\u0000b"`, `"\u202eevil"`})
	}
	switch kind {
	case 0:
		good := `"name":` + name
		if c.IntN(20) > 0 {
			good += `,"inputSchema":` + c.schema(0)
		} else {
			good += `,"inputSchema":` + c.odd()
		}
		if c.IntN(3) > 0 {
			good += `,"outputSchema":` + c.schema(0)
		}
		return c.members(good, "title", "description", "annotations", "_meta", "outputSchema", "execution", "icons", "vendor")
	case 1:
		args := pick(c, []string{`[{"name":"a","required":true}]`, `[{"name":"a","required":"yes","description":5},{},null]`, `null`, `{}`, `[{"name":5}]`, `[[]]`})
		return c.members(`"name":`+name+`,"arguments":`+args, "title", "description", "_meta", "icons", "vendor")
	case 2:
		uri := fmt.Sprintf(`"odd://%d/x"`, c.IntN(1_000_000))
		if c.IntN(3) == 0 {
			uri = pick(c, []string{`"no scheme"`, `"http://"`, `"https://h:99999/"`, `"file:///a b"`, `"http://[::1"`, `"x:\ud83d"`, `"HTTP://EXAMPLE.com:80"`, `"http://1.2.3.999/"`, `"1a:b"`, `"urn:x"`, `""`, `5`, `"http://a b/"`, `"file://h:1/"`})
		}
		return c.members(`"uri":`+uri+`,"name":`+name, "title", "description", "_meta", "icons", "mimeType", "size", "annotations")
	default:
		uri := pick(c, []string{fmt.Sprintf(`"odd://%d/{x}"`, c.IntN(1_000_000)), `"odd://{"`, `"{+all}"`, `"no"`, `5`, `"x:{\ud83d}"`})
		return c.members(`"uriTemplate":`+uri+`,"name":`+name, "title", "description", "_meta", "icons", "mimeType", "annotations")
	}
}

// site is the server of one seed: its odd definitions, and one sane one of each
// kind in the middle of them.
func (c corpus) site(t *testing.T, seed uint64) map[string]any {
	var lists [4][]string
	for i := range perSeed {
		kind := max(0, c.IntN(8)-4) // mostly tools
		lists[kind] = append(lists[kind], c.define(kind, i))
	}
	sane := [4]string{
		`{"name":"sane","description":"works","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`,
		`{"name":"sane","arguments":[{"name":"a","required":true}]}`,
		fmt.Sprintf(`{"uri":"sane://%d/x","name":"sane","size":7,"annotations":{"priority":0.5,"audience":["user"]}}`, seed),
		fmt.Sprintf(`{"uriTemplate":"sane://%d/{x}","name":"sane"}`, seed),
	}
	for kind := range lists {
		lists[kind] = slices.Insert(lists[kind], len(lists[kind])/2, sane[kind])
	}
	s := mcptest.New(mcptest.Config{Tools: lists[0], Prompts: lists[1], Resources: lists[2], Templates: lists[3]})
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		return &mcptest.Reply{Result: fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}],"structuredContent":{"n":%d}}`, seed, seed)}
	})
	return map[string]any{"url": mcptest.Web(t, s).URL + "/mcp"}
}

// seen is what a client has listed.
type seen struct {
	Client, Error                                string
	Tools, Prompts, Resources, Templates, Called []string
}

func (s *seen) lists() [4][]string { return [4][]string{s.Tools, s.Prompts, s.Resources, s.Templates} }

// TestFaultS1_Corpus puts 500 odd definitions of ten servers before clients that
// check what they read. None may lose a list, and all must see the same items.
func TestFaultS1_Corpus(t *testing.T) {
	configured := map[string]any{}
	var calls []string
	for _, seed := range corpusSeeds {
		c := corpus{rand.New(rand.NewPCG(seed, 0))}
		name := fmt.Sprintf("s%d", seed)
		configured[name] = c.site(t, seed)
		calls = append(calls, name+"__sane")
	}
	g := serve(t, configured)
	all := append(throughNode(t, g, calls), throughGo(t, g, "2025-11-25"), throughGo(t, g, "2026-07-28"))
	first := all[0].lists()
	for _, s := range all {
		if s.Error != "" {
			t.Errorf("%s lost its lists: %s", s.Client, s.Error)
			continue
		}
		for kind, list := range s.lists() {
			if !slices.Equal(list, first[kind]) {
				t.Errorf("%s sees %d %s, %s sees %d", s.Client, len(list), [...]string{"tools", "prompts", "resources", "templates"}[kind], all[0].Client, len(first[kind]))
			}
		}
		for _, seed := range corpusSeeds {
			name := fmt.Sprintf("s%d__sane", seed)
			if !slices.Contains(s.Tools, name) || !slices.Contains(s.Prompts, name) ||
				!slices.Contains(s.Resources, fmt.Sprintf("sane://%d/x", seed)) || !slices.Contains(s.Templates, fmt.Sprintf("sane://%d/{x}", seed)) {
				t.Errorf("%s does not see all of s%d", s.Client, seed)
			}
		}
		for i, text := range s.Called {
			if text != fmt.Sprint(corpusSeeds[i]) {
				t.Errorf("%s: the call of %s was answered %q", s.Client, calls[i], text)
			}
		}
	}
	t.Logf("%d tools, %d prompts, %d resources, %d templates before %d clients", len(first[0]), len(first[1]), len(first[2]), len(first[3]), len(all))
	if len(first[0]) < perSeed*len(corpusSeeds)/3 {
		t.Errorf("only %d tools are left", len(first[0]))
	}
}

func throughNode(t *testing.T, g *gateway, calls []string) (all []seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin(t, "node"), append([]string{"corpus.mjs", g.url}, calls...)...)
	cmd.Env, cmd.Stderr = env(t), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("corpus.mjs: %v, after %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		var s seen
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, s)
	}
	if len(all) != 4 {
		t.Fatalf("%d clients of 4 have answered", len(all))
	}
	return all
}

func throughGo(t *testing.T, g *gateway, revision string) (s seen) {
	t.Helper()
	session := dialGo(t, g, revision).(goClient)
	s.Client = "go-sdk " + revision
	fail := func(err error) {
		if err != nil && s.Error == "" {
			s.Error = err.Error()
		}
	}
	if r, err := session.ListTools(t.Context(), nil); err == nil {
		for _, i := range r.Tools {
			s.Tools = append(s.Tools, i.Name)
		}
	} else {
		fail(err)
	}
	if r, err := session.ListPrompts(t.Context(), nil); err == nil {
		for _, i := range r.Prompts {
			s.Prompts = append(s.Prompts, i.Name)
		}
	} else {
		fail(err)
	}
	if r, err := session.ListResources(t.Context(), nil); err == nil {
		for _, i := range r.Resources {
			s.Resources = append(s.Resources, i.URI)
		}
	} else {
		fail(err)
	}
	if r, err := session.ListResourceTemplates(t.Context(), (*mcp.ListResourceTemplatesParams)(nil)); err == nil {
		for _, i := range r.ResourceTemplates {
			s.Templates = append(s.Templates, i.URITemplate)
		}
	} else {
		fail(err)
	}
	return s
}
