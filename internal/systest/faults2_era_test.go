package systest

import (
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcptest"
)

// W4: a process of both eras that is slow to start, and writes to stderr first,
// is spoken to in the old era once, and in the new one from the next generation
// on, be that after a reconnect or after a restart of everline.
func TestFaultW4SlowStart(t *testing.T) {
	t.Parallel()
	slow := child(mcptest.Config{Era: mcptest.Dual, StartDelay: 2500 * time.Millisecond, StderrBytes: 1 << 10})
	state := t.TempDir()
	cfg := servers{"a": slow}.config(t)
	hub, err := everline.Open(within(t), cfg, everline.Options{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	first := ready(t, hub, "a", 0)
	if first.Era != "legacy" {
		t.Errorf("the first generation is %s", first.Era)
	}
	mustCall(t, hub, "echo", `{}`)
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if st := ready(t, hub, "a", first.Generation); st.Era != "modern" {
		t.Errorf("after a late answer the next generation is %s", st.Era)
	}
	mustCall(t, hub, "echo", `{}`)
	if err := hub.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	hub = open(t, servers{"a": slow}, everline.Options{StateDir: state})
	if st := ready(t, hub, "a", 0); st.Era != "modern" {
		t.Errorf("after a restart it is %s", st.Era)
	}
	mustCall(t, hub, "echo", `{}`)
}
