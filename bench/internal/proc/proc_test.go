package proc

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	// The name may hold spaces and brackets.
	line := []byte(`42 (a) b (c) S 7 42 42 0 -1 4194560 99 0 0 0 130 20 4 5 20 0 9 0 12345 1000000 300 18446744073709551615`)
	s, err := parseStat(42, line)
	if err != nil {
		t.Fatal(err)
	}
	want := Stat{PID: 42, Parent: 7, CPU: 1500 * time.Millisecond, Reaped: 90 * time.Millisecond, Threads: 9}
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if _, err := parseStat(1, []byte("1 (x) S 1")); err == nil {
		t.Error("a cut line was read")
	}
}
