package tracing

import (
	"strings"
	"testing"
	"time"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		parent:                                              true,
		"01" + parent[2:] + "-and-what-comes":               true,  // of a version to come
		"01" + parent[2:] + "and":                           false, // it goes on without a dash
		parent + "-x":                                       false, // this version has nothing more
		"ff" + parent[2:]:                                   false,
		strings.ToUpper(parent):                             false,
		strings.Replace(parent, "-", "_", 1):                false,
		"00-" + strings.Repeat("0", 32) + parent[35:]:       false,
		parent[:36] + strings.Repeat("0", 16) + parent[52:]: false,
		"": false, parent[:54]: false, parent[:53] + "0g": false,
	} {
		c, got := Parse([]byte(text))
		if got != ok || got != c.Valid() {
			t.Errorf("%q: %v", text, got)
		}
		if ok && text == parent && (c.String() != text || string(c.Text()) != `"`+text+`"` || !c.Sampled()) {
			t.Errorf("%q became %q", text, c.String())
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Parse([]byte(parent)) }); n != 0 {
		t.Errorf("reading one allocates %v times", n)
	}
}

func TestChild(t *testing.T) {
	c, _ := Parse([]byte(parent))
	child := c.Child()
	if child.Trace != c.Trace || child.Span == c.Span || child.Sampled() || !child.Valid() {
		t.Errorf("below %s: %s", c.String(), child.String())
	}
	root, other := Context{}.Child(), Context{}.Child()
	if !root.Valid() || root.Trace == other.Trace {
		t.Errorf("roots: %s, %s", root.String(), other.String())
	}
}

// Whatever comes is read or refused, and what is read is written the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(parent))
	f.Add([]byte("cc" + parent[2:] + "-what-the-future-will-be-like"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, ok := Parse(text)
		if !ok {
			return
		}
		if got := c.String(); got[3:] != string(text[3:textSize]) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(parent)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Parse(text)
	}
}

// What is begun before the end and ended after it is left out, and what is nil
// records nothing.
func TestTraceEnds(t *testing.T) {
	var none *Trace
	none.Waited(time0, time0.Add(second), "turn")
	none.Settle(nil)
	none.Failed("", "")
	tr := New(Context{}.Child(), Context{})
	tr.Waited(time0, time0.Add(second/1000), "turn") // too short to be of interest
	tr.Waited(time0, time0.Add(second), "turn")
	late := tr.Below(&tr.Root, Client, "late")
	tr.End(sink{})
	late.End(time0)
	if all := tr.Spans(); len(all) != 1 || all[0].For != "turn" || all[0].Parent != tr.Root.Own {
		t.Errorf("%+v", all)
	}
}

type sink struct{}

func (sink) Begin(Context, string) *Trace { return nil }
func (sink) End(*Trace)                   {}

const second = time.Second

var time0 = time.Unix(1_000_000, 0)
