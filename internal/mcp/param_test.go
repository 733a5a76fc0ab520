package mcp

import (
	"reflect"
	"strings"
	"testing"
)

func TestHeaderParams(t *testing.T) {
	tests := []struct {
		schema string
		want   []HeaderParam
		bad    string
	}{
		{`{"properties":{"a":{"type":"string"}}}`, nil, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"Region"}}}`, []HeaderParam{{[]string{"a"}, "Region"}}, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-\u0068eader":"Region"}}}`, []HeaderParam{{[]string{"a"}, "Region"}}, ""},
		{
			`{"properties":{"o":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"},"c":{"type":"boolean","x-mcp-header":"C"}}}}}`,
			[]HeaderParam{{[]string{"o", "b"}, "B"}, {[]string{"o", "c"}, "C"}},
			"",
		},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"N"}}}`, nil, "no string, integer or boolean"},
		{`{"properties":{"a":{"type":"string","default":{"x-mcp-header":"no"}}}}`, nil, ""},
		{`{"properties":{"x-mcp-header":{"type":"string"}}}`, nil, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, nil, "not a header name"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, nil, "not a header name"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}`, nil, "not a header name"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`, nil, "not a header name"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, nil, "not a header name"},
		{`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`, nil, "no string, integer"},
		{`{"properties":{"a":{"x-mcp-header":"A"}}}`, nil, "no string, integer"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, nil, "more than once"},
		{`{"x-mcp-header":"A"}`, nil, "reached"},
		{`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, nil, "reached"},
		{`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, nil, "reached"},
		{`{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`, nil, "reached"},
		{`{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, nil, "reached"},
	}
	for _, tt := range tests {
		schema := `{"type":"object",` + tt.schema[1:]
		got, problem := HeaderParams([]byte(schema))
		if !reflect.DeepEqual(got, tt.want) || (tt.bad == "") != (problem == "") || !strings.Contains(problem, tt.bad) {
			t.Errorf("%s: %v %q", tt.schema, got, problem)
		}
	}
}

func TestHeaderParamValue(t *testing.T) {
	for _, tt := range []struct {
		arguments, value string
		ok, equal        bool
	}{
		{`{"a":"x y"}`, "x y", true, true},
		{`{"a":42.0}`, "42", true, true},
		{`{"a":-7}`, "-7", true, true},
		{`{"a":true}`, "true", true, true},
		{`{"a":12345678901234567890}`, "12345678901234567890", true, false},
		{`{"a":null}`, "", false, false},
		{`{"a":{}}`, "", false, false},
		{`{"a":[1]}`, "", false, false},
		{`{}`, "", false, false},
	} {
		p := HeaderParam{Path: []string{"a"}, Name: "A"}
		value, ok := p.Value([]byte(tt.arguments))
		if ok != tt.ok || ok && value != tt.value {
			t.Errorf("%s: %q %v", tt.arguments, value, ok)
		}
		if raw := strings.TrimSuffix(strings.TrimPrefix(tt.arguments, `{"a":`), "}"); ok && p.Equal(value, []byte(raw)) != tt.equal {
			t.Errorf("%s: equal is not %v", tt.arguments, tt.equal)
		}
	}
}
