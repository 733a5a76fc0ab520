package mcptest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// wantUnreadable calls and wants the fault of this call alone.
func wantUnreadable(t *testing.T, name string, c transport.Conn, says string) {
	t.Helper()
	_, err := c.Call(t.Context(), memoryRequest(7, "work"))
	f := fault.From("", err)
	if f == nil || f.Kind != fault.Protocol || f.Outcome != fault.Unknown || f.Op != "work" || !strings.Contains(f.Reason(), says) {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := c.Call(t.Context(), memoryRequest(8, "echo")); err != nil || c.Err() != nil {
		t.Errorf("%s: the link is not what it was: %v", name, err)
	}
}

// unreadableServer gives such answers to "work", and good ones to all else; "slow" is held back.
func unreadableServer(answer string) ServeFunc {
	return func(_ context.Context, in <-chan []byte, out func([]byte)) {
		var slow []byte
		for frame := range in {
			m, _ := wire.Parse(frame)
			id, _ := wire.ParseID(m.ID)
			switch m.Method {
			case "work":
				out(fmt.Appendf(nil, answer, id))
			case "slow":
				slow = wire.AppendResult(nil, m.ID, []byte(`"late"`))
			case "free":
				out(slow)
				fallthrough
			default:
				out(wire.AppendResult(nil, m.ID, []byte(`{}`)))
			}
		}
	}
}

// An answer that cannot be read ends its own call at once, whatever else waits
// on the same link.
func TestFaultS3(t *testing.T) {
	for name, c := range Unreadable {
		got := make(chan transport.Inbound, 1)
		conn := OpenMemory(unreadableServer(c.Answer), transport.Options{Inbound: func(in transport.Inbound) {
			if in.Msg.Method != "" { // no late answer
				got <- in
			}
		}})
		other := make(chan error, 1)
		go func() { // ends with its answer, which is waited for
			m, err := conn.Call(t.Context(), memoryRequest(1, "slow"))
			if err == nil && string(m.Result) != `"late"` {
				err = fmt.Errorf("result %s", m.Result)
			}
			other <- err
		}()
		wantUnreadable(t, name, conn, c.Says)
		if name == "a batch" && (<-got).Msg.Method != "notifications/x" {
			t.Error("what is a message in a broken batch was lost")
		}
		for answered := false; !answered; {
			_, _ = conn.Call(t.Context(), memoryRequest(9, "free"))
			select {
			case err := <-other:
				if answered = true; err != nil {
					t.Errorf("%s: the call beside it: %v", name, err)
				}
			default:
			}
		}
		if conn.Info().Noise == 0 {
			t.Errorf("%s: not counted", name)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
