package catalog

import (
	"slices"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Tasks says how the call of a tool may become a task.
type Tasks uint8

const (
	TasksNever    Tasks = iota
	TasksOptional       // 2025-11-25 basic/utilities/tasks: if its client asks for one
	TasksRequired       // likewise: its client must
	TasksDecided        // io.modelcontextprotocol/tasks: if its server decides so, and its client has declared the extension
)

// ByClient tells whether the client asks for a task, in the way of 2025-11-25.
func (s Tasks) ByClient() bool { return s == TasksOptional || s == TasksRequired }

// ByServer tells whether the server decides about it, in the way of the extension.
func (s Tasks) ByServer() bool { return s == TasksDecided }

// Always tells whether there is no other way to call the tool.
func (s Tasks) Always() bool { return s == TasksRequired }

// tasksOf is how the tools of a server that has declared these capabilities say
// whether they are called as tasks.
func tasksOf(capabilities []byte) func(tool []byte) Tasks {
	switch {
	case wire.IsObject(wire.Get(capabilities, "extensions", mcp.ExtensionTasks)):
		return func([]byte) Tasks { return TasksDecided }
	case wire.IsObject(wire.Get(capabilities, "tasks", "requests", "tools", "call")):
		return taskSupport
	default:
		return func([]byte) Tasks { return TasksNever }
	}
}

func taskSupport(tool []byte) Tasks {
	switch said, _ := wire.Text(wire.Get(tool, "execution", "taskSupport")); said {
	case "optional":
		return TasksOptional
	case "required":
		return TasksRequired
	default:
		return TasksNever
	}
}

var supportsTasks = []byte(`"optional"`)

// TaskArray is the Array of tools for clients of 2025-11-25. They ask for tasks of
// those tools alone that say so, which those of a server with the extension do not.
func (t *Table) TaskArray() []byte {
	l := t.lists[Tools]
	if !slices.ContainsFunc(l.part.pieces, func(p *piece) bool { return p.decides }) {
		return l.array()
	}
	l.taskOnce.Do(func() {
		l.taskText = l.join(func(p *piece, away *Away) []byte {
			if p.decides {
				return p.tasksText(away)
			}
			return p.textOf(away)
		})
	})
	return l.taskText
}

// tasksText is the text of a piece in TaskArray.
func (p *piece) tasksText(away *Away) (text []byte) {
	begin := 0
	for i, end := range p.ends {
		if i > 0 {
			text = append(text, ',')
		}
		item := p.text[begin:end]
		if wire.Get(item, "execution", "taskSupport") == nil {
			item = wire.Set(item, supportsTasks, "execution", "taskSupport")
		}
		if away != nil {
			item = withMeta(item, mcp.MetaAvailability, away.mark())
		}
		text = append(text, item...)
		begin = end + 1
	}
	return text
}
