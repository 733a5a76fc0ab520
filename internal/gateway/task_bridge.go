package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

// A client of the one era has the tasks of servers of the other. In 2025-11-25 the
// result of a task is waited for with tasks/result, while which the server asks its
// client; in the extension one looks again and again, and answers with tasks/update.

// askExtension answers a client of 2025-11-25 about a task of the extension.
func (svc *service) askExtension(ctx context.Context, c *caller, t *task.Task) ([]byte, error) {
	switch taskMethod(c) {
	case mcp.TasksResult:
		return svc.awaitTask(ctx, c, t)
	case mcp.TasksCancel:
		state, err := svc.putTask(ctx, c, t, mcp.TasksGet, about(t))
		if err == nil && task.Over(state) {
			err = errTaskOver(c.Method)
		}
		if err == nil {
			_, err = svc.putTask(ctx, c, t, mcp.TasksCancel, about(t))
		}
		if err != nil {
			return nil, err
		}
	}
	state, err := svc.putTask(ctx, c, t, mcp.TasksGet, about(t))
	return task.State(state, task.Extension, task.Core), err
}

// awaitMost is how long a tasks/result waits for a task of the extension; its client
// may ask again.
const awaitMost = 10 * time.Minute

// awaitTask looks at a task of the extension until it has ended. What it wants to know
// meanwhile its client is asked, each question once.
func (svc *service) awaitTask(ctx context.Context, c *caller, t *task.Task) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitMost)
	defer cancel()
	answered := map[string]bool{}
	for {
		state, err := svc.putTask(ctx, c, t, mcp.TasksGet, about(t))
		if err != nil {
			return nil, err
		}
		switch task.Status(state) {
		case task.Completed:
			return task.Related(wire.Delete(wire.Get(state, "result"), "resultType"), t.ID), nil
		case task.Failed:
			return nil, taskError(wire.Get(state, "error"))
		case task.Cancelled:
			return nil, &fault.Fault{Kind: fault.Canceled, Op: c.Method, Server: t.Holder.Server, Outcome: fault.Answered, Err: errors.New("the task was cancelled")}
		case task.InputRequired:
			if err := svc.bringInput(ctx, c, t, state, answered); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(task.Pause(state)):
		case <-ctx.Done():
			return nil, fault.From(c.Method, ctx.Err())
		}
	}
}

// taskError is the JSON-RPC error that a task has ended with.
func taskError(raw []byte) *fault.Fault {
	code, text, raw := wire.StrictError(raw)
	return &fault.Fault{Kind: fault.RPC, Op: mcp.ToolsCall, Outcome: fault.Answered, RPC: &fault.RPCError{Code: code, Message: text, Raw: raw}}
}

// bringInput asks the client what its task wants to know and was not told yet, and
// brings the server the answers.
func (svc *service) bringInput(ctx context.Context, c *caller, t *task.Task, state []byte, answered map[string]bool) error {
	asks := []byte("{}")
	for key, q := range wire.Members(wire.Get(state, "inputRequests")) {
		if !answered[key] {
			answered[key] = true
			asks = wire.Set(asks, q, key)
		}
	}
	if string(asks) == "{}" {
		return nil
	}
	client := taskClient{c, t}
	responses, err := rounds.Inputs(ctx, asks, func(ctx context.Context, method string, params []byte) ([]byte, error) {
		return svc.guardedAsk(client)(ctx, method, wire.Set(params, wire.AppendString(nil, t.ServerID), "_meta", mcp.MetaRelatedTask, "taskId"))
	})
	if err != nil {
		return rounds.Failed(c.Method, err)
	}
	_, err = svc.putTask(ctx, c, t, mcp.TasksUpdate, wire.Set(about(t), responses, "inputResponses"))
	return err
}

// askCore answers a client of the extension about a task of 2025-11-25.
func (svc *service) askCore(ctx context.Context, c *caller, t *task.Task) ([]byte, error) {
	switch c.Method {
	case mcp.TasksUpdate:
		if w := svc.waits.of(t); w != nil {
			w.answer(c.Fields.InputResponses)
		}
		return nil, nil // what nobody asks for is ignored
	case mcp.TasksCancel:
		_, err := svc.putTask(ctx, c, t, mcp.TasksCancel, about(t))
		if f := fault.From(c.Method, err); f != nil && f.RPC != nil && f.RPC.Code == mcp.CodeInvalidParams {
			_, err = svc.putTask(ctx, c, t, mcp.TasksGet, about(t)) // it has ended already, or is not known
		}
		return nil, err
	}
	state, err := svc.putTask(ctx, c, t, mcp.TasksGet, about(t))
	if err != nil {
		return nil, err
	}
	status, state := task.Status(state), task.State(state, task.Core, task.Extension)
	switch status {
	case task.Completed, task.Failed:
		result, err := svc.putTask(ctx, c, t, mcp.TasksResult, about(t))
		return task.Final(state, result, err)
	case task.Cancelled:
		return state, nil
	case task.InputRequired:
		w, err := svc.waits.begin(c, t, func(ctx context.Context, w *taskWait) {
			out := svc.taskCall(c, t, mcp.TasksResult, about(t))
			out.Client = w
			_ = svc.guarded(mcp.TasksResult, func() { _, _ = svc.put(ctx, t, out) }) // the next look at the task shows what came of it
		})
		if err != nil {
			return nil, err
		}
		svc.tasks.OnDrop(t, w.cancel)
		w.gather(ctx)
	}
	return svc.waits.of(t).show(state), nil
}
