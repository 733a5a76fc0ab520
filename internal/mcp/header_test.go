package mcp

import "testing"

func TestEncodeHeader(t *testing.T) {
	for input, want := range map[string]string{
		"get_weather":        "get_weather",
		"file:///a b/c.json": "file:///a b/c.json",
		"a\tb":               "a\tb",
		"":                   "",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"\tx":                "=?base64?CXg=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"=?base64?literal":   "=?base64?literal",
		"x\x7f":              "=?base64?eH8=?=",
	} {
		if got := EncodeHeader(input); got != want {
			t.Errorf("%q: got %q, want %q", input, got, want)
		}
	}
}

func TestHeaderEncoding(t *testing.T) {
	for _, v := range []string{"plain", "a b", "", "é", " x", "x ", "a\nb", "=?base64?x?=", "tab\there"} {
		enc := EncodeHeader(v)
		if got, ok := DecodeHeader(enc); !ok || got != v {
			t.Errorf("%q became %q and then %q", v, enc, got)
		}
	}
	for _, bad := range []string{"\x01", "é", "\x7f", "=?base64?@?="} {
		if _, ok := DecodeHeader(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}
