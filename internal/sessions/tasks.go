package sessions

import (
	"errors"
	"io/fs"
	"os"
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

// SaveTasks keeps the tasks of an endpoint for the next everline, in place of those that
// were kept before.
func (s *Store) SaveTasks(endpoint string, all []Task) error {
	path := s.fileOf("tasks-", endpoint)
	if len(all) > 0 {
		return s.save(path, all, "tasks")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unable(err)
	}
	return nil
}

// Tasks returns the tasks that the everline before this one has kept for an
// endpoint, and whose time is not over.
func (s *Store) Tasks(endpoint string) []Task {
	list, err := read[Task](s.fileOf("tasks-", endpoint))
	if err != nil {
		s.warn("tasks that were kept for clients cannot be read: " + err.Error())
	}
	now := time.Now()
	return slices.DeleteFunc(list, func(t Task) bool { return !now.Before(t.Until) })
}
