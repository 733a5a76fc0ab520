package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/config"
)

// TestWhatIsCheckedIsWhatIsParsed has a file that is another while it is read:
// the text on the disk is trusted before and after, and the one that was read is
// not.
func TestWhatIsCheckedIsWhatIsParsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "conf"))
	state := filepath.Join(dir, "state")
	const path, good, evil = "everline.json", `{"mcpServers": {"a": {"command": "good"}}}`, `{"mcpServers": {"a": {"command": "evil"}}}`
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	looked, err := Look(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Grant(state, looked); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(state, nil, []string{path}, Texts{}, nil, ""); err != nil {
		t.Fatalf("what is trusted is refused: %v", err)
	}
	if _, err := Load(state, nil, []string{path}, Texts{path: []byte(evil)}, nil, ""); err == nil || !strings.Contains(err.Error(), "has changed since it was trusted") {
		t.Errorf("what was read is not what is trusted: %v", err)
	}
	cfg, err := Load(state, []string{path}, []string{path}, Texts{path: []byte(evil)}, nil, "")
	if err != nil || cfg.Servers[0].Command != "evil" {
		t.Errorf("a file that was named: %v", err)
	}
}

// TestFaultV2FoundFilesNeedTrust has a file that was found in a repository of some
// kind, or in a folder that is none, as of an archive.
func TestFaultV2FoundFilesNeedTrust(t *testing.T) {
	for _, marker := range append([]string{""}, markers...) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "conf"))
		path, state := filepath.Join(dir, "everline.json"), filepath.Join(dir, "state")
		if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "x"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, marker), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(state, nil, []string{path}, Texts{}, nil, ""); err == nil || !strings.Contains(err.Error(), "is not trusted: it came with") {
			t.Errorf("with %q beside it: %v", marker, err)
		}
		if _, err := Load(state, []string{path}, []string{path}, Texts{}, nil, ""); err != nil {
			t.Errorf("with %q beside it, and named: %v", marker, err)
		}
	}
}

// TestTrustIsKept: an edit of what is trusted is trusted, and no other.
func TestTrustIsKept(t *testing.T) {
	dir := t.TempDir()
	path, state := filepath.Join(dir, "everline.json"), filepath.Join(dir, "state")
	text := func(command string) []byte { return []byte(`{"mcpServers": {"a": {"command": "` + command + `"}}}`) }
	if err := Keep(state, path, nil, text("one")); err != nil {
		t.Fatal(err)
	}
	if err := Keep(state, path, text("one"), text("two")); err != nil {
		t.Error(err)
	}
	if err := Keep(state, path, text("other"), text("three")); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("an edit of what is not trusted: %v", err)
	}
	known, err := readRecord(state)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyOf(path)
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]bool{"one": true, "two": true, "three": false} {
		cfg, err := config.Parse(path, text(command), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range digests(text(command), cfg, path) {
			if isTrusted(known[key], d) != want {
				t.Errorf("%s: trusted %v, want %v", command, !want, want)
			}
		}
	}
}
