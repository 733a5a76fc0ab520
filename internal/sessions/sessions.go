// Package sessions keeps in the state folder what lets a client's session
// outlive everline: the key under which session ids are sealed, the ids that were
// ended, a note of what a session has asked for, and outcomes that nobody has
// fetched yet. It knows no client: the
// endpoint restores a session from what is here.
package sessions

import (
	"path/filepath"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
)

// A Store has one state folder, which the caller has locked: no other process
// writes there. Its methods are called by many goroutines at once.
type Store struct {
	dir  string
	warn func(text string)

	keys  *keys
	ended *ended
	notes *notes
}

// OpenStore reads what an earlier everline left in the state folder, and makes
// what is missing. What cannot be used is moved aside and told to warn; sessions
// that depended on it are lost. It fails only where nothing can be kept at all.
func OpenStore(stateDir string, warn func(text string)) (*Store, error) {
	now := time.Now()
	dir := filepath.Join(stateDir, "sessions")
	if err := owned.MakeFolder(dir); err != nil {
		return nil, err
	}
	keys, err := openKeys(filepath.Join(stateDir, "session.key"), now, warn)
	if err != nil {
		return nil, unable(err)
	}
	ended, err := openEnded(filepath.Join(dir, "ended"), keys.oldest(), warn)
	if err != nil {
		return nil, unable(err)
	}
	return &Store{dir: dir, warn: warn, keys: keys, ended: ended, notes: openNotes(filepath.Join(dir, "notes"), keys.oldest(), ended, warn)}, nil
}

// Close closes the files. What is written later is not kept.
func (s *Store) Close() error {
	return s.ended.close()
}

func unable(err error) error {
	return &fault.Fault{
		Kind: fault.Internal, Op: "keep sessions", Outcome: fault.NotSent, Err: err,
		Remedy: "make the state folder writable, or name another one with --state-dir",
	}
}
