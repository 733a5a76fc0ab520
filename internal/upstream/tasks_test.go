package upstream

import (
	"bytes"
	"fmt"
	"testing"
)

// Of a task that nobody listens to the newest news is kept, of so many tasks, and told
// once, before anything newer.
func TestEarlyNewsAreKeptWithABound(t *testing.T) {
	var e earlyNews
	for i := range maxEarly + 1 {
		id := fmt.Sprint(i)
		if !e.keep(id, []byte("old")) || !e.keep(id, []byte("new "+id)) {
			t.Fatal("news that nobody hears are not kept")
		}
	}
	if e.keep("big", bytes.Repeat([]byte("x"), maxEarlyNews+1)) || len(e.kept) != maxEarly || len(e.order) != maxEarly {
		t.Errorf("%d are kept, %d in order", len(e.kept), len(e.order))
	}
	told := ""
	tell := func(news []byte) { told += string(news) + ";" }
	for _, id := range []string{"0", "1", "1", "2"} {
		e.listen(id, tell)
	}
	if told != "new 1;new 2;" {
		t.Errorf("told: %s", told)
	}
	if e.keep("1", []byte("newer")) {
		t.Error("news that somebody hears are kept")
	}
	e.leave("1")
	if !e.keep("1", []byte("later")) {
		t.Error("news that nobody hears any more are not kept")
	}
}
