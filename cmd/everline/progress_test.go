package main

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress has a command print while the line is up: the line is taken away
// before, and at the end, and nothing is left to end.
func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		p := newProgress(func(text string) { seen = append(seen, "line "+text) }, func() string { return "waiting" })
		time.Sleep(2*progressEvery + time.Millisecond)
		p.print(func() { seen = append(seen, "data") })
		p.stop()
		p.stop()
		if want := []string{"line waiting", "line waiting", "line ", "data", "line "}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
	})
}

// TestNoProgress: where there is no terminal nothing is shown, and what is
// printed is printed all the same.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	var talk strings.Builder
	a := &app{streams: &streams{stderr: &talk}}
	p := a.progress(func() string { panic("asked for a text that nobody sees") })
	printed := false
	p.print(func() { printed = true })
	p.stop()
	if !printed || talk.Len() > 0 {
		t.Errorf("printed %v, told %q", printed, talk.String())
	}
}
