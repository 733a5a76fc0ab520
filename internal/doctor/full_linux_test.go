package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/internal/admin"
)

// TestFaultS12 has a state folder in which files can be made and nothing be
// written, as on a full file system, and an everline that has found that out.
func TestFaultS12(t *testing.T) {
	// The doctor removes what it has made: the link, and not what is behind it.
	link := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", link); err != nil {
		t.Fatal(err)
	}
	full := func(string, string) (*os.File, error) { return os.OpenFile(link, os.O_WRONLY, 0) }
	got, failed := examine(t, Options{Config: parse(t, `{}`), CreateTemp: full})
	if f := got["state"]; f.Verdict != Fail || !failed || !strings.Contains(f.Text, "no space left") || !strings.Contains(f.Remedy, "make room") {
		t.Errorf("a full file system: %+v", f)
	}
	if got, _ := examine(t, Options{Config: parse(t, `{}`)}); got["state"].Verdict != OK {
		t.Errorf("one with room: %+v", got["state"])
	}
	running := &admin.Status{Problems: []admin.Problem{
		{About: "state", Server: "a", Text: "the catalog cannot be kept", Remedy: "make room", Since: time.Now()},
		{About: "pins", Text: "the lock file cannot be used", Remedy: "everline reload", Since: time.Now()},
	}}
	got, failed = examine(t, Options{Config: parse(t, `{}`), Running: running})
	if !failed || got["a/state"].Verdict != Fail || got["pins"].Remedy != "everline reload" {
		t.Errorf("of one that runs: %+v", got)
	}
}
