//go:build unix

package admin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Between bind and chmod a socket has the permissions that the umask leaves it:
// the folder around it is what keeps others out.
func TestFaultV12TheSocketIsBoundInAPrivateFolder(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	for name, dir := range map[string]string{
		"a new folder":  filepath.Join(t.TempDir(), "state"),
		"a long path":   filepath.Join(t.TempDir(), strings.Repeat("long", 30), "state"),
		"a deep folder": filepath.Join(t.TempDir(), "a", "b"),
	} {
		l, err := Listen(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		path := socketPath(dir)
		for file, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, dir: 0o700, path: 0o600} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %s has %v, want %v", name, file, info.Mode().Perm(), want)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, mode := range []os.FileMode{0o777, 0o755, 0o711, 0o750, 0o701} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(dir); err == nil {
			l.Close()
			t.Errorf("a folder with %v is used", mode)
		}
		if _, err := os.Stat(filepath.Join(dir, socketName)); err == nil {
			t.Errorf("a socket was bound in a folder with %v", mode)
		}
	}
}
