package task

import (
	"bytes"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A Kind is one of the two ways in which the revisions have tasks. Both know the same
// states under the same names.
type Kind uint8

const (
	Core      Kind = iota // 2025-11-25 basic/utilities/tasks: the client asks for a task
	Extension             // io.modelcontextprotocol/tasks of 2026-07-28: the server decides
)

// KindOf is the kind that a client of an era knows.
func KindOf(modern bool) Kind {
	if modern {
		return Extension
	}
	return Core
}

// Of finds the task that the result of a call stands for.
func Of(result []byte) (kind Kind, state []byte, id string, ok bool) {
	if state = wire.Get(result, "task"); wire.IsObject(state) {
		id, ok = wire.Text(wire.Get(state, "taskId"))
		return Core, state, id, ok
	}
	if said, _ := wire.Text(wire.Get(result, "resultType")); said != "task" {
		return 0, nil, "", false
	}
	id, ok = wire.Text(wire.Get(result, "taskId"))
	return Extension, result, id, ok
}

// Begun is the result of a call that has begun a task, for a client of kind to. result
// is what the server said, state what it says of the task, in the words of from.
func Begun(result, state []byte, from, to Kind, id string) []byte {
	text := wire.AppendString(nil, id)
	switch {
	case from == to && to == Core:
		return wire.Set(result, text, "task", "taskId")
	case from == to:
		return wire.Set(result, text, "taskId")
	case to == Core:
		return wire.Set([]byte("{}"), wire.Delete(wire.Set(State(state, from, to), text, "taskId"), "_meta"), "task")
	default:
		out := wire.Set(wire.Set(State(state, from, to), text, "taskId"), []byte(`"task"`), "resultType")
		if meta := wire.Get(result, "_meta"); meta != nil {
			out = wire.Set(out, meta, "_meta")
		}
		return out
	}
}

// renames are the members that are called otherwise in the extension.
var renames = [...]struct{ core, extension string }{{"ttl", "ttlMs"}, {"pollInterval", "pollIntervalMs"}}

// State is the state of a task in the words of another kind. What 2025-11-25 has
// other requests for, results and questions, is left out for its clients, and missing
// for others.
func State(state []byte, from, to Kind) []byte {
	if from == to {
		return state
	}
	state = bytes.Clone(state)
	for _, r := range renames {
		old, now := r.core, r.extension
		if to == Core {
			old, now = now, old
		}
		if val := wire.Get(state, old); val != nil {
			state = wire.Set(wire.Delete(state, old), val, now)
		}
	}
	if to == Extension {
		return state
	}
	if bad, _ := wire.Bool(wire.Get(state, "result", "isError")); bad {
		state = wire.Set(state, []byte(`"failed"`), "status")
	}
	for _, key := range []string{"resultType", "result", "error", "inputRequests"} {
		state = wire.Delete(state, key)
	}
	return state
}

// Final is the state, in words of the extension, of a task of 2025-11-25 that has
// ended, with what its tasks/result has come to.
func Final(state, result []byte, err error) ([]byte, error) {
	f := fault.From(mcp.TasksResult, err)
	switch {
	case f == nil:
		return wire.Set(wire.Set(state, []byte(`"`+Completed+`"`), "status"), result, "result"), nil
	case f.RPC != nil && f.RPC.Raw != nil:
		return wire.Set(wire.Set(state, []byte(`"`+Failed+`"`), "status"), f.RPC.Raw, "error"), nil
	default:
		return nil, err
	}
}

// Statuses of a task.
const (
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// Status is what a state says of its task.
func Status(state []byte) string {
	status, _ := wire.Text(wire.Get(state, "status"))
	return status
}

// Over tells whether a task with this state has ended.
func Over(state []byte) bool {
	switch Status(state) {
	case Completed, Failed, Cancelled:
		return true
	default:
		return false
	}
}

// Bounds of what a server may say about the time between two looks at a task.
const (
	leastPause = 100 * time.Millisecond
	usualPause = time.Second
	mostPause  = 10 * time.Second
)

// Pause is how long to wait before the next look at a task of the extension.
func Pause(state []byte) time.Duration {
	ms, ok := wire.Int(wire.Get(state, "pollIntervalMs"))
	if !ok {
		return usualPause
	}
	return min(max(time.Duration(min(ms, mostPause.Milliseconds()))*time.Millisecond, leastPause), mostPause)
}

// TimeToLive is how long a task is remembered from now on, by the state that its
// server has told.
func TimeToLive(state []byte, kind Kind) time.Duration {
	ms, ok := wire.Int(wire.Get(state, ttlKey(kind)))
	if !ok || ms < 0 {
		return unlimited
	}
	return min(time.Duration(min(ms, longest.Milliseconds()))*time.Millisecond, longest) + grace
}

func ttlKey(kind Kind) string {
	if kind == Extension {
		return renames[0].extension
	}
	return renames[0].core
}

// Relate puts the id to in place of from where _meta says which task something
// belongs to.
func Relate(object []byte, from, to string) []byte {
	if id, ok := wire.Text(wire.Get(object, "_meta", mcp.MetaRelatedTask, "taskId")); ok && id == from {
		return wire.Set(object, wire.AppendString(nil, to), "_meta", mcp.MetaRelatedTask, "taskId")
	}
	return object
}

// Related is a result of tasks/result: it says which task it is of.
func Related(result []byte, id string) []byte {
	return wire.Set(result, wire.AppendString(nil, id), "_meta", mcp.MetaRelatedTask, "taskId")
}
