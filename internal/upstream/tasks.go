package upstream

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// TaskPrefix begins the names under which tasks are subscribed to like
// resources: the rest is the server's own id of the task. Their updates carry
// the params of the task's notification: of 2025-11-25, which come unasked, or
// of the extension io.modelcontextprotocol/tasks, which are listened for.
const TaskPrefix = "everline-task:"

// maxTails is for how many tasks progress may go on at a time.
const maxTails = 1024

// taskChanged hands the news of a task to who subscribed to it.
func (cs *callers) taskChanged(params []byte) {
	id, ok := wire.Text(wire.Get(params, "taskId"))
	if !ok {
		cs.ignored.Add(1)
		return
	}
	if over(params) {
		cs.forgetTask(id)
	}
	if !cs.era.Modern && cs.early.keep(id, params) {
		return
	}
	cs.updated(TaskPrefix+id, params)
}

// An earlyNews keeps what a server of 2025-11-25 tells of tasks that nobody listens to
// yet: the answer that names the task may be on its way. Of each it keeps the newest.
type earlyNews struct {
	mu    sync.Mutex // guards the rest; nothing waits under it, but what is told is told under it
	heard map[string]bool
	kept  map[string][]byte // by the server's id
	order []string          // of those that are kept, the oldest first
}

const (
	maxEarly     = 64       // tasks of one generation
	maxEarlyNews = 64 << 10 // bytes of each
)

// keep keeps news, and is false if somebody listens.
func (e *earlyNews) keep(id string, params []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard[id] || len(params) > maxEarlyNews {
		return false
	}
	if e.kept == nil {
		e.kept = map[string][]byte{}
	}
	if e.kept[id] == nil {
		e.order = append(e.order, id)
	}
	e.kept[id] = bytes.Clone(params)
	if len(e.order) > maxEarly {
		delete(e.kept, e.order[0])
		e.order = e.order[1:]
	}
	return true
}

// listen lets a task be listened to from now on, and tells what was kept of it, which
// does not block, before anything newer.
func (e *earlyNews) listen(id string, tell func(news []byte)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard == nil {
		e.heard = map[string]bool{}
	}
	e.heard[id] = true
	if news := e.kept[id]; news != nil {
		delete(e.kept, id)
		e.order = slices.DeleteFunc(e.order, func(other string) bool { return other == id })
		tell(news)
	}
}

// leave is the end of that.
func (e *earlyNews) leave(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.heard, id)
}

// listenTask serves the subscription to a task of 2025-11-25, whose server tells of all
// of them unasked.
func (cs *callers) listenTask(method, name string) {
	id := strings.TrimPrefix(name, TaskPrefix)
	if method == mcp.ResourcesUnsubscribe {
		cs.early.leave(id)
		return
	}
	cs.early.listen(id, func(news []byte) { cs.updated(name, news) })
}

// isTask tells whether a result stands for a task that will have the real one,
// in the way of either revision.
func isTask(result []byte) bool {
	if wire.IsObject(wire.Get(result, "task")) {
		return wire.Get(result, "task", "taskId") != nil
	}
	kind, _ := wire.Text(wire.Get(result, "resultType"))
	return kind == "task"
}

// tail keeps the progress of a request whose answer was a task: its token is
// good for as long as the task (2025-11-25 basic/utilities/tasks, "Progress
// Support"). The oldest of too many is dropped.
func (cs *callers) tail(id int64, c *Call, result []byte) {
	if c.Progress == nil || c.Method != mcp.ToolsCall || !isTask(result) {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.tails == nil {
		cs.tails = map[int64]*Call{}
	}
	cs.tails[id] = c
	for oldest := range cs.tails {
		if len(cs.tails) <= maxTails {
			return
		}
		for other := range cs.tails {
			oldest = min(oldest, other)
		}
		delete(cs.tails, oldest)
	}
}

const (
	longestTask = 24 * time.Hour // for which its client is remembered
)

// followTask remembers whose a task is while it goes on: its server may ask
// when the call that began it has long been answered (2025-11-25
// basic/utilities/tasks).
func (cs *callers) followTask(c *Call, m *wire.Message) {
	if cs.era.Modern {
		return
	}
	state := wire.Get(m.Result, "task")
	id, began := wire.Text(wire.Get(state, "taskId"))
	switch {
	case c.Method == mcp.ToolsCall && began && !over(state):
		cs.addTask(id, cs.clientOf(c), state)
	case c.Method == mcp.TasksResult, (c.Method == mcp.TasksGet || c.Method == mcp.TasksCancel) && over(m.Result):
		cs.forgetTask(c.Name)
	}
}

// over tells whether a task has ended.
func over(state []byte) bool {
	switch status, _ := wire.Text(wire.Get(state, "status")); status {
	case "completed", "failed", "cancelled":
		return true
	default:
		return false
	}
}

func (cs *callers) addTask(id string, client uint64, state []byte) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	keep := cs.opts.Server.CallTimeout
	if ms, ok := wire.Int(wire.Get(state, "ttl")); ok && ms > 0 {
		keep = time.Duration(min(ms, longestTask.Milliseconds())) * time.Millisecond
	}
	until := cs.now() + keep
	if len(cs.tasks) >= maxTasks {
		clear(cs.tasks)
		cs.overflowUntil = max(cs.overflowUntil, until)
	}
	if cs.tasks == nil {
		cs.tasks = map[string]*openTask{}
	}
	cs.tasks[id] = &openTask{client, until}
}

func (cs *callers) forgetTask(id string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.tasks, id)
}
