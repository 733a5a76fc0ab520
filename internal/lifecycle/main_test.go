package lifecycle

import (
	"flag"
	"os"
	"testing"
)

// TestMain has rapid look longer than it does by default; a step costs well
// under a microsecond. Flags on the command line still win.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "1000", "rapid.steps": "60", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
