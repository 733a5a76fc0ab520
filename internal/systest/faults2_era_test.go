package systest

import (
	"context"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcptest"
)

// W4: a process of both eras that is slow to start is spoken to in the old era
// once, and in the new one from the next generation on. What rested on silence
// is not remembered over a restart of everline either.
func TestFaultW4SlowStart(t *testing.T) {
	slow := child(mcptest.Config{Era: mcptest.Dual, StartDelay: 2500 * time.Millisecond})
	state := t.TempDir()
	cfg := servers{"a": slow}.config(t)
	hub, err := everline.Open(within(t), cfg, everline.Options{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	if st := ready(t, hub, "a", 0); st.Era != "legacy" {
		t.Errorf("the first generation is %s", st.Era)
	}
	mustCall(t, hub, "echo", `{}`)
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	hub = open(t, servers{"a": slow}, everline.Options{StateDir: state})
	first := ready(t, hub, "a", 0) // silence again: nothing was kept
	mustCall(t, hub, "echo", `{}`)
	if err := hub.Reconnect(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if st := ready(t, hub, "a", first.Generation); st.Era != "modern" {
		t.Errorf("after a late answer the next generation is %s", st.Era)
	}
	mustCall(t, hub, "echo", `{}`)
}
