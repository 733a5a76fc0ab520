package gateway

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// Tasks are of two kinds: those of 2025-11-25 (basic/utilities/tasks), which
// the client asks for, and those of the extension of 2026-07-28, which the
// server decides on. A client can have those of its own era alone.
const (
	taskPage  = 50               // tasks on one page of a list
	taskLook  = 10 * time.Second // how long a list waits for the state of a task
	watchWait = time.Second      // how long a new task waits for its news to be subscribed to
)

// noteTask returns the result of an answer. If it is a task, that is remembered,
// and has our id in place of the server's.
func (svc *service) noteTask(ctx context.Context, c *caller, use *sessionUse, answer *everline.Answer) []byte {
	result := answer.Result
	if result == nil || !c.MayBeTask() {
		return result
	}
	path, ttlKey := []string{"task", "taskId"}, "ttl"
	state := wire.Get(result, "task")
	if c.Modern {
		path, ttlKey, state = path[1:], "ttlMs", result
		if kind, _ := wire.Text(wire.Get(result, "resultType")); kind != "task" {
			return result
		}
	}
	theirs, ok := wire.Text(wire.Get(state, "taskId"))
	if !ok {
		return result
	}
	t := &task.Task{ServerID: theirs, Holder: *answer, Tool: c.target, Session: use.isolated}
	t.Holder.Result = nil
	var onDrop []func()
	switch {
	case use.sess != nil:
		t.Owner = use.sess.ID()
	case use.end != nil:
		onDrop, use.task = append(onDrop, use.end), true
	}
	svc.tasks.Add(t, task.TimeToLive(state, ttlKey), onDrop...)
	id := wire.AppendString(nil, t.ID)
	if !c.Modern {
		svc.tasks.Note(t, task.TimeToLive(state, ttlKey), wire.Set(bytes.Clone(state), id, "taskId"))
		c.late.Store(true)
		svc.followTask(ctx, t, use.sess)
	}
	return task.Relate(wire.Set(result, id, path...), t.ServerID, t.ID)
}

// followTask hands the news of a task to the client that it is for.
func (svc *service) followTask(ctx context.Context, t *task.Task, s *session.Session) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	end, err := svc.backend.WatchTask(ctx, t.Session, t.Holder.Server, t.ServerID, func(params []byte) {
		if wire.Get(params, "taskId") == nil {
			return // a new generation of the server has been told that we listen
		}
		params = task.Relate(wire.Set(params, wire.AppendString(nil, t.ID), "taskId"), t.ServerID, t.ID)
		svc.tasks.Note(t, task.TimeToLive(params, "ttl"), nil)
		if out := s.Outlet(); out != nil {
			out.Log(wire.AppendNotification(nil, mcp.NotifyTaskStatus, params))
		}
	})
	if err == nil {
		svc.tasks.OnDrop(t, end)
	}
}

// taskRequest answers the requests about tasks.
func (svc *service) taskRequest(ctx context.Context, x *exchange) message.Answer {
	switch method := x.Method; {
	case x.Modern && (method == mcp.TasksList || method == mcp.TasksResult), !x.Modern && method == mcp.TasksUpdate:
		return x.NoMethod()
	case x.Modern && !svc.offer().ext, !x.Modern && svc.offer().tasks == "":
		return x.NoMethod()
	case x.Modern && !x.DeclaresTasks():
		return *x.Refusal(mcp.CodeMissingCapability, "Missing required client capability: "+mcp.ExtensionTasks,
			[]byte(`{"requiredCapabilities":{"extensions":{"`+mcp.ExtensionTasks+`":{}}}}`))
	}
	if x.BadLevel() {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	c := x.caller(x.sess)
	if x.Method == mcp.TasksList {
		return svc.listTasks(ctx, c)
	}
	id, ok := wire.Text(x.Fields.TaskID)
	if !ok {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: the taskId is missing", nil)
	}
	t := svc.findTask(id, svc.clientOf(x))
	if t == nil {
		return *x.Refusal(mcp.CodeInvalidParams, "Task not found: "+id, nil)
	}
	ctx, p, err := svc.inflight.track(ctx, x)
	if err != nil {
		return x.Failure(fault.From(x.Method, err))
	}
	defer svc.inflight.end(p)
	c.asked = true
	result, err := svc.askTask(ctx, c, t, x.Method, x.Params)
	f := fault.From(x.Method, err)
	switch {
	case f == nil:
		return x.Success(result)
	case f.Kind == fault.NotFound:
		return *x.Refusal(mcp.CodeInvalidParams, "Task not found: "+f.Reason(), nil)
	default:
		return failed(ctx, x.Message, err)
	}
}

// findTask is a task of a client, nil if there is none: so is that of a tool which its
// client may not see any more.
func (svc *service) findTask(id string, client uint64) *task.Task {
	if t := svc.tasks.Find(id, client); t != nil && svc.sees(t) {
		return t
	}
	return nil
}

func (svc *service) sees(t *task.Task) bool {
	return svc.backend.May().Decide(t.Holder.Server, t.Tool.Name, t.Tool.ReadOnly).Allowed
}

// clientOf is the client with a session that a request comes from; 0 for none.
func (svc *service) clientOf(x *exchange) uint64 {
	if x.sess != nil {
		return x.sess.ID()
	}
	if s := svc.pinNamed(x); s != nil {
		defer svc.sessions.Unpin(s)
		return s.ID()
	}
	return 0
}

// askTask puts a request about a task to the server that has it. What the
// server does not know any more is forgotten.
func (svc *service) askTask(ctx context.Context, c *caller, t *task.Task, method string, params []byte) ([]byte, error) {
	out := &everline.Call{
		Method: method, Server: t.Holder.Server, Name: t.ServerID, Session: t.Session,
		Params:       wire.Set(wire.Delete(params, "_meta", mcp.MetaSession), wire.AppendString(nil, t.ServerID), "taskId"),
		Client:       taskClient{c, t},
		By:           svc.callers.of(c.exchange),
		Capabilities: c.serves.Declaration(),
	}
	c.fill(out)
	if t.Holder.Mortal {
		out.Generation = t.Holder.Generation
	}
	answer, err := svc.backend.Do(ctx, out)
	if f := fault.From(method, err); f != nil {
		if f.Kind == fault.NotFound || method == mcp.TasksGet && f.RPC != nil && f.RPC.Code == mcp.CodeInvalidParams {
			svc.tasks.Drop(t)
		}
		return nil, err
	}
	result := task.Relate(answer.Result, t.ServerID, t.ID)
	if id, _ := wire.Text(wire.Get(result, "taskId")); id == t.ServerID && method != mcp.TasksResult {
		result = wire.Set(result, wire.AppendString(nil, t.ID), "taskId")
		key, seen := "ttl", result
		if c.Modern {
			key, seen = "ttlMs", nil
		}
		svc.tasks.Note(t, task.TimeToLive(result, key), bytes.Clone(seen))
	}
	return result, nil
}

// listTasks answers tasks/list with the tasks of this client alone: a server
// that all clients share lists those of all.
func (svc *service) listTasks(parent context.Context, c *caller) message.Answer {
	var after uint64
	if c.Fields.Cursor != nil && !wire.IsNull(c.Fields.Cursor) {
		text, _ := wire.Text(c.Fields.Cursor)
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return *c.Refusal(mcp.CodeInvalidParams, "Invalid params: unknown cursor", nil)
		}
		after = n
	}
	ctx, p, err := svc.inflight.track(parent, c.exchange)
	if err != nil {
		return c.Failure(fault.From(c.Method, err))
	}
	defer svc.inflight.end(p)
	all := slices.DeleteFunc(svc.tasks.After(c.id, after), func(t *task.Task) bool { return !svc.sees(t) })
	page := all[:min(len(all), taskPage)]
	states := svc.taskStates(ctx, c, page)
	b := []byte(`{"tasks":[`)
	for _, state := range states {
		if state == nil {
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, state...)
	}
	b = append(b, ']')
	if len(all) > len(page) {
		b = wire.AppendString(append(b, `,"nextCursor":`...), strconv.FormatUint(page[len(page)-1].Serial(), 10))
	}
	return c.Success(append(b, '}'))
}

// taskStates asks for the states of tasks, all at the same time. One whose
// server does not say stands as it was seen last; nil for one that is lost.
func (svc *service) taskStates(ctx context.Context, c *caller, page []*task.Task) [][]byte {
	ctx, cancel := context.WithTimeout(ctx, taskLook)
	defer cancel()
	states := make([][]byte, len(page))
	var work sync.WaitGroup
	look := func(t *task.Task) []byte {
		state, err := svc.askTask(ctx, c, t, mcp.TasksGet, nil)
		switch {
		case err == nil:
			return wire.Delete(state, "_meta")
		case svc.tasks.Find(t.ID, c.id) != nil:
			return svc.tasks.State(t)
		default:
			return nil
		}
	}
	for i, t := range page {
		work.Go(func() {
			_ = svc.guarded(mcp.TasksList, func() { states[i] = look(t) }) // what panics is left out
		})
	}
	work.Wait()
	return states
}

// A taskClient is the client of a request about a task: what the server asks
// and says meanwhile names the task by our id, and the answers by the server's.
type taskClient struct {
	*caller
	t *task.Task
}

// Ask is caller.Ask.
func (c taskClient) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	result, err := c.caller.Ask(ctx, method, task.Relate(params, c.t.ServerID, c.t.ID))
	return task.Relate(result, c.t.ID, c.t.ServerID), err
}

// Notify is caller.Notify.
func (c taskClient) Notify(method string, params []byte) {
	c.caller.Notify(method, task.Relate(params, c.t.ServerID, c.t.ID))
}

// listenedTasks are the tasks that a listen asks for and its client has.
func (svc *service) listenedTasks(x *exchange, ids []byte) []*task.Task {
	if !x.DeclaresTasks() {
		return nil
	}
	client := svc.clientOf(x)
	seen := map[string]bool{}
	var all []*task.Task
	for raw := range wire.Elements(ids) {
		id, _ := wire.Text(raw)
		if t := svc.findTask(id, client); t != nil && !seen[id] && len(all) < stream.MaxSubscribed {
			seen[id] = true
			all = append(all, t)
		}
	}
	return all
}
