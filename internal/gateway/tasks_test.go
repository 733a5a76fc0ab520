package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

// desks are servers with tasks, and everline in front of them.
func desks(t *testing.T, era mcptest.Era, names ...string) (*site, []*mcptest.Server, []*mcptest.TaskServer) {
	t.Helper()
	var all []config.Server
	var servers []*mcptest.Server
	var found []*mcptest.TaskServer
	for _, name := range names {
		up := mcptest.New(mcptest.Config{Era: era, Tools: mcptest.TaskTools, Capabilities: mcptest.TaskCapabilities(era)})
		c := config.NewServer(name)
		c.Transport, c.URL = "http", mcptest.Web(t, up).URL+"/mcp"
		all, servers, found = append(all, c), append(servers, up), append(found, mcptest.ServeTasks(up))
	}
	s := wholeOf(t, all...)
	for _, up := range servers {
		if era == mcptest.Legacy { // its news have no other way, and it keeps none
			up.Await(t, "its stream", func() bool { return up.Listeners() == 1 })
		}
	}
	return s, servers, found
}

// taskIn is the id of the task that a tools/call of 2025-11-25 has begun.
func taskIn(t *testing.T, r reply) string {
	t.Helper()
	id, ok := wire.Text(wire.Get([]byte(r.body), "result", "task", "taskId"))
	if !ok {
		t.Fatalf("no task in %s", r.body)
	}
	return id
}

func rpc(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func slow(id, tool string) string {
	return rpc(id, "tools/call", `{"name":"`+tool+`","arguments":{"seconds":-1},"task":{"ttl":60000}}`)
}

func TestTasksOfTwoServersWithEqualIDs(t *testing.T) {
	s, servers, found := desks(t, mcptest.Legacy, "one", "two")
	me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	first, second := taskIn(t, s.post(slow("1", "one__slow_compute"), me)), taskIn(t, s.post(slow("2", "two__slow_compute"), me))
	if first == second || strings.Contains(first+second, "task-1") {
		t.Fatalf("the ids are %s and %s", first, second)
	}
	found[1].Finish(1)
	want(t, s.post(rpc("3", "tasks/get", `{"taskId":"`+first+`"}`), me), 200, `"taskId":"`+first+`"`, `"status":"working"`)
	want(t, s.post(rpc("4", "tasks/get", `{"taskId":"`+second+`"}`), me), 200, `"taskId":"`+second+`"`, `"status":"completed"`)
	r := s.post(rpc("5", "tasks/result", `{"taskId":"`+second+`"}`), me)
	want(t, r, 200, `"text":"done"`, `"io.modelcontextprotocol/related-task":{"taskId":"`+second+`"}`)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		want(t, s.post(rpc("6", method, `{"taskId":"`+first+`"}`), other), 200, `"code":-32602`, "Task not found")
		want(t, s.post(rpc("6", method, `{"taskId":"task-1"}`), me), 200, `"code":-32602`)
	}
	if n := servers[0].Count("tasks/cancel"); n != 0 {
		t.Errorf("another client's cancel reached the server %d times", n)
	}
	want(t, s.post(rpc("7", "tasks/cancel", `{"taskId":"`+first+`"}`), me), 200, `"status":"cancelled"`, first)
	if s.do("DELETE", "/mcp", "", me).status != 204 {
		t.Fatal("DELETE")
	}
	if n := s.g.tasks.Len(); n != 0 {
		t.Errorf("%d tasks of a session that ended are remembered", n)
	}
}

func TestTasksAreListedToTheirOwnClient(t *testing.T) {
	s, _, _ := desks(t, mcptest.Legacy, "one", "two")
	me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	mine := map[string]bool{}
	for i := range taskPage + 10 {
		mine[taskIn(t, s.post(slow(fmt.Sprint(i+1), []string{"one", "two"}[i%2]+"__slow_compute"), me))] = true
	}
	taskIn(t, s.post(slow("1", "one__slow_compute"), other))
	cursor, pages := "", 0
	for {
		r := s.post(rpc("9", "tasks/list", "{"+cursor+"}"), me)
		pages++
		var got struct {
			Result struct {
				Tasks      []struct{ TaskID, Status string }
				NextCursor *string
			}
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != 200 {
			t.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		for _, task := range got.Result.Tasks {
			if !mine[task.TaskID] || task.Status != "working" {
				t.Errorf("listed: %+v", task)
			}
			delete(mine, task.TaskID)
		}
		if got.Result.NextCursor == nil {
			break
		}
		cursor = fmt.Sprintf(`"cursor":%q`, *got.Result.NextCursor)
	}
	if len(mine) != 0 || pages != 2 {
		t.Errorf("%d tasks were not listed, on %d pages", len(mine), pages)
	}
	want(t, s.post(rpc("9", "tasks/list", `{"cursor":"x"}`), me), 200, `"code":-32602`)
}

func TestNewsOfATaskReachItsClientAlone(t *testing.T) {
	s, _, found := desks(t, mcptest.Legacy, "one")
	me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	mine, theirs := s.tap("GET", "/mcp", "", me), s.tap("GET", "/mcp", "", other)
	taskIn(t, s.post(slow("1", "slow_compute"), other))
	id := taskIn(t, s.post(slow("1", "slow_compute"), me))
	found[0].Finish(2)
	if e := mine.next(); !strings.Contains(e, "notifications/tasks/status") || !strings.Contains(e, id) || !strings.Contains(e, `"completed"`) {
		t.Errorf("the client heard %s", e)
	}
	found[0].Finish(1)
	if e := theirs.next(); strings.Contains(e, id) || !strings.Contains(e, "notifications/tasks/status") {
		t.Errorf("the other client heard %s", e)
	}
	if len(mine.events) != 0 {
		t.Errorf("the client heard %s, too", mine.next())
	}
}

func TestProgressOfATaskGoesOn(t *testing.T) {
	s, servers, _ := desks(t, mcptest.Legacy, "one")
	me := s.initialize("2025-11-25")
	mine := s.tap("GET", "/mcp", "", me)
	r := s.post(strings.Replace(slow("1", "slow_compute"), `"task":`, `"_meta":{"progressToken":"tok"},"task":`, 1), me)
	want(t, r, 200, `"progressToken":"tok","progress":1`, `"taskId"`)
	token := servers[0].Requests("tools/call")[0].Token()
	servers[0].SendAll(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":2}}`)
	e := mine.next()
	for strings.Contains(e, "/list_changed") { // the server has just come
		e = mine.next()
	}
	if !strings.Contains(e, `"progressToken":"tok","progress":2`) {
		t.Errorf("the client heard %s", e)
	}
}

func TestTasksAreDeclaredWhereAServerHasThem(t *testing.T) {
	const hello = `{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	legacy, _, _ := desks(t, mcptest.Legacy, "one")
	want(t, legacy.post(rpc("1", "initialize", fmt.Sprintf(hello, "2025-11-25"))), 200, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	want(t, legacy.modern("1", "server/discover", "", ""), 200, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	modern, _, _ := desks(t, mcptest.Modern, "one")
	want(t, modern.modern("1", "server/discover", "", ""), 200, `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	want(t, modern.post(rpc("1", "initialize", fmt.Sprintf(hello, "2025-11-25"))), 200, `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	for what, s := range map[string]*site{"2025-11-25": legacy, "2026-07-28": modern} {
		if r := s.post(rpc("1", "initialize", fmt.Sprintf(hello, "2025-06-18"))); strings.Contains(r.body, "tasks") {
			t.Errorf("a client of 2025-06-18 is told of the tasks of a server of %s: %s", what, r.body)
		}
	}
	none := whole(t, map[string]*mcptest.Server{"a": mcptest.New(mcptest.Config{})}).up()
	me := none.initialize("2025-11-25")
	want(t, none.post(rpc("2", "tasks/get", `{"taskId":"x"}`), me), 200, `"code":-32601`)
	want(t, none.modern("2", "tasks/get", "x", `,"taskId":"x"`), 404, `"code":-32601`)
}

// withTasks is a modern request of a client that declares the extension.
func (s *site) withTasks(method, name, params string) reply {
	s.t.Helper()
	body := strings.Replace(modernBody("1", method, params), `Capabilities":{}`, `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+name)
}

func TestTasksOfTheExtension(t *testing.T) {
	s, servers, found := desks(t, mcptest.Modern, "one", "two")
	begin := func(tool string) string {
		t.Helper()
		r := s.withTasks("tools/call", tool, `,"name":"`+tool+`","arguments":{"seconds":-1}`)
		want(t, r, 200, `"resultType":"task"`)
		id, _ := wire.Text(wire.Get([]byte(r.body), "result", "taskId"))
		return id
	}
	first, second := begin("one__confirm_delete"), begin("two__slow_compute")
	want(t, s.withTasks("tasks/get", first, `,"taskId":"`+first+`"`), 200, `"status":"input_required"`, first, `"resultType":"complete"`)
	want(t, s.withTasks("tasks/get", second, `,"taskId":"`+second+`"`), 200, `"status":"working"`, second)
	want(t, s.withTasks("tasks/get", first, `,"taskId":"`+second+`"`), 400, `"code":-32020`)
	want(t, s.withTasks("tasks/get", "task-1", `,"taskId":"task-1"`), 400, `"code":-32602`)
	want(t, s.modern("1", "tasks/get", first, `,"taskId":"`+first+`"`), 400, `"code":-32021`, `"requiredCapabilities"`)
	want(t, s.withTasks("tasks/list", "", ``), 404, `"code":-32601`)
	want(t, s.withTasks("tasks/update", first, `,"taskId":"`+first+`","inputResponses":{"confirm":{"action":"accept"}}`), 200, `"resultType":"complete"`)
	want(t, s.withTasks("tasks/get", first, `,"taskId":"`+first+`"`), 200, `"status":"completed"`, `"text":"done"`)
	if name := servers[0].Requests("tasks/get")[0].Header.Get("Mcp-Name"); name != "task-1" {
		t.Errorf("the server was sent Mcp-Name %q", name)
	}

	listen := strings.Replace(modernBody("9", "subscriptions/listen", `,"notifications":{"taskIds":["`+second+`","task-1"]}`),
		`Capabilities":{}`, `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	tap := s.tap("POST", "/mcp", listen, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
	if e := tap.next(); !strings.Contains(e, `"taskIds":["`+second+`"]`) {
		t.Errorf("acknowledged: %s", e)
	}
	found[1].Finish(1)
	if e := tap.next(); !strings.Contains(e, `"method":"notifications/tasks"`) || !strings.Contains(e, second) || !strings.Contains(e, `subscriptionId":9`) {
		t.Errorf("told: %s", e)
	}
}

// A process takes its tasks with it; its successor may use the same ids.
func TestTasksOfAProcessEndWithIt(t *testing.T) {
	h := newHub()
	caps := []byte(mcptest.TaskCapabilities(mcptest.Legacy))
	h.declare(caps)
	var seen []everline.Call
	h.onCall, h.by = answers(&seen), everline.Answer{Server: "only", Generation: 7, Mortal: true}
	s := serve(t, h, Options{Warn: func(text string) { t.Error(text) }})
	me := s.initialize("2025-11-25")
	id := taskIn(t, s.post(slow("1", "echo"), me))
	want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, id)
	got := seen[len(seen)-1]
	if got.Generation != 7 || got.Server != "only" || got.Name != "own" || !strings.Contains(string(got.Params), `"taskId":"own"`) {
		t.Errorf("the server was asked %+v", got)
	}
	h.onCall = refuses(7)
	asked := len(seen)
	// It may have been executed, or not: that is what its call would have been answered.
	want(t, s.post(rpc("3", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, `"status":"failed"`, id)
	want(t, s.post(rpc("4", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"isError":true`, `"outcome":"unknown","server":"only","generation":7`,
		`related-task":{"taskId":"`+id+`"}`)
	want(t, s.post(rpc("5", "tasks/list", `{}`), me), 200, `"status":"failed"`, id)
	want(t, s.post(rpc("6", "tasks/cancel", `{"taskId":"`+id+`"}`), me), 200, `"code":-32602`, "ended")
	if len(seen) != asked {
		t.Errorf("after the loss the server was asked %+v", seen[asked:])
	}
}
