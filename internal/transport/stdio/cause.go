package stdio

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// exitCause says how a process ended and how long it had lived: "exit 1 after
// 0.4 s", "killed by SIGSEGV after 3 min".
func exitCause(exit string, lived time.Duration) string {
	how := exit
	if name, ok := strings.CutPrefix(exit, "signal: "); ok {
		how = "killed by " + signalName(name)
	}
	return how + " after " + livedFor(lived)
}

// signalName turns what the system prints ("segmentation fault") into the name
// that people look for.
func signalName(text string) string {
	plain, _, _ := strings.Cut(text, " (") // "(core dumped)" follows
	for s, name := range signalNames {
		if s.String() == plain {
			return name
		}
	}
	return text
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL",
	syscall.SIGTRAP: "SIGTRAP", syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE",
	syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV", syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM",
	syscall.SIGTERM: "SIGTERM",
}

// livedFor is a duration for people: 12 ms, 0.4 s, 27 s, 5 min, 3 h.
func livedFor(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
}
