package sessions

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline/internal/owned"
)

const (
	endedMagic  = "everline-ended-1" // as long as a record
	recordSize  = 16                 // 12 bytes of the name, 4 of the time in seconds since 1970
	maxEnded    = 1 << 18            // sessions that are remembered; beyond, the oldest are forgotten
	endedLimits = (2*maxEnded + 1) * recordSize
)

type short [12]byte

// ended are the sessions that were ended, until no key opens their ids any
// more. A record is appended for each.
type ended struct {
	path string
	warn func(string)

	mu    sync.Mutex // guards known and order; nothing waits under it
	known map[short]struct{}
	order []entry // oldest first

	disk    sync.Mutex // guards the rest; held while the file is written; ordered before mu
	file    *os.File   // nil when closed
	records int        // in the file
	told    bool       // a failed write has been told
}

type entry struct {
	name   short
	issued uint32
}

func openEnded(path string, since time.Time, warn func(string)) (*ended, error) {
	e := &ended{path: path, warn: warn, known: map[short]struct{}{}}
	b, err := readOwn(path, endedLimits)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case len(b) < recordSize || string(b[:recordSize]) != endedMagic:
		if err := setAside(path, errors.New("it is no list of ended sessions"), warn); err != nil {
			return nil, err
		}
	default:
		for b = b[recordSize:]; len(b) >= recordSize; b = b[recordSize:] { // a cut record was not told to its client
			at := entry{name: short(b), issued: binary.BigEndian.Uint32(b[12:])}
			if int64(at.issued) >= since.Unix() {
				e.keep(at)
			}
		}
	}
	return e, e.rewrite()
}

// keep remembers one session, and is false if it is known.
func (e *ended) keep(at entry) bool {
	if _, have := e.known[at.name]; have {
		return false
	}
	if len(e.order) >= maxEnded {
		drop := len(e.order) / 8
		for _, old := range e.order[:drop] {
			delete(e.known, old.name)
		}
		e.order = append(e.order[:0], e.order[drop:]...)
	}
	e.known[at.name] = struct{}{}
	e.order = append(e.order, at)
	return true
}

// rewrite replaces the file by what is known, and opens it for appending.
func (e *ended) rewrite() error {
	e.mu.Lock()
	order := slices.Clone(e.order)
	e.mu.Unlock()
	b := make([]byte, 0, recordSize*(len(order)+1))
	b = append(b, endedMagic...)
	for _, at := range order {
		b = appendRecord(b, at)
	}
	if err := owned.Replace(e.path, b, 0o600); err != nil {
		return err
	}
	if e.file != nil {
		_ = e.file.Close() // replaced: what it had is in the new one
	}
	var err error
	e.file, err = owned.Open(e.path, os.O_WRONLY|os.O_APPEND, 0)
	e.records = len(order)
	return err
}

func appendRecord(b []byte, at entry) []byte {
	return binary.BigEndian.AppendUint32(append(b, at.name[:]...), at.issued)
}

func (e *ended) has(name [16]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, have := e.known[short(name[:])]
	return have
}

func entryOf(of Session) entry {
	return entry{name: short(of.Name[:]), issued: uint32(of.Issued.Unix())}
}

// mark makes a session one that was ended, and is false if it is one.
func (e *ended) mark(of Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keep(entryOf(of))
}

// write puts a session that is marked on the disk.
func (e *ended) write(of Session) {
	e.disk.Lock()
	defer e.disk.Unlock()
	if e.file == nil {
		return
	}
	var err error
	if e.records >= 2*maxEnded-1 {
		err = e.rewrite() // what was forgotten goes
	} else {
		_, err = e.file.Write(appendRecord(nil, entryOf(of)))
		e.records++
	}
	if err != nil && !e.told {
		e.told = true
		e.warn("ended sessions cannot be noted; after a restart their ids are good again: " + err.Error())
	}
}

func (e *ended) close() error {
	e.disk.Lock()
	defer e.disk.Unlock()
	if e.file == nil {
		return nil
	}
	err := e.file.Close()
	e.file = nil
	return err
}
