package upstream

import (
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
func (u *Upstream) taskChanged(params []byte) {
	id, ok := wire.Text(wire.Get(params, "taskId"))
	if !ok {
		u.ignored.Add(1)
		return
	}
	if over(params) {
		u.forgetTask(id)
	}
	if u.opts.Updated != nil {
		u.opts.Updated(TaskPrefix+id, params)
	}
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
func (u *Upstream) tail(id int64, c *Call, result []byte) {
	if c.Progress == nil || c.Method != mcp.ToolsCall || !isTask(result) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tails == nil {
		u.tails = map[int64]*Call{}
	}
	u.tails[id] = c
	for oldest := range u.tails {
		if len(u.tails) <= maxTails {
			return
		}
		for other := range u.tails {
			oldest = min(oldest, other)
		}
		delete(u.tails, oldest)
	}
}

const (
	longestTask = 24 * time.Hour // for which its client is remembered
)

// followTask remembers whose a task is while it goes on: its server may ask
// when the call that began it has long been answered (2025-11-25
// basic/utilities/tasks).
func (u *Upstream) followTask(c *Call, m *wire.Message) {
	if u.era.Modern {
		return
	}
	state := wire.Get(m.Result, "task")
	id, began := wire.Text(wire.Get(state, "taskId"))
	switch {
	case c.Method == mcp.ToolsCall && began && !over(state):
		u.addTask(id, u.clientOf(c), state)
	case c.Method == mcp.TasksResult, (c.Method == mcp.TasksGet || c.Method == mcp.TasksCancel) && over(m.Result):
		u.forgetTask(c.Name)
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

func (u *Upstream) addTask(id string, client uint64, state []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	keep := u.opts.Server.CallTimeout
	if ms, ok := wire.Int(wire.Get(state, "ttl")); ok && ms > 0 {
		keep = time.Duration(min(ms, longestTask.Milliseconds())) * time.Millisecond
	}
	until := time.Since(u.born) + keep
	if len(u.tasks) >= maxTasks {
		clear(u.tasks)
		u.overflowUntil = max(u.overflowUntil, until)
	}
	if u.tasks == nil {
		u.tasks = map[string]*openTask{}
	}
	u.tasks[id] = &openTask{client, until}
}

func (u *Upstream) forgetTask(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tasks, id)
}
