package slot

import (
	"slices"
	"testing"
	"time"
)

// A server that nobody has disabled is not said to be disabled when it ends
// together with something else.
func TestFaultU16(t *testing.T) {
	for _, c := range []struct {
		name    string
		session uint64
		end     func(b *bench)
		want    []string
	}{
		{"shutdown", 0, func(b *bench) { b.must(b.Close(b.within(time.Minute))) }, []string{"ending: everline shuts down"}},
		{"session", 7, func(b *bench) { b.must(b.Close(b.within(time.Minute))) }, []string{"ending: its client's session is over"}},
		{"removed", 0, func(b *bench) { b.must(b.Want(b.within(time.Minute), false)) }, []string{"ending: it is not configured any more"}},
		{"disabled", 0, func(b *bench) { b.must(b.Disable(b.within(time.Minute))) }, []string{"disabled"}},
		{"disabled before the shutdown", 0, func(b *bench) {
			b.must(b.Disable(b.within(time.Minute)))
			b.must(b.Close(b.within(time.Minute)))
		}, []string{"disabled"}},
		{"removed while disabled", 0, func(b *bench) {
			b.must(b.Disable(b.within(time.Minute)))
			b.must(b.Want(b.within(time.Minute), false))
		}, []string{"disabled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, Options{Session: c.session}, newServer("a"), 0, func(b *bench) {
				b.seen("connected")
				before := len(b.said())
				c.end(b)
				var got []string
				for _, e := range b.said()[before:] {
					got = append(got, e.String())
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("told %q, want %q", got, c.want)
				}
			})
		})
	}
}
