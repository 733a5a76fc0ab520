//go:build unix

package daemon

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestNotifySystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	notifySystemd("READY=1")
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := l.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	for _, nobody := range []string{"", "relative", filepath.Join(t.TempDir(), "none")} {
		t.Setenv("NOTIFY_SOCKET", nobody)
		notifySystemd("READY=1") // and does not fail
	}
}
