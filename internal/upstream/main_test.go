package upstream

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/everline/everline/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.RunChild()
	goleak.VerifyTestMain(m)
}
