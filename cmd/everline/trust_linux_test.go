package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFaultV7TrustAsks answers the question on a terminal.
func TestFaultV7TrustAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "everline.json")
	const text = `{"mcpServers": {"a": {"command": "sh", "args": ["x\u202ey"], "cwd": "in here", "env": {"LD_PRELOAD": "e\u200bvil.so"}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, reply, ends string }{
		{"no", "n\n", "not yes"},
		{"nothing", "\n", "not yes"},
		{"another word", "yesterday\n", "not yes"},
		{"the end of the input", "\x04", "not yes"},
		{"yes", "y\n", "is trusted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			person, program := terminal(t)
			state := filepath.Join(t.TempDir(), "state")
			cmd := exec.CommandContext(t.Context(), "everline", "--state-dir", state, "trust", "everline.json")
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, program, program, program
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			shown := readScreen(t, person, "[y/N]")
			for _, want := range []string{`a: sh "x<U+202E>y"`, `cwd: "in here"`, `env: LD_PRELOAD="e<U+200B>vil.so"`} {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not shown: %s", want, shown)
				}
			}
			if _, err := os.Stat(filepath.Join(state, "trusted.json")); err == nil {
				t.Error("it was trusted before anybody said so")
			}
			if _, err := person.WriteString(c.reply); err != nil {
				t.Fatal(err)
			}
			readScreen(t, person, c.ends)
			failed := cmd.Wait() != nil
			_, err := os.Stat(filepath.Join(state, "trusted.json"))
			if yes := c.ends == "is trusted"; failed == yes || (err == nil) != yes {
				t.Errorf("failed: %v; %v", failed, err)
			}
		})
	}
}
