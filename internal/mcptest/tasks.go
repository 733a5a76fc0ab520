package mcptest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// TaskTools are the tools that a TaskServer serves, the fixtures that the
// official suite asks for.
var TaskTools = []string{
	`{"name":"greet","inputSchema":{"type":"object"}}`,
	`{"name":"slow_compute","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
	`{"name":"failing_job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	`{"name":"protocol_error_job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
	`{"name":"confirm_delete","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
	`{"name":"multi_input","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`,
	`{"name":"test_tool_with_task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
}

// TaskCapabilities are what a server with a TaskServer declares.
func TaskCapabilities(era Era) string {
	all := `{"tools":{"listChanged":true}`
	if era != Modern {
		all += `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	}
	if era != Legacy {
		all += `,"extensions":{"` + mcp.ExtensionTasks + `":{}}`
	}
	return all + "}"
}

// A TaskServer makes a server one with tasks: of 2025-11-25, or of the extension
// of 2026-07-28, or of both, to each request in the words of its era. Its ids are task-1, task-2 and so on, as those of any other.
type TaskServer struct {
	s *Server

	mu    sync.Mutex // guards the rest
	tasks []*task
}

type task struct {
	id      string
	due     time.Time // when it ends by itself; zero: when it is told to
	ended   chan struct{}
	state   string // once ended is closed
	result  string
	failure string
	waits   []string // keys of inputs that are missing
}

// ServeTasks puts tasks on a server whose tools are TaskTools.
func ServeTasks(s *Server) *TaskServer {
	d := &TaskServer{s: s}
	s.On(mcp.ToolsCall, d.call)
	for method, f := range map[string]func(*Request, *task, *taskParams) *Reply{
		mcp.TasksGet: d.get, mcp.TasksUpdate: d.update, mcp.TasksCancel: d.cancel, mcp.TasksResult: d.result,
	} {
		s.On(method, func(r *Request) *Reply { return d.about(r, f) })
	}
	s.On(mcp.TasksList, d.list)
	return d
}

type taskParams struct {
	Name      string
	Arguments struct {
		Name    string
		Seconds float64
	}
	Task *struct {
		TTL int `json:"ttl"`
	}
	TaskID string `json:"taskId"`
	Inputs map[string]struct {
		Content struct{ Name string }
	} `json:"inputResponses"`
	Meta struct {
		Capabilities struct {
			Extensions map[string]json.RawMessage
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

func (p *taskParams) declared() bool {
	return p.Meta.Capabilities.Extensions[mcp.ExtensionTasks] != nil
}

// isModern tells which era a request is of, and so what tasks its sender knows.
func isModern(r *Request) bool {
	_, ok := modernCall(r.Params)
	return ok
}

func readTask(r *Request) *taskParams {
	var p taskParams
	_ = json.Unmarshal(r.Params, &p) // what is missing is zero
	return &p
}

func textResult(text string, bad bool) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":%t}`, quoted, bad)
}

func (d *TaskServer) call(r *Request) *Reply {
	p := readTask(r)
	wants, modern := p.Task != nil, isModern(r)
	if modern {
		wants = p.declared()
	}
	switch p.Name {
	case "greet":
		return &Reply{Result: textResult("Hello, "+p.Arguments.Name+"!", false)}
	case "test_tool_with_task":
		if len(p.Inputs) == 0 {
			return &Reply{Result: `{"resultType":"input_required","inputRequests":{"user_name":` + elicitation + `},"requestState":"one"}`}
		}
	case "failing_job":
		if !wants && modern {
			return &Reply{Error: `{"code":-32021,"message":"tasks are required","data":{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}}`}
		}
		if !wants {
			return &Reply{Error: `{"code":-32601,"message":"a task is required"}`}
		}
	}
	if !wants {
		return &Reply{Result: textResult("done", false), Delay: time.Duration(p.Arguments.Seconds * float64(time.Second))}
	}
	t := d.begin(p)
	r.Progress(1)
	if modern {
		return &Reply{Result: `{"resultType":"task",` + d.state(t, modern, false)[1:]}
	}
	return &Reply{Result: `{"task":` + d.state(t, modern, false) + `}`}
}

const elicitation = `{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}`

// begin begins the task of a call.
func (d *TaskServer) begin(p *taskParams) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &task{id: "task-" + strconv.Itoa(len(d.tasks)+1), ended: make(chan struct{}), state: "completed", result: textResult("done", false)}
	d.tasks = append(d.tasks, t)
	after := time.Duration(p.Arguments.Seconds * float64(time.Second))
	switch p.Name {
	case "failing_job":
		t.result, after = textResult("it failed", true), time.Second
	case "protocol_error_job":
		t.state, t.result, t.failure = "failed", "", `{"code":-32603,"message":"it broke"}`
	case "confirm_delete":
		t.waits = []string{"confirm"}
		return t
	case "multi_input":
		t.waits = []string{"first", "second"}
		return t
	case "test_tool_with_task":
		for _, answer := range p.Inputs {
			t.result = textResult("Hello, "+answer.Content.Name, false)
		}
	}
	if after >= 0 {
		t.due = time.Now().Add(after)
	}
	return t
}

// settled reports whether a task has ended.
func (t *task) settledLocked() bool {
	select {
	case <-t.ended:
		return true
	default:
	}
	if !t.due.IsZero() && !time.Now().Before(t.due) {
		close(t.ended)
		return true
	}
	return false
}

// state is a task as it is told of.
func (d *TaskServer) state(t *task, modern, detailed bool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	status := "working"
	more := ""
	switch {
	case t.settledLocked():
		status = t.state
		if detailed && t.result != "" && status == "completed" {
			more = `,"result":` + t.result
		} else if detailed && status == "failed" {
			more = `,"error":` + t.failure
		}
	case len(t.waits) > 0:
		status = "input_required"
		var parts []string
		for _, key := range t.waits {
			parts = append(parts, strconv.Quote(key)+":"+elicitation)
		}
		if detailed {
			more = `,"inputRequests":{` + strings.Join(parts, ",") + `}`
		}
	}
	ttl, poll := "ttl", "pollInterval"
	if modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	} else {
		more = ""
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z",%q:60000,%q:100%s}`, t.id, status, ttl, poll, more)
}

// about serves a request that is about one task.
func (d *TaskServer) about(r *Request, f func(*Request, *task, *taskParams) *Reply) *Reply {
	p := readTask(r)
	modern := isModern(r)
	if modern && r.Method == mcp.TasksResult || !modern && r.Method == mcp.TasksUpdate {
		return nil
	}
	if modern && !p.declared() {
		return &Reply{Error: `{"code":-32021,"message":"not declared","data":{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}}`}
	}
	d.mu.Lock()
	i := slices.IndexFunc(d.tasks, func(t *task) bool { return t.id == p.TaskID })
	var t *task
	if i >= 0 {
		t = d.tasks[i]
	}
	d.mu.Unlock()
	if t == nil {
		return &Reply{Error: `{"code":-32602,"message":"unknown task"}`}
	}
	return f(r, t, p)
}

func (d *TaskServer) get(r *Request, t *task, _ *taskParams) *Reply {
	return &Reply{Result: d.state(t, isModern(r), true)}
}

func (d *TaskServer) update(_ *Request, t *task, p *taskParams) *Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	waited := len(t.waits)
	t.waits = slices.DeleteFunc(t.waits, func(key string) bool { _, ok := p.Inputs[key]; return ok })
	if waited > 0 && len(t.waits) == 0 && !t.settledLocked() {
		close(t.ended)
	}
	return &Reply{Result: `{"resultType":"complete"}`}
}

func (d *TaskServer) cancel(r *Request, t *task, _ *taskParams) *Reply {
	modern := isModern(r)
	d.mu.Lock()
	if t.settledLocked() && !modern {
		d.mu.Unlock()
		return &Reply{Error: `{"code":-32602,"message":"the task has ended"}`}
	}
	if !t.settledLocked() {
		t.state, t.result = "cancelled", textResult("canceled", true)
		close(t.ended)
	}
	d.mu.Unlock()
	if modern {
		return &Reply{Result: `{"resultType":"complete"}`}
	}
	return d.get(r, t, nil)
}

// result waits for the end of a task, and asks its client for what is missing.
func (d *TaskServer) result(r *Request, t *task, _ *taskParams) *Reply {
	d.mu.Lock()
	settled, due, waits := t.settledLocked(), t.due, slices.Clone(t.waits)
	d.mu.Unlock()
	if !settled && len(waits) > 0 {
		d.ask(r, t, waits)
		settled = true
	}
	if !settled {
		var alarm <-chan time.Time
		if !due.IsZero() {
			timer := time.NewTimer(time.Until(due))
			defer timer.Stop()
			alarm = timer.C
		}
		select {
		case <-t.ended:
		case <-alarm:
		case <-d.s.done:
		}
	}
	if t.failure != "" {
		return &Reply{Error: t.failure}
	}
	return &Reply{Result: t.result[:len(t.result)-1] + fmt.Sprintf(`,"_meta":{%q:{"taskId":%q}}}`, mcp.MetaRelatedTask, t.id)}
}

// ask puts what a task of 2025-11-25 waits for to the client, all at once, and ends
// the task with the actions that came back.
func (d *TaskServer) ask(r *Request, t *task, waits []string) {
	for _, key := range waits {
		r.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"mode":"form","message":%q,`+
			`"requestedSchema":{"type":"object","properties":{}},"_meta":{%q:{"taskId":%q}}}}`, t.id+" "+key, key, mcp.MetaRelatedTask, t.id))
	}
	var said []string
	for len(said) < len(waits) {
		d.s.mu.Lock()
		change := d.s.change
		d.s.mu.Unlock()
		said = said[:0]
		for _, key := range waits {
			if a := d.s.answerTo(t.id + " " + key); a != "" {
				said = append(said, key+":"+a)
			}
		}
		if len(said) == len(waits) {
			break
		}
		select {
		case <-change:
		case <-t.ended:
			return
		case <-d.s.done:
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.settledLocked() {
		t.waits, t.result = nil, textResult(strings.Join(said, " "), false)
		close(t.ended)
	}
}

// answerTo is the action of the answer that came to a request of the server, or "error";
// "" if none has come.
func (s *Server) answerTo(id string) string {
	for _, raw := range s.Answers() {
		var a struct {
			ID     any
			Result struct{ Action string }
		}
		if json.Unmarshal(raw, &a) == nil && a.ID == id {
			return cmp.Or(a.Result.Action, "error")
		}
	}
	return ""
}

// list lists the tasks of all, as a server with one session does.
func (d *TaskServer) list(r *Request) *Reply {
	if isModern(r) {
		return nil
	}
	d.mu.Lock()
	all := slices.Clone(d.tasks)
	d.mu.Unlock()
	parts := make([]string, len(all))
	for i, t := range all {
		parts[i] = d.state(t, false, false)
	}
	return &Reply{Result: `{"tasks":[` + strings.Join(parts, ",") + `]}`}
}

// Finish ends the nth task, from 1, and tells of it; a server of both eras in the words
// of 2025-11-25.
func (d *TaskServer) Finish(n int) {
	d.mu.Lock()
	t := d.tasks[n-1]
	if !t.settledLocked() {
		close(t.ended)
	}
	d.mu.Unlock()
	method, modern := mcp.NotifyTaskStatus, d.s.cfg.Era == Modern
	if modern {
		method = mcp.NotifyTasks
	}
	d.s.Notify(method, d.state(t, modern, true))
}
