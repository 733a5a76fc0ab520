package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/everline/everline/config"
)

// TestWritten shows the files of clients with their references, in the words of
// each, and tells what is read with them.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "side"), []byte("A=1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text, arg string
		reads           []string
	}{
		{"everline.json", `{"mcpServers": {"s": {"command": "c", "args": ["${file:side}"], "envFile": "side"}}}`, "${file:side}", []string{"side", "side"}},
		{"mcp.json", `{"inputs": [{"id": "x", "type": "promptString", "default": "evil"}], "servers": {"s": {"command": "c", "args": ["${input:x}"]}}}`, "${input:x}", nil},
		{"opencode.json", `{"mcp": {"s": {"type": "local", "command": ["c", "{file:side}"]}}}`, "{file:side}", []string{"side"}},
	} {
		file := filepath.Join(dir, c.name)
		written, err := config.Options{References: config.AsWritten}.Parse(file, []byte(c.text))
		if err != nil || len(written.Servers) != 1 || !slices.Equal(written.Servers[0].Args, []string{c.arg}) || len(written.SideFiles()) != 0 {
			t.Errorf("%s: %+v, %v", c.name, written, err)
		}
		cfg, err := config.Parse(file, []byte(c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var reads []string
		for _, side := range cfg.SideFiles() {
			reads = append(reads, side.Named)
		}
		if !slices.Equal(reads, c.reads) {
			t.Errorf("%s reads %q", c.name, reads)
		}
	}
}
