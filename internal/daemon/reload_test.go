package daemon

import (
	"testing"

	"github.com/everline/everline/config"
)

// parse is a configuration as a file has it.
func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("everline.json", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestReloadAppliesWhatItChecked has a file that is written while a reload looks
// at it: what would not pass the check is not applied instead of what did.
func TestReloadAppliesWhatItChecked(t *testing.T) {
	t.Parallel()
	const one = `{"mcpServers": {"a": {"command": "x", "disabled": true}}}`
	d, err := start(t.Context(), parts{Options: quiet, found: Loaded{Config: parse(t, one)}, stateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(t.Context())
	reads := []string{ // each is what the file has by then
		`{"mcpServers": {"a": {"command": "x", "disabled": true}, "b": {"command": "y", "disabled": true}}}`,
		`{"mcpServers": {}}`,
	}
	d.load = func() (*config.Config, error) {
		text := reads[0]
		reads = reads[min(1, len(reads)-1):]
		return parse(t, text), nil
	}
	d.reloadSeen(t.Context())
	if n := len(d.hub.Config().Servers); n != 2 {
		t.Errorf("%d servers after the first reload, want 2", n)
	}
	d.reloadSeen(t.Context())
	if n := len(d.hub.Config().Servers); n != 2 {
		t.Errorf("%d servers after a file that may be half saved, want 2", n)
	}
	if _, err := d.reload(t.Context(), false); err != nil {
		t.Error(err)
	}
	if n := len(d.hub.Config().Servers); n != 0 {
		t.Errorf("%d servers after a reload by hand, want none", n)
	}
}
