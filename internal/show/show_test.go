package show

import (
	"slices"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 400 * time.Millisecond: "0.4 s", 27 * time.Second: "27 s", 5 * time.Minute: "5 min",
		3*time.Hour + 7*time.Minute: "3h 7min", 76 * time.Hour: "3d 4h",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestSizesAndLatencies(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 62_400_000: "62 MB", 1_000: "1 kB", 999_999: "999 kB", 2_550_000_000: "2.5 GB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	for ms, want := range map[float64]string{0: "0.0 ms", 0.04: "0.0 ms", 9.94: "9.9 ms", 9.96: "10 ms", 310.2: "310 ms", 12_345: "12 s"} {
		if got := Milliseconds(ms); got != want {
			t.Errorf("Milliseconds(%v) = %q, want %q", ms, got, want)
		}
	}
}

// TestWidths has characters of two columns, of none, and emoji of several parts.
func TestWidths(t *testing.T) {
	const wide, accent, family = "\u6f22\u5b57", "e\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467"
	for s, want := range map[string]int{"": 0, "abc": 3, wide: 4, accent: 1, family: 2} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
	if got := Pad(wide, 6); got != wide+"  " {
		t.Errorf("Pad %q", got)
	}
	if got := PadLeft("7", 3); got != "  7" {
		t.Errorf("PadLeft %q", got)
	}
	for _, c := range []struct {
		s     string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd\u2026"},
		{"abcdef", 1, "\u2026"},
		{"abcdef", 0, ""},
		{wide + wide, 6, wide + "\u2026"},
		{accent + "bc", 2, accent + "\u2026"},
	} {
		if got := Cut(c.s, c.width); got != c.want || Width(got) > c.width {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.s, c.width, got, c.want)
		}
	}
}

func TestFoldAndWrap(t *testing.T) {
	for _, c := range []struct{ got, want []string }{
		{Fold([]string{"aa", "bb", "cc"}, "  ", 6), []string{"aa  bb", "cc"}},
		{Fold([]string{"aa", "bb", "cc"}, "  ", 0), []string{"aa  bb  cc"}},
		{Fold([]string{"aaaaaaaaaa", "b"}, " ", 4), []string{"aaaaaaaaaa", "b"}},
		{Wrap("one two  three", 7), []string{"one two", "three"}},
		{Wrap("abcdefgh", 3), []string{"abc", "def", "gh"}},
		{Wrap("\u6f22\u5b57", 1), []string{"\u6f22\u5b57"}},
		{Wrap("", 5), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTextOfOthers(t *testing.T) {
	if got := Printable("a\x1b[2J\tb"); got != "a<U+001B>[2J\tb" {
		t.Errorf("%q", got)
	}
	if got := Line("a\n\tb\x07"); got != "a b<U+0007>" {
		t.Errorf("%q", got)
	}
	for remedy, want := range map[string]string{"everline serve": "try: everline serve", "run: x": "run: x", "did you mean a?": "did you mean a?"} {
		if got := Advice(remedy); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFaultV8Printable has texts of others as one line, as several, and as words.
func TestFaultV8Printable(t *testing.T) {
	const evil = "a\u202e\u200b\x1b[2J\r\nb\u2066\U000e0041"
	if got, want := Printable(evil), "a<U+202E><U+200B><U+001B>[2J<U+000D><U+000A>b<U+2066><U+E0041>"; got != want {
		t.Errorf("Printable = %q, want %q", got, want)
	}
	if got, want := Lines(evil), "a<U+202E><U+200B><U+001B>[2J\nb<U+2066><U+E0041>"; got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
	for in, want := range map[string]string{
		"-y": "-y", "a b": `"a b"`, "": `""`, `say "x"\`: `"say \"x\"\\"`, "a\nb": `"a\nb"`, "\u202eevil": `"<U+202E>evil"`, "$(rm)": `"$(rm)"`,
	} {
		if got := Quoted(in); got != want {
			t.Errorf("Quoted(%q) = %s, want %s", in, got, want)
		}
	}
}
