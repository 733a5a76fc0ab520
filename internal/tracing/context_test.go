package tracing

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
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

// Who ends after its trace is given to the recorder by itself. What is nil records
// nothing.
func TestATraceEnds(t *testing.T) {
	var none *Trace
	none.Waited(time0, time0.Add(second), "turn")
	none.Failed(nil)
	if none.Settle(&event.CallFacts{Sends: 2}) != [16]byte{} || none.ID() != [16]byte{} {
		t.Error("nothing has an id")
	}
	own := Context{}.Child()
	tr, to := New(own, Context{}, time0), &sink{}
	tr.Waited(time0, time0.Add(second/1000), "turn") // too short to be of interest
	tr.Waited(time0, time0.Add(second), "turn")
	early, late := tr.Below(nil, Client), tr.Below(nil, Client)
	early.End(time0)
	if id := tr.Settle(&event.CallFacts{Sends: 1}); id != own.Trace {
		t.Errorf("id %x", id)
	}
	tr.Over(time0)
	tr.End(to)
	late.End(time0)
	tr.Settle(&event.CallFacts{Sends: 2})
	tr.Failed(&fault.Fault{State: "away"})
	if to.ended != 1 || to.late != 1 || len(tr.Spans) != 2 || tr.Spans[0].For != "turn" || tr.Spans[0].Parent() != tr.Root.Own() {
		t.Errorf("%+v, %d late", tr.Spans, to.late)
	}
	if tr.Facts.Sends != 1 || tr.State != "" {
		t.Error("what happens behind its end is in it")
	}
}

// Of a request that the sampler left out nothing is recorded, unless it asks for that
// while it is not over, or has taken long. Nobody else is told of it.
func TestAChance(t *testing.T) {
	for took, wanted := range map[time.Duration]bool{0: false, slow: false, slow + 1: true} {
		c := Perhaps(t.Context(), time0)
		if tr, _ := From(c); tr != nil {
			t.Error("it has a trace before anything has happened")
		}
		if tr := c.Over(time0.Add(took)); (tr != nil) != wanted {
			t.Errorf("after %s: %v", took, tr)
		}
		if Late(c) != nil || c.Begun() != nil {
			t.Error("a trace is begun that nobody ends")
		}
	}
	c := Perhaps(t.Context(), time0)
	below, cancel := context.WithCancel(c)
	defer cancel()
	tr := Late(below)
	if tr == nil || tr.Sampled() || tr.Began != time0 || tr.Caller.Valid() || Late(c) != tr {
		t.Errorf("%+v", tr)
	}
	if send := tr.Below(nil, Client); send.Tells() || string(send.Told([]byte("{}"))) != "{}" {
		t.Error("a server is told of a trace that was begun late")
	}
	if got, _ := From(below); got != tr || c.Over(time0) != tr {
		t.Error("its trace is not that which was begun")
	}
	if Late(t.Context()) != nil {
		t.Error("a request without a chance has one")
	}
	for _, f := range []event.CallFacts{{Sends: 2}, {Parked: true}, {Result: event.CallUnknown}, {Took: slow + 1}} {
		if !Interesting(&f) {
			t.Errorf("%+v is of no interest", f)
		}
	}
	if Interesting(&event.CallFacts{Sends: 1, Took: slow}) {
		t.Error("everything is of interest")
	}
}

type sink struct{ ended, late int }

func (*sink) Begin(Context, time.Time) (*Trace, bool) { return nil, false }
func (s *sink) End(*Trace)                            { s.ended++ }
func (s *sink) Late(*Span)                            { s.late++ }
func (*sink) Durations() *Durations                   { return nil }

// A context is of a trace, or of a span below it.
func TestFrom(t *testing.T) {
	if tr, s := From(t.Context()); tr != nil || s != nil {
		t.Error("a context without a trace has one")
	}
	tr := New(Context{}.Child(), Context{}, time0)
	ctx := tr.In(t.Context())
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	if got, s := From(child); got != tr || s != nil {
		t.Error("the root is not found")
	}
	below := tr.Below(nil, Client)
	if got, s := From(With(child, below)); got != tr || s != below {
		t.Error("the span is not found")
	}
	below.Follow(Context{Trace: [16]byte{1}, Span: [8]byte{2}})
	if below.Parent() != (Context{Trace: tr.id, Span: tr.own}) {
		t.Error("a span follows one of another trace")
	}
	if below.Follow(Context{Trace: tr.id, Span: [8]byte{2}}); below.Parent().Span != [8]byte{2} {
		t.Error("a span does not follow one of its trace")
	}
}

const second = time.Second

var time0 = time.Unix(1_000_000, 0)
