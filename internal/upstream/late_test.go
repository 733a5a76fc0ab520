package upstream

import (
	"context"
	"testing"
	"time"

	"github.com/everline/everline/internal/mcptest"
)

// N2: a start that is given up while the server works on initialize ends the
// session that the answer begins.
func TestFaultN2AbandonedStartEndsItsSession(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	asked := make(chan struct{})
	s.On("initialize", func(*mcptest.Request) *mcptest.Reply {
		close(asked)
		return &mcptest.Reply{Run: true, Delay: 50 * time.Millisecond}
	})
	opts, _ := options(overWeb(t, s))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the request
		<-asked
		cancel()
	}()
	u, err := Start(ctx, opts)
	if err == nil {
		_ = u.Close(t.Context())
		t.Fatal("it was not given up")
	}
	if n := s.Sessions(); s.Count("initialize") != 1 || n != 0 {
		t.Errorf("%d initializes, %d sessions are left", s.Count("initialize"), n)
	}
}
