package stdio

import (
	"testing"
	"time"
)

func TestExitCause(t *testing.T) {
	for _, c := range []struct {
		exit  string
		lived time.Duration
		want  string
	}{
		{"exit 1", 400 * time.Millisecond, "exit 1 after 0.4 s"},
		{"exit 127", 12 * time.Millisecond, "exit 127 after 12 ms"},
		{"exit 0", 90 * time.Second, "exit 0 after 90 s"},
		{"signal: killed", 200 * time.Second, "killed by SIGKILL after 3 min"},
		{"signal: segmentation fault (core dumped)", 5 * time.Hour, "killed by SIGSEGV after 5 h"},
		{"signal: terminated", 27 * time.Second, "killed by SIGTERM after 27 s"},
		{"signal: signal 40", time.Second, "killed by signal 40 after 1.0 s"},
	} {
		if got := exitCause(c.exit, c.lived); got != c.want {
			t.Errorf("%s, %v: %q, want %q", c.exit, c.lived, got, c.want)
		}
	}
}
