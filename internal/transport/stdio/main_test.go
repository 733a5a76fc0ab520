package stdio

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/everline/everline/internal/shim"
)

// childEnv makes the test binary act as a server over stdio: its value names
// the behaviour, see child.
const childEnv = "EVERLINE_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		child(mode)
		os.Exit(0)
	}
	shim.Allow()
	goleak.VerifyTestMain(m)
}
