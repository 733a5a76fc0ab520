package gateway

import (
	"context"
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// A client finds its tasks again when its session comes back, be it after a restart or
// after it was put away.

// renewTasks follows the tasks of a session that is back, as far as their client has not
// seen them end, and tells their states once. What it returns is over when the server of
// each has said what it knows.
func (svc *service) renewTasks(s *session.Session) (again func(ctx context.Context) (over bool)) {
	left := slices.DeleteFunc(svc.tasks.After(s.Owner(), 0), func(t *task.Task) bool { return svc.seenToEnd(t) })
	if len(left) == 0 {
		return nil
	}
	return func(ctx context.Context) bool {
		away := map[string]bool{} // servers that did not answer
		left = slices.DeleteFunc(left, func(t *task.Task) bool {
			if !away[t.Holder.Server] && !svc.renewTask(ctx, s, t) {
				away[t.Holder.Server] = true
			}
			return !away[t.Holder.Server]
		})
		return len(left) == 0
	}
}

// seenToEnd tells whether the client of a task has seen its end; it has seen one that was
// over when it began, which has no other state.
func (svc *service) seenToEnd(t *task.Task) bool {
	seen := svc.tasks.State(t)
	return seen == nil || task.Over(seen)
}

// renewTask is false if the server is away.
func (svc *service) renewTask(ctx context.Context, s *session.Session, t *task.Task) (over bool) {
	if s.Over() || svc.findTask(t.ID, t.Owner) == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, taskLook)
	defer cancel()
	asks := &message.Message{}
	asks.Method = mcp.TasksGet
	var state []byte
	var err error
	if svc.guarded(mcp.TasksGet, func() { state, err = svc.askTask(ctx, (&exchange{Message: asks, sess: s}).caller(s), t) }) != nil {
		return true
	}
	if err == nil {
		s.Out().Update("task "+t.ID, wire.AppendNotification(nil, mcp.NotifyTaskStatus, wire.Delete(state, "_meta")))
	}
	return err == nil || fault.From(mcp.TasksGet, err).Outcome == fault.Answered
}
