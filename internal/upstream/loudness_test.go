package upstream

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/mcptest"
)

// A hearer is a client that serves nothing, and notes what it is told.
type hearer struct {
	mu   sync.Mutex
	told []string
}

func (*hearer) ID() uint64 { return 7 }

func (*hearer) Ask(context.Context, string, []byte) ([]byte, error) { return nil, nil }

func (h *hearer) Notify(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, method+" "+string(params))
}

// logs is a server that says something at a level in each call, and takes ms over it.
func logs(capabilities string) *mcptest.Server {
	s := mcptest.New(mcptest.Config{Capabilities: capabilities})
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		r.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
		if strings.Contains(string(r.Params), "slow") {
			return &mcptest.Reply{Delay: time.Minute, Run: true}
		}
		return nil
	})
	return s
}

// naming are the params of a request that says which messages its client wants.
func naming(tool, level string) []byte {
	return []byte(`{"name":"` + tool + `","_meta":{"io.modelcontextprotocol/logLevel":"` + level + `"}}`)
}

// A client of 2026-07-28 names its level in each request; an older server has one.
func TestTheLevelOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := logs("")
		u, _ := inMemory(t, s)
		h := &hearer{}
		call := func(name, level string) {
			t.Helper()
			if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: naming(name, level), LogLevel: level, Client: h}); err != nil {
				t.Error(err)
			}
		}
		want := func(when, level string, sent int) {
			t.Helper()
			synctest.Wait()
			if got, n := s.Level(), s.Count("logging/setLevel"); got != level || n != sent {
				t.Errorf("%s: the server is at %q after %d requests, want %q after %d", when, got, n, level, sent)
			}
		}
		ofSession := &Call{Method: "tools/call", Params: []byte(`{"name":"echo"}`), LogLevel: "info", Client: h}
		if _, err := u.Call(t.Context(), ofSession); err != nil {
			t.Error(err)
		}
		want("calls that name no level", "", 0)
		call("echo", "debug")
		call("echo", "error")
		want("two calls with one", "debug", 1)
		time.Sleep(loudFor)
		want("nobody calls any more", "emergency", 2)

		if err := request(t, u, "logging/setLevel", "level", "warning"); err != nil {
			t.Error(err)
		}
		var all sync.WaitGroup
		all.Go(func() { call("slow", "info") })
		want("a slow call", "info", 4)
		if err := request(t, u, "logging/setLevel", "level", "error"); err != nil {
			t.Error(err)
		}
		want("sessions want less", "info", 4)
		all.Wait()
		time.Sleep(loudFor)
		want("the slow call is over", "error", 5)
		if n := len(h.told); n != 3 || !strings.Contains(h.told[0], `"level":"info"`) {
			t.Errorf("the client was told %q", h.told)
		}
	})
}

// A server that has no log messages is told of no level, and whose messages cannot be told
// apart on a connection goes to nobody's call.
func TestLevelsThatAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := logs(`{"tools":{}}`)
		u, _ := inMemory(t, quiet)
		if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: naming("echo", "debug"), LogLevel: "debug"}); err != nil {
			t.Error(err)
		}
		if n := quiet.Count("logging/setLevel"); n != 0 {
			t.Errorf("%d requests for a level", n)
		}
		s := logs("")
		u, _ = inMemory(t, s)
		h := &hearer{}
		var all sync.WaitGroup
		all.Go(func() { // nobody's
			_, _ = u.Call(t.Context(), &Call{Method: "tools/call", Params: []byte(`{"name":"slow"}`)})
		})
		synctest.Wait()
		if _, err := u.Call(t.Context(), &Call{Method: "tools/call", Params: naming("echo", "debug"), LogLevel: "debug", Client: h}); err != nil {
			t.Error(err)
		}
		if len(h.told) != 0 || s.Count("logging/setLevel") != 1 {
			t.Errorf("told %q", h.told)
		}
		all.Wait()
	})
}
