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
// server decides on. A client has all tasks in the words of its own era.
const (
	taskPage  = 50               // tasks on one page of a list
	taskLook  = 10 * time.Second // how long a list waits for the state of a task
	watchWait = time.Second      // how long a new task waits for its news to be subscribed to
)

// asksForTask tells whether a client of 2025-11-25 asks for a task.
func (x *exchange) asksForTask() bool {
	return !x.Modern && x.MayBeTask() && (x.sess == nil || x.sess.Protocol() == mcp.LatestLegacy)
}

// takeTask lets a call be answered with a task where its client knows them.
func (c *caller) takeTask(out *everline.Call) {
	switch {
	case c.Modern:
		out.Task = c.DeclaresTasks()
	case c.asksForTask() && c.target.Tasks.ByServer():
		out.Capabilities = declaresTasks(out.Capabilities)
	}
}

// noteTask returns the result of an answer. If it is a task, that is remembered,
// and is told in the words of its client, with our id in place of the server's.
func (svc *service) noteTask(ctx context.Context, c *caller, use *sessionUse, answer *everline.Answer) []byte {
	result := answer.Result
	if result == nil || !c.MayBeTask() {
		return result
	}
	kind, state, theirs, ok := task.Of(result)
	if !ok && c.asksForTask() && c.target.Tasks.ByServer() {
		return svc.taskAtOnce(c, use, answer)
	}
	if !ok || kind != task.Core && !c.Modern && !c.asksForTask() {
		return result
	}
	t := svc.newTask(c, use, answer, theirs, kind, task.TimeToLive(state, kind))
	if !c.Modern {
		svc.tasks.Note(t, task.TimeToLive(state, kind), wire.Set(task.State(state, kind, task.Core), wire.AppendString(nil, t.ID), "taskId"))
		c.late.Store(true)
		news := new(taskNews)
		c.sent = append(c.sent, news.open)
		svc.followTask(ctx, t, c.sess, news)
	}
	return task.Relate(task.Begun(result, state, kind, task.KindOf(c.Modern), t.ID), t.ServerID, t.ID)
}

func (svc *service) newTask(c *caller, use *sessionUse, answer *everline.Answer, theirs string, kind task.Kind, ttl time.Duration) *task.Task {
	t := &task.Task{ServerID: theirs, Kind: kind, Holder: *answer, Tool: c.target, Client: c.id}
	t.Holder.Result = nil
	var onDrop []func()
	switch {
	case use.sess != nil:
		t.Owner = use.sess.Owner()
	case use.end != nil:
		onDrop, use.task = append(onDrop, use.end), true
	}
	svc.tasks.Add(t, use.isolated, ttl, onDrop...)
	return t
}

// taskAtOnce is the task of a client that has asked for one, whose server has answered
// without: 2025-11-25 has no other answer to such a request.
func (svc *service) taskAtOnce(c *caller, use *sessionUse, answer *everline.Answer) []byte {
	t := svc.newTask(c, use, answer, "", task.Extension, keptAtOnce)
	svc.tasks.End(t, wire.Delete(answer.Result, "resultType"))
	return wire.Set([]byte("{}"), svc.tasks.Ended(t, task.Core), "task")
}

// keptAtOnce is how long the result of such a task is kept.
const keptAtOnce = 15 * time.Minute

// followTask hands the news of a task to the client of 2025-11-25 that it is for, as far
// as news lets them through.
func (svc *service) followTask(ctx context.Context, t *task.Task, s *session.Session, news *taskNews) {
	if s == nil {
		return
	}
	w := svc.tasks.Watch(t)
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	end, err := svc.backend.WatchTask(ctx, svc.holderOf(t, s), t.Holder.Server, t.ServerID, func(params []byte) {
		if wire.Get(params, "taskId") == nil {
			return // a new generation of the server has been told that we listen
		}
		params = task.Relate(wire.Set(params, wire.AppendString(nil, t.ID), "taskId"), t.ServerID, t.ID)
		svc.tasks.Note(t, task.TimeToLive(params, t.Kind), nil)
		frame := wire.AppendNotification(nil, mcp.NotifyTaskStatus, task.State(params, t.Kind, task.Core))
		news.tell(func() {
			if out := s.Outlet(); out != nil {
				out.Log(frame)
			}
		})
	})
	switch {
	case err == nil:
		svc.tasks.Watching(t, w, end)
	case fault.From(mcp.TasksGet, err).Outcome != fault.Answered: // the server is away
		svc.tasks.Unwatch(t, w)
	}
}

// holderOf is the session whose generation of the server has a task, when s asks for it;
// nil for the shared one.
func (svc *service) holderOf(t *task.Task, s *session.Session) *everline.Session {
	if of := svc.tasks.Session(t); of != nil || s == nil {
		return of
	}
	return &s.Isolated // as it was before a restart, or before it was put away
}

// taskRequest answers the requests about tasks.
func (svc *service) taskRequest(ctx context.Context, x *exchange) message.Answer {
	switch method := x.Method; {
	case x.Modern && (method == mcp.TasksList || method == mcp.TasksResult), !x.Modern && method == mcp.TasksUpdate:
		return x.NoMethod()
	case x.Modern && !svc.offer().ext, !x.Modern && svc.offer().tasks == "":
		return x.NoMethod()
	case x.Modern && !x.DeclaresTasks():
		return *x.lacksTasks()
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
	if s := svc.pinNamed(x); s != nil { // this is a use of it
		defer svc.sessions.Unpin(s)
	}
	t := svc.findTask(id, svc.ownerOf(x))
	if t == nil {
		return *x.Refusal(mcp.CodeInvalidParams, "Task not found: "+id, nil)
	}
	ctx, p, err := svc.inflight.track(ctx, x)
	if err != nil {
		return x.Failure(fault.From(x.Method, err))
	}
	defer svc.inflight.end(p)
	result, err := svc.askTask(ctx, c, t)
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

// findTask is a task of a session, or of none; nil if there is none: so is that of a
// tool which its client may not see any more.
func (svc *service) findTask(id, owner string) *task.Task {
	if t := svc.tasks.Find(id, owner); t != nil && svc.sees(t) {
		return t
	}
	return nil
}

func (svc *service) sees(t *task.Task) bool {
	return svc.backend.May().Decide(t.Holder.Server, t.Tool.Name, t.Tool.ReadOnly).Allowed
}

// ownerOf is the session that a request comes from, as tasks know it; "" for none. One
// that has a name need not be there.
func (svc *service) ownerOf(x *exchange) string {
	if x.sess != nil {
		return x.sess.Owner()
	}
	if name, ok := x.sessionName(); ok {
		return session.OwnerOfName(name)
	}
	return ""
}

// askTask answers a request about a task: here if its server has it no more, else
// there, in the server's words.
func (svc *service) askTask(ctx context.Context, c *caller, t *task.Task) ([]byte, error) {
	if svc.tasks.Result(t) == nil {
		if !c.Modern {
			svc.followTask(ctx, t, c.sess, &taskNews{isOpen: true}) // after a restart nobody does
		}
		c.asked.Store(true)
		result, err := svc.askHolder(ctx, c, t)
		if svc.tasks.Result(t) == nil { // else it was lost meanwhile
			return result, err
		}
	}
	return svc.askEnded(c, t)
}

// askHolder is askTask for a task that its server has.
func (svc *service) askHolder(ctx context.Context, c *caller, t *task.Task) ([]byte, error) {
	switch {
	case t.Kind == task.KindOf(c.Modern):
		params := wire.Set(wire.Delete(c.Params, "_meta", mcp.MetaSession), wire.AppendString(nil, t.ServerID), "taskId")
		return svc.putTask(ctx, c, t, taskMethod(c), params)
	case c.Modern:
		return svc.askCore(ctx, c, t)
	default:
		return svc.askExtension(ctx, c, t)
	}
}

// taskMethod is what a request asks of one task: a list asks for the state of each.
func taskMethod(c *caller) string {
	if c.Method == mcp.TasksList {
		return mcp.TasksGet
	}
	return c.Method
}

// askEnded is askTask for a task that no server has any more.
func (svc *service) askEnded(c *caller, t *task.Task) ([]byte, error) {
	switch method := taskMethod(c); {
	case method == mcp.TasksResult:
		return task.Related(svc.tasks.Result(t), t.ID), nil
	case method == mcp.TasksCancel && !c.Modern:
		return nil, errTaskOver(method)
	case c.Modern && method != mcp.TasksGet:
		return nil, nil // acknowledged: it has nothing to stop, and waits for no input
	default:
		return svc.tasks.Ended(t, task.KindOf(c.Modern)), nil
	}
}

// putTask puts a request about a task to the server that has it, in the server's own
// words.
func (svc *service) putTask(ctx context.Context, c *caller, t *task.Task, method string, params []byte) ([]byte, error) {
	out := svc.taskCall(c, t, method, params)
	out.Client = taskClient{c, t}
	c.fill(out)
	return svc.put(ctx, t, out)
}

// taskCall is a request about a task, but for its client.
func (svc *service) taskCall(c *caller, t *task.Task, method string, params []byte) *everline.Call {
	out := &everline.Call{
		Method: method, Server: t.Holder.Server, Name: t.ServerID, Session: svc.holderOf(t, c.sess), Params: params, Capabilities: c.serves.Declaration(),
		By: svc.callers.of(c.exchange),
	}
	if t.Kind == task.Extension && !c.Modern {
		out.Capabilities = declaresTasks(out.Capabilities)
	}
	if t.Holder.Mortal {
		out.Generation = t.Holder.Generation
	}
	return out
}

// put sends a request about a task. What the server does not know any more is
// forgotten, and what its process had is lost with it.
func (svc *service) put(ctx context.Context, t *task.Task, out *everline.Call) ([]byte, error) {
	method := out.Method
	answer, err := svc.backend.Do(ctx, out)
	if f := fault.From(method, err); f != nil {
		switch {
		case f.Kind == fault.NotFound && t.Holder.Mortal:
			svc.tasks.End(t, lost(t, "the process that had the task has ended"))
		case f.Kind == fault.NotFound || method == mcp.TasksGet && f.RPC != nil && f.RPC.Code == mcp.CodeInvalidParams:
			svc.tasks.Drop(t)
		}
		return nil, err
	}
	result := task.Relate(answer.Result, t.ServerID, t.ID)
	if id, _ := wire.Text(wire.Get(result, "taskId")); id == t.ServerID && method != mcp.TasksResult {
		result = wire.Set(result, wire.AppendString(nil, t.ID), "taskId")
		svc.tasks.Note(t, task.TimeToLive(result, t.Kind), bytes.Clone(task.State(result, t.Kind, task.Core)))
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
	all := slices.DeleteFunc(svc.tasks.After(c.sess.Owner(), after), func(t *task.Task) bool { return !svc.sees(t) })
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
		state, err := svc.askTask(ctx, c, t)
		switch {
		case err == nil:
			return wire.Delete(state, "_meta")
		case svc.tasks.Find(t.ID, t.Owner) != nil:
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
	owner := svc.ownerOf(x)
	seen := map[string]bool{}
	var all []*task.Task
	for raw := range wire.Elements(ids) {
		id, _ := wire.Text(raw)
		if t := svc.findTask(id, owner); t != nil && !seen[id] && len(all) < stream.MaxSubscribed {
			seen[id] = true
			all = append(all, t)
		}
	}
	return all
}
