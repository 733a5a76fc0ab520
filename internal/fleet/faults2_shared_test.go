package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/upstream"
)

// TestFaultS19SharedStarts: callers that wait for one start share its failure,
// be it the handshake or the first listing that is refused, and none of them
// asks the server again by itself.
func TestFaultS19SharedStarts(t *testing.T) {
	for method, attempts := range map[string]int{"initialize": 1, "tools/list": 3} { // three failed listings end a generation
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPark()
				s := p.add("a", mcptest.Config{})
				s.On(method, func(*mcptest.Request) *mcptest.Reply {
					return &mcptest.Reply{Delay: 500 * time.Millisecond, Error: `{"code":-32603,"message":"not today"}`}
				})
				cfg := configOf("a")
				cfg.Servers[0].Retry.Restart = "never"
				f := start(t, cfg, p.options())
				defer stop(t, f)
				before := time.Now()
				took := make(chan time.Duration, 10)
				for range cap(took) {
					go func() {
						_, err := f.Slot("a").Call(t.Context(), &upstream.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`)}, config.ReplaySafe)
						if err == nil {
							t.Error("a call was answered")
						}
						took <- time.Since(before)
					}()
				}
				first := <-took
				for range cap(took) - 1 {
					if d := <-took; d != first {
						t.Errorf("one caller heard after %v, another after %v", first, d)
					}
				}
				if n := s.Count(method); n != attempts {
					t.Errorf("%d requests, the callers heard after %v", n, first)
				}
			})
		})
	}
}
