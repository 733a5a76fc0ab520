package slot

import (
	"testing"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/lifecycle"
)

// The lifecycle's words for what people see are those that others compare with.
func TestSeen(t *testing.T) {
	for want, s := range map[event.State]lifecycle.State{
		event.StateDisabled:      {},
		event.StateIdle:          {Want: true, Next: lifecycle.NextCall},
		event.StateConnecting:    {Want: true, Trying: 1},
		event.StateConnected:     {Want: true, Serving: 1},
		event.StateReconnecting:  {Want: true, Trying: 2, WasReady: true},
		event.StateDisconnected:  {Want: true, Next: lifecycle.NextTimer},
		event.StateDisabling:     {Serving: 1},
		event.StateAuthRequired:  {Want: true, Next: lifecycle.NextStopped, Stopped: lifecycle.Auth},
		event.StateMisconfigured: {Want: true, Next: lifecycle.NextStopped, Stopped: lifecycle.Missing},
		event.StateFailed:        {Want: true, Next: lifecycle.NextStopped, Stopped: lifecycle.Budget},
	} {
		v := View{State: s}
		if got := v.Seen(); got != want {
			t.Errorf("%+v is seen as %q, want %q", s, got, want)
		}
	}
}
