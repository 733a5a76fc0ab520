package task

import (
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// TimeToLive is how long a task is remembered from now on, by the state that its
// server has told and the key that its era has for it.
func TimeToLive(state []byte, key string) time.Duration {
	ms, ok := wire.Int(wire.Get(state, key))
	if !ok || ms < 0 {
		return unlimited
	}
	return min(time.Duration(min(ms, longest.Milliseconds()))*time.Millisecond, longest) + grace
}

// Relate puts the id to in place of from where _meta says which task something
// belongs to.
func Relate(object []byte, from, to string) []byte {
	if id, ok := wire.Text(wire.Get(object, "_meta", mcp.MetaRelatedTask, "taskId")); ok && id == from {
		return wire.Set(object, wire.AppendString(nil, to), "_meta", mcp.MetaRelatedTask, "taskId")
	}
	return object
}
