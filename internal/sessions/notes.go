package sessions

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/everline/everline/internal/owned"
)

const (
	maxNotes = 10_000  // sessions with a note; beyond, the oldest have none
	maxNote  = 1 << 20 // bytes of one
)

// A Note is what a session has asked for, and declared, that its id does not say.
type Note struct {
	Level         string   `json:"level,omitempty"`         // of log messages; "" none
	Subscriptions []string `json:"subscriptions,omitempty"` // URIs of resources
	Declared      string   `json:"declared,omitempty"`      // client capabilities, as JSON; "" none
}

func (n Note) empty() bool { return n.Level == "" && len(n.Subscriptions) == 0 && n.Declared == "" }

// notes are files of one folder, one for each session that has something to be noted.
type notes struct {
	dir  string
	warn func(string)

	mu   sync.Mutex       // guards the rest and the order of writes; held while a note is written
	kept map[string]int64 // when the session began, by the name of its file
	told bool             // a failed write has been told
}

// stored is a note as it lies on the disk.
type stored struct {
	Issued int64 `json:"issued"` // seconds since 1970
	Note
}

// openNotes removes the notes of sessions that are over. Notes are a comfort:
// where they cannot be kept, sessions go on without.
func openNotes(dir string, since time.Time, ended *ended, warn func(string)) *notes {
	n := &notes{dir: dir, warn: warn, kept: map[string]int64{}}
	if err := owned.MakeFolder(dir); err != nil {
		n.failed(err)
		return n
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		n.failed(err)
		return n
	}
	for _, file := range files {
		var name [16]byte
		id, err := hex.DecodeString(file.Name())
		at, readErr := n.read(file.Name())
		if copy(name[:], id) != len(name) || err != nil || readErr != nil || at.Issued < since.Unix() || ended.has(name) || len(n.kept) >= maxNotes {
			_ = os.Remove(filepath.Join(dir, file.Name())) // tried again at the next start
			continue
		}
		n.kept[file.Name()] = at.Issued
	}
	return n
}

func (n *notes) read(name string) (stored, error) {
	var at stored
	b, err := readOwn(filepath.Join(n.dir, name), maxNote)
	if err != nil {
		return at, err
	}
	return at, json.Unmarshal(b, &at)
}

// Note is what is noted of a session, the zero value if that is nothing.
func (s *Store) Note(of Session) Note {
	n, name := s.notes, hex.EncodeToString(of.Name[:])
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, have := n.kept[name]; !have {
		return Note{} // most sessions have asked for nothing, and cost no look at the disk
	}
	at, err := n.read(name)
	if err != nil {
		return Note{}
	}
	return at.Note
}

// SetNote notes what a session has asked for; all of it each time.
func (s *Store) SetNote(of Session, note Note) {
	if note.empty() {
		s.notes.remove(of)
		return
	}
	n, name := s.notes, hex.EncodeToString(of.Name[:])
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, have := n.kept[name]; !have && len(n.kept) >= maxNotes {
		n.drop(oldest(n.kept))
	}
	b, err := json.Marshal(stored{of.Issued.Unix(), note})
	if err == nil && len(b) > maxNote {
		err = fmt.Errorf("one of %d bytes is too large", len(b))
	}
	if err == nil { // not flushed: a note lost with the power is a comfort lost
		path := filepath.Join(n.dir, name)
		if err = owned.Write(path+".new", b, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		n.failed(err)
		return
	}
	n.kept[name] = of.Issued.Unix()
}

func (n *notes) remove(of Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(hex.EncodeToString(of.Name[:]))
}

func (n *notes) drop(name string) {
	if _, have := n.kept[name]; !have {
		return
	}
	delete(n.kept, name)
	if err := os.Remove(filepath.Join(n.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.failed(err)
	}
}

func oldest(kept map[string]int64) (name string) {
	for other, at := range kept {
		if name == "" || at < kept[name] {
			name = other
		}
	}
	return name
}

// failed tells once that a session will have to ask again after a restart.
func (n *notes) failed(err error) {
	if !n.told {
		n.told = true
		n.warn("notes of sessions cannot be kept; after a restart clients have to subscribe and set their log level again, and servers are not told of their extensions: " + err.Error())
	}
}
