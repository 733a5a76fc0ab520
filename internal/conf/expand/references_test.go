package expand

import (
	"strings"
	"testing"
)

func TestInterpolation(t *testing.T) {
	p := References{
		Env: func(name string) (string, bool) {
			v, ok := map[string]string{"A": "1", "E": "", "D": "${A}"}[name]
			return v, ok
		},
		Read: func(path string) (string, error) { return "<" + path + ">", nil },
	}
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{"$", "$"},
		{"$A", "$A"},
		{"$$", "$"},
		{"$${A}", "${A}"},
		{"a$$b$$", "a$b$"},
		{"${A}${A}", "11"},
		{"${env:A}", "1"},
		{"${E}", ""},
		{"${D}", "${A}"},
		{"${E:-d}", "d"},
		{"${A:-d}", "1"},
		{"${X:-}", ""},
		{"${X:-${A}}", "1"},
		{"${X:-${Y:-z}}!", "z!"},
		{"${X:-a:-b}", "a:-b"},
		{"${A:?no}", "1"},
		{"${file:x/y}", "<x/y>"},
		{"${env:X:-d}", "d"},
	} {
		if got, err := p.Expand(c.in); err != nil || got != c.want {
			t.Errorf("expand(%q) = %q, %v, want %q", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"${X}", "${", "${A", "${}", "${1A}", "${A:}", "${A:+x}", "${X:?}", "${E:?m}", "${input:k}", "${X:-${Y}}", strings.Repeat("${X:-", 20) + strings.Repeat("}", 20)} {
		if got, err := p.Expand(in); err == nil {
			t.Errorf("expand(%q) = %q, want an error", in, got)
		}
	}
}

func FuzzInterpolate(f *testing.F) {
	for _, s := range []string{"${A}", "$$", "${A:-${B}}", "${file:x}", "a${", "}${env:A:?b}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := References{Env: func(name string) (string, bool) { return "x", name == "A" }, Read: func(p string) (string, error) { return p, nil }}
		got, err := p.Expand(text)
		if err == nil && !strings.Contains(text, "$") && got != text {
			t.Fatalf("%q became %q", text, got)
		}
		quoted := strings.ReplaceAll(text, "$", "$$")
		if back, err := p.Expand(quoted); err != nil || back != text {
			t.Fatalf("%q quoted and expanded is %q, %v", text, back, err)
		}
	})
}
