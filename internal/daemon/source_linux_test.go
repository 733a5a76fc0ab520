package daemon

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/everline/everline/fault"
)

// TestPipeIsReadOnce has a configuration that comes through a pipe: it is read
// once, at the start, and a reload does not wait for another writer.
func TestPipeIsReadOnce(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { // ends once load has read
		wrote <- os.WriteFile(pipe, []byte(`{"mcpServers": {"a": {"command": "x"}}}`), 0o600)
	}()
	got, err := Source{StateDir: t.TempDir(), Named: []string{pipe}}.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	if len(got.Config.Servers) != 1 || len(got.seen) != 1 {
		t.Errorf("%d servers, digests of %d files", len(got.Config.Servers), len(got.seen))
	}
	if _, err := got.again(); err == nil || fault.KindOf(err) != fault.Invalid || fault.From("", err).Remedy == "" {
		t.Errorf("a reload: %v", err)
	}
}
