package catalog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{` {"b" : 1 , "a":[ 1.0, 1e0, -0, 0.5e-9, 1E21, true, null ]} `, `{"a":[1,1,0,5e-10,1e+21,true,null],"b":1}`},
		{`{"\u0061":"\u00e9\/\u000a\u000b\""}`, `{"a":"é/\n\u000b\""}`},
		// The order of RFC 8785 section 3.2.3, by UTF-16 code units.
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`, "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"\U0001f600\":5,\"\ufb33\":3}"},
		{`[333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001]`, `[333333333.3333333,4.5,0.002,1e-27]`},
		{"\"\u2028<>&\"", "\"\u2028<>&\""},
		// What RFC 8785 would lose stays as it is written.
		{`[1152921504606846977, 1152921504606846976, 1e400]`, `[1152921504606846977,1152921504606846976,1e400]`},
		{`"\ud800"`, `"\ud800"`},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`},
	} {
		got, ok := Canonical([]byte(c.input))
		if !ok || string(got) != c.want {
			t.Errorf("%s became\n%s, want\n%s", c.input, got, c.want)
		}
		again, _ := Canonical(got)
		if string(again) != string(got) {
			t.Errorf("%s is not its own canonical form: %s", got, again)
		}
	}
	if _, ok := Canonical([]byte(`{"a":}`)); ok {
		t.Error("broken JSON has a canonical form")
	}
	deep := strings.Repeat("[", 5000) + " 1.0 " + strings.Repeat("]", 5000)
	if got, ok := Canonical([]byte(deep)); !ok || !json.Valid(got) {
		t.Error("a deep text has no canonical form")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1.50,"\u0041"],"a":null}`, `[-0,1e9,12345678901234567890]`, `"\ud83d\ude00\ud800"`, `{"":{},"":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		form, ok := Canonical(raw)
		if ok != json.Valid(raw) {
			t.Fatalf("%q: %v", raw, ok)
		}
		if !ok {
			return
		}
		again, ok := Canonical(form)
		if !ok || string(again) != string(form) {
			t.Fatalf("%q became %q, and that %q", raw, form, again)
		}
		var a, b any
		if json.Unmarshal(raw, &a) == nil && (json.Unmarshal(form, &b) != nil || !reflect.DeepEqual(a, b)) {
			t.Fatalf("%q became %q, which means something else", raw, form)
		}
	})
}

func TestVisible(t *testing.T) {
	for input, want := range map[string]string{
		"plain text, é, 漢字, \n\t": "plain text, é, 漢字, \n\t",
		"a\u200bb":                "a<U+200B>b",
		"\u202eevil\u202c":        "<U+202E>evil<U+202C>",
		"\U000e0041\ufe0f\u00a0":  "<U+E0041><U+FE0F><U+00A0>",
		"\u3164\u115f\u2800":      "<U+3164><U+115F><U+2800>",
		"\x1b[31m\r\x00":          "<U+001B>[31m<U+000D><U+0000>",
		"\xff!":                   "<0xFF>!",
	} {
		if got := Visible(input); got != want {
			t.Errorf("%q shows as %q, want %q", input, got, want)
		}
	}
}
