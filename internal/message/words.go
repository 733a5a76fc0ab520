package message

import (
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// readable answers a tools/call that could not be completed with a result that
// a model can read: what happened, whether the tool was executed, and what to
// do about it.
func (m *Message) readable(f *fault.Fault, v verdict) Answer {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	b = append(b, `,"result":{`...)
	if m.Modern {
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = wire.AppendString(b, f.TextAs(v.words, Repeatable(m.Method)))
	b = append(b, `}],"isError":true,"_meta":{"`+mcp.MetaOutcome+`":`...)
	b = append(append(b, Outcome(f)...), "}}}"...)
	return Answer{Head: b}
}

// repeatable are the requests that may be sent again whatever became of them: what
// they do twice is as if it were done once.
var repeatable = []string{
	mcp.Initialize, mcp.ServerDiscover, mcp.Ping, mcp.ToolsList, mcp.PromptsList, mcp.ResourcesList, mcp.ResourcesTemplatesList,
	mcp.PromptsGet, mcp.ResourcesRead, mcp.ResourcesSubscribe, mcp.ResourcesUnsubscribe, mcp.CompletionComplete, mcp.LoggingSetLevel,
	mcp.TasksGet, mcp.TasksList, mcp.TasksResult, mcp.TasksCancel, mcp.EverlineResult,
}

// Repeatable tells whether a request may be sent again whatever became of it. Nobody
// knows that of a method that no revision defines.
func Repeatable(method string) bool { return slices.Contains(repeatable, method) }
