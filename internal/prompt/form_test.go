package prompt

import (
	"strings"
	"testing"
)

const everyField = `{"message":"Who are\u202e you?","requestedSchema":{"type":"object","properties":{
	"name":{"type":"string","title":"Name","minLength":2,"maxLength":4},
	"mail":{"type":"string","format":"email"},
	"when":{"type":"string","format":"date"},
	"age":{"type":"integer","minimum":1,"maximum":120},
	"size":{"type":"number"},
	"sure":{"type":"boolean","default":true},
	"colour":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},
	"shape":{"type":"string","oneOf":[{"const":"c","title":"Circle"},{"const":"s","title":"Square"}]},
	"tags":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},"minItems":1}
	},"required":["name","age","colour"]}}`

// U12: call fills in forms on the terminal: each field is checked, in the order
// of the schema, and numbers go on as they were typed.
func TestFaultU12FormsAreFilledIn(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"Ann\ra@b.c\r2026-07-28\r30\r1.50\rno\rGreen\r2\r1, B\r\r":                                           `{"action":"accept","content":{"name":"Ann","mail":"a@b.c","when":"2026-07-28","age":30,"size":1.50,"sure":false,"colour":"g","shape":"s","tags":["a","b"]}}`,
		"A\rAnnie\rAnn\rno mail\r\r31.2.\r\r\rx\r0\r121\r1.5\r1\rnone\r\r\r\rblue\r1\r\rc\r\r\rmaybe\ryes\r": `{"action":"accept","content":{"name":"Ann","age":1,"sure":true,"colour":"r"}}`,
		"Ann\r\r\r30\r\r\rr\r\r\rno\r":     `{"action":"decline"}`,
		"Ann\r\r\r30\r\r\rr\r\r\rcancel\r": `{"action":"cancel"}`,
		"Ann\r\x03":                        `{"action":"cancel"}`,
		"Ann\r":                            `{"action":"cancel"}`,
		"":                                 `{"action":"cancel"}`,
	} {
		q, shown, raw := typing(keys)
		if got := string(q.Fill("srv", []byte(everyField))); got != want || *raw != 0 {
			t.Errorf("%q: %s, raw %d, shown\n%s", keys, got, *raw, shown)
		}
		if strings.Contains(shown.String(), "\u202e") || !strings.Contains(shown.String(), "srv asks: Who are") {
			t.Errorf("shown %q", shown)
		}
	}
}

// Forms of other shapes: none without fields, and nothing that cannot be read.
func TestFaultU12FormsThatAskForNothing(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`{"message":"Go on?"}`: `{"action":"accept","content":{}}`,
		`{"message":"Go on?","requestedSchema":{"type":"object","properties":{}}}`:                    `{"action":"accept","content":{}}`,
		`{"message":"Go on?","requestedSchema":{"properties":{"x":{"type":"string","default":"d"}}}}`: `{"action":"accept","content":{"x":"d"}}`,
		`{"message":1}`: `{"action":"cancel"}`,
		`{"message":"x","requestedSchema":{"properties":[]}}`: `{"action":"cancel"}`,
	} {
		q, shown, _ := typing("\r\r\r")
		if got := string(q.Fill("srv", []byte(params))); got != want {
			t.Errorf("%s: %s, shown %s", params, got, shown)
		}
	}
}
