package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/wire"
)

// taskOf is the id of the task that a tools/call of the extension has begun.
func taskOf(t *testing.T, r reply) string {
	t.Helper()
	want(t, r, 200, `"resultType":"task"`)
	id, ok := wire.Text(wire.Get([]byte(r.body), "result", "taskId"))
	if !ok {
		t.Fatalf("no task in %s", r.body)
	}
	return id
}

// asking is withTasks of a client that can be asked.
func (s *site) asking(method, name, params string) reply {
	s.t.Helper()
	body := strings.Replace(modernBody("1", method, params), `Capabilities":{}`, `Capabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	return s.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+name)
}

// about asks about a task in the way of the extension.
func (s *site) about(method, id, more string) reply {
	s.t.Helper()
	return s.asking(method, id, `,"taskId":"`+id+`"`+more)
}

// A client of the extension has the tasks of a server of 2025-11-25 in its own words.
func TestTasksOfAnOlderServerInWordsOfTheExtension(t *testing.T) {
	s, servers, found := desks(t, mcptest.Legacy, "one")
	call := func(tool string) reply {
		return s.withTasks("tools/call", tool, `,"name":"`+tool+`","arguments":{"seconds":-1}`)
	}
	id := taskOf(t, call("slow_compute"))
	if sent := string(servers[0].Requests("tools/call")[0].Params); !strings.Contains(sent, `"task":{}`) {
		t.Errorf("the server was not asked for a task: %s", sent)
	}
	r := s.about("tasks/get", id, "")
	want(t, r, 200, `"status":"working"`, `"ttlMs":60000`, `"pollIntervalMs":100`, `"resultType":"complete"`, id)
	if strings.Contains(r.body, `"ttl":`) || strings.Contains(r.body, `"task-1"`) {
		t.Errorf("it has the server's own words: %s", r.body)
	}
	found[0].Finish(1)
	want(t, s.about("tasks/get", id, ""), 200, `"status":"completed"`, `"result":{"content":[{"type":"text","text":"done"}]`)
	want(t, s.about("tasks/cancel", id, ""), 200, `"resultType":"complete"`)

	id = taskOf(t, call("slow_compute"))
	want(t, s.about("tasks/update", id, `,"inputResponses":{"nobody-asked":{}}`), 200, `"resultType":"complete"`)
	want(t, s.about("tasks/cancel", id, ""), 200, `"resultType":"complete"`)
	want(t, s.about("tasks/get", id, ""), 200, `"status":"cancelled"`)

	id = taskOf(t, call("protocol_error_job"))
	found[0].Finish(3)
	want(t, s.about("tasks/get", id, ""), 200, `"status":"failed"`, `"error":{"code":-32603,"message":"it broke"}`)
	if n := servers[0].Count("tools/call"); n != 3 {
		t.Errorf("%d calls were executed", n)
	}
	// A tool that says nothing of tasks is called as ever.
	want(t, call("greet"), 200, `"resultType":"complete"`, "Hello, !")
}

// What can be known before it is said before: the server is not asked.
func TestAToolThatNeedsATaskIsRefusedToAClientWithout(t *testing.T) {
	s, servers, _ := desks(t, mcptest.Legacy, "one")
	want(t, s.modern("1", "tools/call", "failing_job", `,"name":"failing_job"`), 400, `"code":-32021`,
		`"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	if n := servers[0].Count("tools/call"); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	listen := modernBody("9", "subscriptions/listen", `,"notifications":{"taskIds":["x"]}`)
	want(t, s.post(listen, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"), 400, `"code":-32021`)
}

// What the task of an older server asks for are its inputRequests, for its client alone.
func TestAnOlderTaskAsksItsClientOfTheExtension(t *testing.T) {
	s, servers, _ := desks(t, mcptest.Legacy, "one")
	id := taskOf(t, s.asking("tools/call", "multi_input", `,"name":"multi_input"`))
	other := taskOf(t, s.asking("tools/call", "confirm_delete", `,"name":"confirm_delete"`))
	r := s.about("tasks/get", id, "")
	want(t, r, 200, `"status":"input_required"`, `"inputRequests":{"elicitation-`, `"method":"elicitation/create"`, `"message":"first"`, `"message":"second"`)
	if strings.Contains(r.body, "task-1") {
		t.Errorf("the server's own id is seen: %s", r.body)
	}
	asks := map[string]string{} // keys, by what is asked
	for key, q := range wire.Members(wire.Get([]byte(r.body), "result", "inputRequests")) {
		text, _ := wire.Text(wire.Get(q, "params", "message"))
		asks[text] = key
	}
	if r := s.about("tasks/get", other, ""); !strings.Contains(r.body, `"message":"confirm"`) || strings.Contains(r.body, `"first"`) {
		t.Errorf("the other task asks %s", r.body)
	}
	answer := func(id, key, action string) {
		t.Helper()
		want(t, s.about("tasks/update", id, fmt.Sprintf(`,"inputResponses":{%q:{"action":%q}}`, key, action)), 200, `"resultType":"complete"`)
	}
	answer(other, asks["first"], "decline") // not its own
	answer(id, asks["first"], "accept")
	if r := s.about("tasks/get", id, ""); strings.Contains(r.body, asks["first"]) || !strings.Contains(r.body, asks["second"]) {
		t.Errorf("after one answer it asks %s", r.body)
	}
	answer(id, asks["second"], "decline")
	servers[0].Await(t, "both answers", func() bool { return len(servers[0].Answers()) == 2 })
	eventually(t, "the task ends", func() bool {
		r := s.about("tasks/get", id, "")
		return strings.Contains(r.body, `"status":"completed"`) && strings.Contains(r.body, "first:accept second:decline")
	})
	// Two tasks, one tasks/result each while they ask, and one at the end of the first.
	if n := servers[0].Count("tasks/result"); n != 3 {
		t.Errorf("%d tasks/result", n)
	}
}

// A client that listens hears of an older server's task all that tasks/get would show.
func TestNewsOfAnOlderTaskInWordsOfTheExtension(t *testing.T) {
	s, _, found := desks(t, mcptest.Legacy, "one")
	id := taskOf(t, s.withTasks("tools/call", "slow_compute", `,"name":"slow_compute","arguments":{"seconds":-1}`))
	found[0].Finish(1) // before anybody listens
	listen := strings.Replace(modernBody("9", "subscriptions/listen", `,"notifications":{"taskIds":["`+id+`"]}`),
		`Capabilities":{}`, `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	tap := s.tap("POST", "/mcp", listen, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
	if e := tap.next(); !strings.Contains(e, `"taskIds":["`+id+`"]`) {
		t.Fatalf("acknowledged: %s", e)
	}
	e := tap.next()
	for _, part := range []string{`"method":"notifications/tasks"`, id, `"status":"completed"`, `"ttlMs":60000`, `"text":"done"`, `subscriptionId":9`} {
		if !strings.Contains(e, part) {
			t.Errorf("no %s in %s", part, e)
		}
	}
}

// A client of 2025-11-25 has the tasks of a server with the extension in its own words.
func TestTasksOfTheExtensionInWordsOf2025(t *testing.T) {
	s, servers, found := desks(t, mcptest.Modern, "one")
	me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	mine := s.tap("GET", "/mcp", "", me)
	want(t, s.post(rpc("1", "tools/list", "{}"), me), 200, `{"name":"greet","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
		`{"name":"failing_job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)
	if r := s.modern("1", "tools/list", "", ""); !strings.Contains(r.body, `{"name":"greet","inputSchema":{"type":"object"}}`) {
		t.Errorf("a client of 2026-07-28 is shown %s", r.body)
	}
	r := s.post(slow("1", "slow_compute"), me)
	id := taskIn(t, r)
	want(t, r, 200, `{"task":{`, `"ttl":60000`, `"pollInterval":100`, `"status":"working"`)
	for _, bad := range []string{"ttlMs", "resultType", "task-1"} {
		if strings.Contains(r.body, bad) {
			t.Errorf("%s in %s", bad, r.body)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		want(t, s.post(rpc("6", method, `{"taskId":"`+id+`"}`), other), 200, `"code":-32602`, "Task not found")
	}
	want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, `"status":"working"`, id)
	want(t, s.post(rpc("3", "tasks/list", `{}`), me), 200, `"status":"working"`, id)
	result := s.later(rpc("4", "tasks/result", `{"taskId":"`+id+`"}`), me)
	servers[0].Await(t, "the task is looked at", func() bool { return servers[0].Count("tasks/get") >= 3 })
	found[0].Finish(1)
	want(t, <-result, 200, `"text":"done"`, `"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}`)
	if e := mine.next(); !strings.Contains(e, "notifications/tasks/status") || !strings.Contains(e, id) || !strings.Contains(e, `"ttl":60000`) || strings.Contains(e, `"done"`) {
		t.Errorf("the client heard %s", e)
	}
	want(t, s.post(rpc("5", "tasks/cancel", `{"taskId":"`+id+`"}`), me), 200, `"code":-32602`)

	id = taskIn(t, s.post(slow("6", "slow_compute"), me))
	want(t, s.post(rpc("7", "tasks/cancel", `{"taskId":"`+id+`"}`), me), 200, `"status":"cancelled"`, id)
	want(t, s.post(rpc("8", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"error"`, "cancelled")

	id = taskIn(t, s.post(slow("9", "protocol_error_job"), me))
	found[0].Finish(3)
	want(t, s.post(rpc("10", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, `"error":{"code":-32603,"message":"it broke"}`)
}

// A server that answers at once has answered: for its client of 2025-11-25, which has
// asked for a task, that is a task that is over.
func TestAnAnswerAtOnceIsATaskThatIsOver(t *testing.T) {
	s, servers, _ := desks(t, mcptest.Modern, "one")
	me, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	r := s.post(rpc("1", "tools/call", `{"name":"greet","arguments":{"name":"Ada"},"task":{}}`), me)
	id := taskIn(t, r)
	want(t, r, 200, `"status":"completed"`, `"createdAt":"`, `"ttl":900000`)
	want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, `"status":"completed"`)
	want(t, s.post(rpc("3", "tasks/result", `{"taskId":"`+id+`"}`), me), 200, "Hello, Ada!", `related-task":{"taskId":"`+id+`"}`)
	want(t, s.post(rpc("3", "tasks/result", `{"taskId":"`+id+`"}`), other), 200, "Task not found")
	want(t, s.post(rpc("4", "tasks/cancel", `{"taskId":"`+id+`"}`), me), 200, `"code":-32602`)
	want(t, s.post(rpc("5", "tasks/list", `{}`), me), 200, id)
	want(t, s.post(rpc("6", "tools/call", `{"name":"greet","arguments":{"name":"Ada"}}`), me), 200, `"content":[{"type":"text","text":"Hello, Ada!"}]`)
	if n := servers[0].Count("tools/call"); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// What a task of the extension asks for is put to its client of 2025-11-25, once, while
// that waits for the result.
func TestATaskOfTheExtensionAsksItsOlderClient(t *testing.T) {
	s, servers, _ := desks(t, mcptest.Modern, "one")
	me := s.declare(`{"elicitation":{}}`)
	id := taskIn(t, s.post(slow("1", "multi_input"), me))
	want(t, s.post(rpc("2", "tasks/get", `{"taskId":"`+id+`"}`), me), 200, `"status":"input_required"`)
	answers, end := s.answering(me, rpc("3", "tasks/result", `{"taskId":"`+id+`"}`), `{"action":"accept"}`)
	if len(answers) != 2 || !strings.Contains(answers[0], `related-task":{"taskId":"`+id+`"}`) {
		t.Errorf("the client was asked %q", answers)
	}
	if !strings.Contains(end, `"text":"done"`) {
		t.Errorf("the result is %s", end)
	}
	sent := string(servers[0].Requests("tasks/update")[0].Params)
	if n := servers[0].Count("tasks/update"); n != 1 || !strings.Contains(sent, `"first":{"action":"accept"}`) || !strings.Contains(sent, `"second":{"action":"accept"}`) {
		t.Errorf("%d updates, the first %s", n, sent)
	}
}

// answering posts a request, answers what is asked on its stream, and returns what was
// asked and the answer to the request.
func (s *site) answering(session, body, answer string) (asked []string, end string) {
	s.t.Helper()
	tp := s.tap("POST", "/mcp", body, session)
	for {
		e := tp.next()
		if !strings.Contains(e, `"method":`) {
			return asked, e
		}
		q, err := parse1(e)
		if err != nil {
			s.t.Fatal(err)
		}
		asked = append(asked, e)
		want(s.t, s.post(`{"jsonrpc":"2.0","id":`+q.id+`,"result":`+answer+`}`, session), 202)
	}
}
