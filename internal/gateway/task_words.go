package gateway

import (
	"bytes"
	"errors"
	"sync"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// declaresTasks are client capabilities with the extension.
func declaresTasks(capabilities []byte) []byte {
	if capabilities == nil {
		capabilities = []byte("{}")
	}
	return wire.Set(capabilities, []byte("{}"), "extensions", mcp.ExtensionTasks)
}

// lacksTasks is the answer to a client of 2026-07-28 that needs the extension and has
// not declared it.
func (x *exchange) lacksTasks() *message.Answer {
	return x.Refusal(mcp.CodeMissingCapability, "Missing required client capability: "+mcp.ExtensionTasks,
		[]byte(`{"requiredCapabilities":{"extensions":{"`+mcp.ExtensionTasks+`":{}}}}`))
}

// errTaskOver refuses to cancel what has ended (2025-11-25 basic/utilities/tasks, Task
// Cancellation).
func errTaskOver(method string) *fault.Fault {
	return &fault.Fault{Kind: fault.Invalid, Op: method, Outcome: fault.Answered, Err: errors.New("the task has ended already")}
}

// about are the params of a request of our own about a task.
func about(t *task.Task) []byte {
	return append(wire.AppendString([]byte(`{"taskId":`), t.ServerID), '}')
}

// lost is the result of a task whose server's process has ended: it may have been
// executed, or not, or in part, and is not begun again.
func lost(t *task.Task, why string) []byte {
	m := &message.Message{}
	m.Method, m.ID = mcp.ToolsCall, []byte("0")
	a := m.Failure(&fault.Fault{
		Kind: fault.Exited, Op: mcp.ToolsCall, Server: t.Holder.Server, Gen: t.Holder.Generation, Outcome: fault.Unknown, Err: errors.New(why),
	})
	return bytes.Clone(wire.Get(a.Frame(), "result"))
}

func lostWithEverline(t *task.Task) []byte {
	return lost(t, "everline was started anew, and the process that had the task ended with the one before")
}

func lostWithSession(t *task.Task) []byte {
	return lost(t, "the process that had the task was its client's alone, and ended when the client's session was put away")
}

// maxEarlyNews is how many news of one task wait for the answer that names it.
const maxEarlyNews = 16

// A taskNews holds the news of a task back until its client knows the task. Of too
// many the oldest are lost: each tells the whole state.
type taskNews struct {
	mu     sync.Mutex // guards the rest; nothing waits under it
	isOpen bool
	held   []func()
}

func (n *taskNews) tell(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isOpen {
		fn()
		return
	}
	n.held = append(n.held, fn)
	if len(n.held) > maxEarlyNews {
		n.held = n.held[1:]
	}
}

func (n *taskNews) open() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, fn := range n.held {
		fn()
	}
	n.isOpen, n.held = true, nil
}
