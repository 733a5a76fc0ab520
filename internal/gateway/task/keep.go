package task

import (
	"slices"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/sessions"
)

// Export is what the next everline can go on with: the tasks of sessions that outlive
// this one, and of clients without one.
func (s *Table) Export(lasts func(owner string) bool) []sessions.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []sessions.Task
	for _, t := range s.byID {
		if t.Owner != "" && !lasts(t.Owner) {
			continue
		}
		kept := sessions.Task{
			ID: t.ID, ServerID: t.ServerID, Extension: t.Kind == Extension, Server: t.Holder.Server, Generation: t.Holder.Generation,
			Mortal: t.Holder.Mortal, Tool: t.Tool.Name, ReadOnly: t.Tool.ReadOnly, Owner: t.Owner, Begun: t.Begun, Until: t.until, Seen: t.seen,
			Serial: t.serial,
		}
		if t.end != nil {
			kept.Ended, kept.Result = t.end.at, t.end.result
		}
		all = append(all, kept)
	}
	slices.SortFunc(all, func(a, b sessions.Task) int { return int(int64(a.Serial - b.Serial)) })
	return all
}

// Restore puts in what an everline before this one has exported. lost
// is the result of a task whose server's process has ended with that everline.
func (s *Table) Restore(all []sessions.Task, lost func(t *Task) []byte) {
	for _, k := range all {
		t := &Task{
			ID: k.ID, ServerID: k.ServerID, Kind: KindOf(k.Extension), Owner: k.Owner, Begun: k.Begun, seen: k.Seen,
			Holder: everline.Answer{Server: k.Server, Generation: k.Generation, Mortal: k.Mortal},
		}
		t.Tool.Server, t.Tool.Name, t.Tool.ReadOnly = k.Server, k.Tool, k.ReadOnly
		if k.Result != nil {
			t.end = &ending{k.Result, k.Ended}
			s.bytes += len(k.Result)
		}
		s.put(t, k.Until)
		if k.Result == nil && k.Mortal {
			s.End(t, lost(t))
		}
	}
}
