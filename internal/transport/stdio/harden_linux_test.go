package stdio

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline/internal/transport"
)

// Servers and what they start leave no core dump behind, and gain no privileges
// unless they may; a server without a guard at least leaves no dump.
func TestServersAreHardened(t *testing.T) {
	for _, c := range []struct {
		privileges, plain bool
		gains             string
	}{{false, false, "1"}, {true, false, "0"}, {false, true, "0"}} {
		spec := childSpec("echo")
		spec.Privileges, spec.plain = c.privileges, c.plain
		pid := openPeer(t, spec, transport.Options{}).Info().PID
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		limits, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !strings.Contains(string(status), "\nNoNewPrivs:\t"+c.gains+"\n") {
			t.Errorf("%+v: the server may gain privileges, or may not", c)
		}
		core := ""
		for line := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(line, "Max core file size"); ok {
				core = strings.Join(strings.Fields(rest), " ")
			}
		}
		if core != "0 0 bytes" {
			t.Errorf("%+v: core dumps of %q", c, core)
		}
	}
}
