package meter

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/everline/everline/event"
)

// drills are counted by the word for the fault. The zero value is ready for use.
type drills struct {
	mu sync.Mutex // guards by; nothing waits under it
	by map[string]uint64
}

// Drilled counts a drill that begins, by the word for its fault.
func (m *Server) Drilled(fault string) {
	d := &m.drills
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[string]uint64{}
	}
	d.by[fault]++
}

func (d *drills) read() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.by)
}

const (
	// MaxTools is how many tools of one server are counted by themselves.
	MaxTools = 200
	// OtherTools stands for all further ones, and for names that the server does not list.
	OtherTools = "_other"
)

// tools counts calls by tool, where that is wanted. The zero value does not.
type tools struct {
	on atomic.Bool
	mu sync.RWMutex // guards by; nothing waits under it
	by map[string]*[event.CallResults]atomic.Uint64
}

// CountTools says whether calls are counted by tool; what was counted stays.
func (m *Server) CountTools(on bool) { m.tools.on.Store(on) }

// CountsTools tells whether calls are counted by tool.
func (m *Server) CountsTools() bool { return m.tools.on.Load() }

// Tool counts the end of a call of a tool. listed tells whether the server has it: a
// client can make up any name.
func (m *Server) Tool(name string, r event.CallResult, listed func() bool) {
	t := &m.tools
	t.mu.RLock()
	n := t.by[name]
	t.mu.RUnlock()
	if n == nil {
		n = t.add(name, listed())
	}
	n[r].Add(1)
}

// add returns what a tool is counted by that was not counted before.
func (t *tools) add(name string, listed bool) *[event.CallResults]atomic.Uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]*[event.CallResults]atomic.Uint64{OtherTools: {}}
	}
	switch {
	case t.by[name] != nil:
	case listed && len(t.by) <= MaxTools:
		t.by[name] = new([event.CallResults]atomic.Uint64)
	default:
		name = OtherTools
	}
	return t.by[name]
}

func (t *tools) read() map[string][event.CallResults]uint64 {
	if !t.on.Load() {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make(map[string][event.CallResults]uint64, len(t.by))
	for name, counts := range t.by {
		var n [event.CallResults]uint64
		for i := range counts {
			n[i] = counts[i].Load()
		}
		all[name] = n
	}
	return all
}
