package systest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcptest"
)

// R1: the command of a server that was modern now starts a legacy one which
// ends on the probe. One start fails; the next finds the era anew.
func TestFaultR1AMemoryThatTheServerEndsOn(t *testing.T) {
	downgraded := filepath.Join(t.TempDir(), "downgraded")
	command, _, modern := mcptest.Child(mcptest.Config{Era: mcptest.Modern})
	_, _, legacy := mcptest.Child(mcptest.Config{ExitOnProbe: true})
	env := map[string]string{"AFTER": downgraded}
	for name, value := range modern {
		env[name] = value
		if legacy[name] != value {
			env["CHILD"], env["LEGACY"] = name, legacy[name]
		}
	}
	server := quick(map[string]any{"command": "/bin/sh", "args": []string{
		"-c", `if [ -e "$AFTER" ]; then export "$CHILD=$LEGACY"; fi; exec "$0"`, command,
	}, "env": env})
	hub := open(t, servers{"a": server}, everline.Options{})
	st := ready(t, hub, "a", 0)
	if st.Era != "modern" {
		t.Fatalf("era %s", st.Era)
	}
	if err := os.WriteFile(downgraded, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = once(hub, "work", `{"id":"x","exit":true}`)
	now := ready(t, hub, "a", st.Generation)
	if now.Era != "legacy" || now.Generation != st.Generation+2 {
		t.Errorf("era %s, generation %d after %d", now.Era, now.Generation, st.Generation)
	}
	mustCall(t, hub, "echo", `{}`)
}
