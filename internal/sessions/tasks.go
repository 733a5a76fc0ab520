package sessions

import (
	"slices"
	"time"
)

// A Task is one that its client may ask for after a restart.
type Task struct {
	ID, ServerID string // ours, and the server's
	Extension    bool   // in whose words the server tells of it; else in those of 2025-11-25
	Server       string
	Generation   uint64
	Mortal       bool   // the server's process has it, which ends with its everline
	Tool         string // the server's own name of it
	ReadOnly     bool
	Owner        string // the session that it is for; "" for none
	Begun, Until time.Time
	Seen         []byte    // its newest state as of 2025-11-25, with our id; may be nil
	Ended        time.Time // when Result was there
	Result       []byte    // nil while the server has it
	Serial       uint64    // orders them
}

// SaveTasks keeps the tasks of an endpoint for the next everline.
func (s *Store) SaveTasks(endpoint string, all []Task) error {
	if len(all) == 0 {
		return nil
	}
	return s.save(s.fileOf("tasks-", endpoint), all, "tasks")
}

// TakeTasks returns the tasks that the everline before this one has kept for an
// endpoint, and whose time is not over. They are there once.
func (s *Store) TakeTasks(endpoint string) []Task {
	list := take[Task](s, s.fileOf("tasks-", endpoint), "tasks that were kept for clients")
	now := time.Now()
	return slices.DeleteFunc(list, func(t Task) bool { return !now.Before(t.Until) })
}
