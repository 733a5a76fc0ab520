package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

// beganAs is a server whose calls of tools begin tasks, and which knows its tasks from
// then on; of which kind is said by what a call is answered.
func beganAs(h *hub, began string, mortal bool, about func(c *everline.Call) ([]byte, error)) (calls func() int) {
	var n int
	h.by = everline.Answer{Server: "only", Generation: 3, Mortal: mortal}
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		if c.Method == "tools/call" {
			n++
			return []byte(began), nil
		}
		return about(c)
	}
	return func() int { return n }
}

const (
	beganCore = `{"task":{"taskId":"own","status":"working","ttl":60000}}`
	beganExt  = `{"resultType":"task","taskId":"own","status":"working","ttlMs":60000}`
)

// Tasks outlive everline with the sessions that they belong to; what a process had is
// lost with it, and is said to be.
func TestTasksOutliveARestart(t *testing.T) {
	for what, mortal := range map[string]bool{"a URL": false, "a process": true} {
		for _, kind := range []string{"Core", "Extension"} {
			t.Run(what+" "+kind, func(t *testing.T) {
				l := &lasting{t: t, dir: t.TempDir()}
				caps, began := mcptest.TaskCapabilities(mcptest.Legacy), beganCore
				if kind == "Extension" {
					caps, began = mcptest.TaskCapabilities(mcptest.Modern), beganExt
				}
				start := func() (*site, *hub) {
					h := newHub()
					h.declare([]byte(caps))
					return l.start(h), h
				}
				s, h := start()
				beganAs(h, began, mortal, func(*everline.Call) ([]byte, error) { return nil, fault.New(fault.Internal, "", "not asked") })
				me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
				older := taskIn(t, s.post(slow("1", "echo"), me))
				newer := taskOf(t, s.withTasks("tools/call", "echo", `,"name":"echo"`))
				l.stop(s)

				s, h = start()
				var mu sync.Mutex
				var all []everline.Call
				asked := func() []everline.Call {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(all)
				}
				calls := beganAs(h, began, mortal, func(c *everline.Call) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					all = append(all, *c)
					return []byte(`{"taskId":"own","status":"working","ttl":60000,"ttlMs":60000}`), nil
				})
				status, outcome := `"status":"working"`, ""
				if mortal {
					status, outcome = `"status":"failed"`, `"outcome":"unknown","server":"only","generation":3`
				}
				want(t, s.post(rpc("1", "tasks/get", `{"taskId":"`+older+`"}`), me), 200, status, older)
				want(t, s.post(rpc("2", "tasks/list", `{}`), me), 200, status, older)
				want(t, s.post(rpc("3", "tasks/get", `{"taskId":"`+older+`"}`), other), 200, "Task not found")
				if mortal {
					want(t, s.post(rpc("4", "tasks/result", `{"taskId":"`+older+`"}`), me), 200, `"isError":true`, outcome, "everline was started anew")
					want(t, s.about("tasks/get", newer, ""), 200, `"status":"completed"`, `"isError":true`, outcome)
					if seen := asked(); len(seen) != 0 {
						t.Errorf("a server was asked %+v", seen)
					}
				} else {
					want(t, s.about("tasks/get", newer, ""), 200, `"status":"working"`, newer)
					eventually(t, "beside three requests the session that is back looks once", func() bool { return len(asked()) == 4 })
					if seen := asked(); seen[0].Name != "own" || seen[0].Session == nil {
						t.Errorf("the server was asked %+v", seen)
					}
				}
				if n := calls(); n != 0 {
					t.Errorf("%d calls were made again", n)
				}
				want(t, s.do("DELETE", "/mcp", "", me), 204)
				l.stop(s)
				s, h = start()
				beganAs(h, began, mortal, func(*everline.Call) ([]byte, error) { return nil, fault.New(fault.Internal, "", "not asked") })
				if n := s.g.tasks.Len(); n != 1 {
					t.Errorf("%d tasks are left of a session that has ended and one that nobody owns", n)
				}
			})
		}
	}
}

// Tasks outlive an everline that is killed, and those that a killed one has taken over.
func TestTasksOutliveAKill(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	start := func(state string) *site {
		h := newHub()
		h.declare([]byte(mcptest.TaskCapabilities(mcptest.Legacy)))
		beganAs(h, beganCore, false, func(*everline.Call) ([]byte, error) {
			return []byte(`{"taskId":"own","status":"` + state + `","ttl":60000}`), nil
		})
		return l.start(h)
	}
	written := func(s *site, id, state string) {
		t.Helper()
		eventually(t, "what is known of the task is on the disk", func() bool {
			all := l.store.Tasks(s.g.endpoint)
			return len(all) == 1 && all[0].ID == id && strings.Contains(string(all[0].Seen), state)
		})
	}
	s := start("input_required")
	me := s.initialize("2025-11-25")
	id := taskIn(t, s.post(slow("1", "echo"), me))
	written(s, id, "working")
	want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, "input_required")
	written(s, id, "input_required")
	s.g.kept.close()                  // a killed one writes nothing more
	start("not asked").g.kept.close() // and this one is at once
	s = start("working")
	want(t, s.post(rpc("3", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, id, `"status":"working"`)
	want(t, s.do("DELETE", "/mcp", "", me), 204)
	eventually(t, "a session that its client has ended takes its tasks with it", func() bool { return len(l.store.Tasks(s.g.endpoint)) == 0 })
	l.stop(s)
}

// A task that was over when everline ended has its result in the next one.
func TestAResultAtOnceOutlivesARestart(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	start := func() (*site, *hub) {
		h := newHub()
		h.declare([]byte(mcptest.TaskCapabilities(mcptest.Modern)))
		return l.start(h), h
	}
	s, h := start()
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		return []byte(`{"resultType":"complete","content":[{"type":"text","text":"kept"}]}`), nil
	}
	me := s.initialize("2025-11-25")
	id := taskIn(t, s.post(slow("1", "echo"), me))
	l.stop(s)
	s, _ = start()
	want(t, s.post(rpc("2", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"text":"kept"`)
}

// News that come before the answer which names their task are told behind it.
func TestEarlyNewsOfATaskAreToldBehindTheAnswer(t *testing.T) {
	up := mcptest.New(mcptest.Config{Tools: mcptest.TaskTools, Capabilities: mcptest.TaskCapabilities(mcptest.Legacy)})
	mcptest.ServeTasks(up)
	up.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		for i := range 4 {
			r.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"early","status":"working","statusMessage":"step %d","ttl":60000}}`, i))
		}
		return &mcptest.Reply{Result: `{"task":{"taskId":"early","status":"working","ttl":60000}}`}
	})
	s := whole(t, map[string]*mcptest.Server{"srv": up}).up()
	c := talk(t, s.g.ServeStdio)
	c.say(rpc("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`))
	c.next()
	c.say(slow("1", "slow_compute"))
	first := c.next()
	id, ok := wire.Text(wire.Get([]byte(first), "result", "task", "taskId"))
	if !ok {
		t.Fatalf("the first line behind the call does not name the task: %s", first)
	}
	if news := c.next(); !strings.Contains(news, "notifications/tasks/status") || !strings.Contains(news, id) || !strings.Contains(news, "step 3") {
		t.Errorf("the client heard %s", news)
	}
}

func TestNewsWaitForTheAnswerWithABound(t *testing.T) {
	var n taskNews
	var told []int
	for i := range maxEarlyNews + 2 {
		n.tell(func() { told = append(told, i) })
	}
	if len(told) != 0 {
		t.Errorf("told before the answer: %v", told)
	}
	n.open()
	n.tell(func() { told = append(told, -1) })
	if len(told) != maxEarlyNews+1 || told[0] != 2 || told[maxEarlyNews] != -1 {
		t.Errorf("told: %v", told)
	}
}
