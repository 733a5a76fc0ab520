package gateway

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/sessions"
)

// crowded is everline in front of a server, with room for one session: the next one has
// the session before put away. Sessions are kept.
func crowded(t *testing.T, c config.Server) *site {
	t.Helper()
	store, err := sessions.OpenStore(t.TempDir(), func(text string) { t.Error("warned:", text) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return assembleWith(t, Options{MaxSessions: 1, Sessions: store}, c).up()
}

// taskProcess is a server of 2025-11-25 on stdio that has tasks.
func taskProcess(t *testing.T) config.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.NewServer("srv")
	c.Transport, c.Command, c.Env = "stdio", exe, map[string]string{taskEnv: mcp.LatestLegacy, "GORACE": "atexit_sleep_ms=0"}
	return c
}

// hear is the next event that is not about a list.
func (tp *tap) hear() string {
	tp.t.Helper()
	for {
		if e := tp.next(); !strings.Contains(e, "/list_changed") {
			return e
		}
	}
}

// A client whose session was put away finds its tasks again, hears how they stand when
// it is back, and their news and progress from then on.
func TestTasksOutliveBeingPutAway(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(fmt.Sprint("era ", era), func(t *testing.T) {
			up := mcptest.New(mcptest.Config{Era: era, Tools: mcptest.TaskTools, Capabilities: mcptest.TaskCapabilities(era)})
			c, found := config.NewServer("srv"), mcptest.ServeTasks(up)
			c.Transport, c.URL = "http", mcptest.Web(t, up).URL+"/mcp"
			s := crowded(t, c)
			if era == mcptest.Legacy {
				up.Await(t, "its stream", func() bool { return up.Listeners() == 1 })
			}
			me := s.initialize("2025-11-25")
			r := s.post(strings.Replace(slow("1", "slow_compute"), `"task":`, `"_meta":{"progressToken":"tok"},"task":`, 1), me)
			_, answer, _ := strings.Cut(r.body, `data: {"jsonrpc":"2.0","id":1,`)
			id := taskIn(t, reply{body: "{" + answer})
			token := up.Requests("tools/call")[0].Token()
			other := s.initialize("2025-11-25")
			if n := s.g.sessions.Len(); n != 1 {
				t.Fatalf("%d sessions", n)
			}
			want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), other), 200, "Task not found")

			mine := s.tap("GET", "/mcp", "", me)
			if e := mine.hear(); !strings.Contains(e, "notifications/tasks/status") || !strings.Contains(e, id) || !strings.Contains(e, `"working"`) {
				t.Errorf("back again the client hears %s", e)
			}
			want(t, s.post(rpc("3", "tasks/list", `{}`), me), 200, id, `"working"`)
			if era == mcptest.Legacy { // later no request is open
				up.SendAll(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":2}}`)
				if e := mine.hear(); !strings.Contains(e, `"progressToken":"tok","progress":2`) {
					t.Errorf("of the progress it hears %s", e)
				}
			}
			found.Finish(1)
			if e := mine.hear(); !strings.Contains(e, "notifications/tasks/status") || !strings.Contains(e, id) || !strings.Contains(e, `"completed"`) {
				t.Errorf("of the end it hears %s", e)
			}
			want(t, s.post(rpc("4", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"text":"done"`)
			mine.cancel()
			mine.end()
			s.web.CloseIdleConnections()
			eventually(t, "the session can be put away", func() bool {
				return s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).status == 200
			})
			want(t, s.do("DELETE", "/mcp", "", me), 204)
			if n := s.g.tasks.Len(); n != 0 {
				t.Errorf("%d tasks are left of a session that its client has ended", n)
			}
		})
	}
}

// What a task on a shared process asks reaches its client when that is back: for the
// server it is the same client.
func TestATaskAsksTheClientThatIsBack(t *testing.T) {
	s := crowded(t, taskProcess(t))
	me := s.declare(`{"elicitation":{}}`)
	id := taskIn(t, s.post(slow("1", "confirm_delete"), me))
	s.initialize("2025-11-25")
	tp := s.tap("POST", "/mcp", rpc("2", "tasks/result", `{"taskId":"`+id+`"}`), me)
	e := tp.hear()
	for !strings.Contains(e, "elicitation/create") {
		if strings.Contains(e, `"id":2,`) {
			t.Fatalf("the client was not asked: %s", e)
		}
		e = tp.hear()
	}
	asked := e[strings.Index(e, `"id":`)+5:]
	asked = asked[:strings.IndexAny(asked, ",}")]
	want(t, s.post(`{"jsonrpc":"2.0","id":`+asked+`,"result":{"action":"accept","content":{}}}`, me), 202)
	for !strings.Contains(e, `"id":2,`) {
		e = tp.hear()
	}
	if !strings.Contains(e, "confirm:accept") {
		t.Errorf("the result is %s", e)
	}
}

// A process that is one client's alone ends when its session is put away. What it did of
// a task is not known, and is not begun again.
func TestATaskOfAnOwnProcessIsLostWithIt(t *testing.T) {
	c := taskProcess(t)
	c.Isolation = config.IsolationSession
	s := crowded(t, c)
	me := s.initialize("2025-11-25")
	id := taskIn(t, s.post(slow("1", "slow_compute"), me))
	s.initialize("2025-11-25")
	another := taskIn(t, s.post(slow("2", "slow_compute"), me)) // by a process that begins with the same ids
	want(t, s.post(rpc("3", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, `"failed"`, id)
	want(t, s.post(rpc("4", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"isError":true`, `"outcome":"unknown"`, "put away")
	want(t, s.post(rpc("5", "tasks/get", `{"taskId":"`+another+`"}`), me), 200, `"working"`, another)
}

// Where sessions are not kept nobody comes back for the tasks of one that was idle.
func TestTasksOfSessionsThatAreNotKeptAreForgotten(t *testing.T) {
	h := newHub()
	h.declare([]byte(mcptest.TaskCapabilities(mcptest.Legacy)))
	beganAs(h, beganCore, false, func(*everline.Call) ([]byte, error) { return nil, fault.New(fault.Internal, "", "not asked") })
	s := serve(t, h, Options{MaxSessions: 1})
	me := s.initialize("2025-11-25")
	taskIn(t, s.post(slow("1", "echo"), me))
	s.initialize("2025-11-25")
	if n := s.g.tasks.Len(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// The tasks of a session that a client of 2026-07-28 has named are there as long as they
// are good, whether the session is or not, for who knows the name.
func TestTasksOfANamedSessionOutliveIt(t *testing.T) {
	h := newHub()
	h.declare([]byte(mcptest.TaskCapabilities(mcptest.Modern)))
	beganAs(h, beganExt, false, func(*everline.Call) ([]byte, error) {
		return []byte(`{"taskId":"own","status":"working","ttlMs":60000}`), nil
	})
	s := serve(t, h, Options{MaxSessions: 1})
	name := "Everline-Session: " + strings.Repeat("n", 22)
	modern := func(method, item, params string, headers ...string) reply {
		body := strings.Replace(modernBody("1", method, params), `Capabilities":{}`, `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		return s.post(body, append(headers, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+item)...)
	}
	id := taskOf(t, modern("tools/call", "echo", `,"name":"echo"`, name))
	s.initialize("2025-11-25")
	want(t, modern("tasks/get", id, `,"taskId":"`+id+`"`), 400, "Task not found")
	want(t, modern("tasks/get", id, `,"taskId":"`+id+`"`, name), 200, `"working"`, id)
	want(t, s.do("DELETE", "/mcp", "", name), 204)
	want(t, modern("tasks/get", id, `,"taskId":"`+id+`"`, name), 400, "Task not found")
}

// After a restart, too, tasks are followed when their session is back; a server that is
// away then is asked again.
func TestTasksAreFollowedAgainAfterARestart(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	h := newHub()
	h.declare([]byte(mcptest.TaskCapabilities(mcptest.Legacy)))
	beganAs(h, beganCore, false, nil)
	s := l.start(h)
	id := s.initialize("2025-11-25")
	taskIn(t, s.post(slow("1", "echo"), id))
	taskIn(t, s.post(slow("2", "echo"), id))
	l.stop(s)

	h = newHub()
	s = l.start(h)
	me := s.g.sessions.New(mcp.LatestLegacy)
	me.Key = strings.TrimPrefix(id, "Mcp-Session-Id: ")
	asked := 0
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		asked++
		return nil, fault.New(fault.Unavailable, "", "away")
	}
	h.subErr = fault.New(fault.Unavailable, "", "away")
	again := s.g.renewTasks(me)
	if again(t.Context()) || asked != 1 || h.subscribers("task only own") != 0 {
		t.Errorf("of a server that is away %d questions were asked", asked)
	}
	h.subErr = nil
	h.onCall = func(context.Context, *everline.Call) ([]byte, error) {
		return []byte(`{"taskId":"own","status":"completed","ttl":60000}`), nil
	}
	if !again(t.Context()) || h.subscribers("task only own") != 2 {
		t.Errorf("%d of two tasks are followed", h.subscribers("task only own"))
	}
	if s.g.renewTasks(me) != nil {
		t.Error("there is something to renew of tasks that have ended")
	}
}

// A client of HTTP+SSE that lost its stream has its tasks when it is back.
func TestTasksOutliveAStreamOfSSE(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	h := newHub()
	h.declare([]byte(mcptest.TaskCapabilities(mcptest.Legacy)))
	beganAs(h, beganCore, false, func(*everline.Call) ([]byte, error) {
		return []byte(`{"taskId":"own","status":"working","ttl":60000}`), nil
	})
	s := l.start(h)
	e := s.eventSource("")
	want(t, s.do("POST", e.messages, strings.Replace(sseHello, "2025-03-26", "2025-11-25", 1)), 202)
	e.next()
	want(t, s.do("POST", e.messages, initialized), 202)
	want(t, s.do("POST", e.messages, slow("1", "echo")), 202)
	id := taskIn(t, reply{body: e.next()})
	e.body.Close()
	eventually(t, "the session is put away", func() bool { return s.g.sessions.Len() == 0 })
	again := s.eventSource(e.last)
	want(t, s.do("POST", again.messages, rpc("2", "tasks/get", `{"taskId":"`+id+`"}`)), 202)
	for got := again.next(); ; got = again.next() {
		if strings.Contains(got, `"id":2,`) {
			if !strings.Contains(got, id) || !strings.Contains(got, `"working"`) {
				t.Errorf("the client hears %s", got)
			}
			return
		}
	}
}
