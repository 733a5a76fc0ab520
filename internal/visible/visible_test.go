package visible

import (
	"encoding/json"
	"testing"
)

// TestFaultV8Text has what hides in a text, or moves what stands there.
func TestFaultV8Text(t *testing.T) {
	for in, want := range map[string]string{
		"plain, \u00e9\u6f22 \n\t": "plain, \u00e9\u6f22 \n\t",
		"a\u202eb":                 "a<U+202E>b",
		"\u2066\u2069":             "<U+2066><U+2069>",
		"a\u200bb\u2060\ufeff":     "a<U+200B>b<U+2060><U+FEFF>",
		"\U000e0041":               "<U+E0041>",
		"\u009b31m\x1b[0m\r\x7f":   "<U+009B>31m<U+001B>[0m<U+000D><U+007F>",
		"x\ufe0f\U000e0100":        "x<U+FE0F><U+E0100>",
		"\u3164\u115f\u034f":       "<U+3164><U+115F><U+034F>",
		"\xff\u2028":               "<0xFF><U+2028>",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		escaped := JSON(raw)
		for _, r := range string(escaped) {
			if Unseen(r) {
				t.Errorf("JSON(%q) = %q", raw, escaped)
			}
		}
		var before, after string
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal(escaped, &after) != nil || before != after {
			t.Errorf("JSON(%q) says %q, want %q", raw, after, before)
		}
	}
}

// TestFaultV8Screen lets our own orders through, and nobody else's.
func TestFaultV8Screen(t *testing.T) {
	for in, want := range map[string]string{
		"\r1.2 s \x1b[32mok\x1b[0m\x1b[K": "\r1.2 s \x1b[32mok\x1b[0m\x1b[K",
		"a\r\nb\n":                        "a\r\nb\n",
		"evil\rgood":                      "evil<U+000D>good",
		"\x1b[2J\x1b]0;x\x07\x1b":         "<U+001B>[2J<U+001B>]0;x<U+0007><U+001B>",
		"a\u202e\u2066\u200b\u0085\xe2":   "a<U+202E><U+2066><U+200B><U+0085><0xE2>",
	} {
		if got := string(Screen([]byte(in))); got != want {
			t.Errorf("Screen(%q) = %q, want %q", in, got, want)
		}
	}
}
