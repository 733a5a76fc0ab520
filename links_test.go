package everline

import (
	"fmt"
	"strings"
	"testing"
)

// What is remembered is bounded, and what was used last is kept.
func TestFaultS5_MemoryIsBounded(t *testing.T) {
	var l links
	pad := strings.Repeat("x", 1000)
	for i := range 10_000 {
		l.note("a", 7, fmt.Appendf(nil, `{"uri":"u://%d/%s"}`, i, pad))
	}
	size := 0
	for _, m := range []map[link]string{l.recent, l.older} {
		for k := range m {
			size += len(k.uri)
		}
	}
	if size > 2*maxLinkBytes+4000 || size < maxLinkBytes/2 {
		t.Errorf("%d bytes are remembered", size)
	}
	if to, last := l.server(7, "u://9999/"+pad); to != "a" || last != "a" {
		t.Errorf("the newest link is %q, %q", to, last)
	}
	l.note("b", 8, []byte(`{"uri":"u://9999/`+pad+`"}`))
	if to, last := l.server(7, "u://9999/"+pad); to != "a" || last != "b" {
		t.Errorf("for the first client the link is %q, for others %q", to, last)
	}
	l.note("c", 0, []byte(`{"uri":"u://long/`+strings.Repeat("y", 5000)+`"}`))
	if _, last := l.server(0, "u://long/"+strings.Repeat("y", 5000)); last != "" {
		t.Error("a URI of 5000 bytes is remembered")
	}
}
