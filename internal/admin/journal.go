package admin

import (
	"reflect"
	"strings"
	"sync"
	"unicode"

	"github.com/everline/everline/event"
)

// journalSize is how many events are kept.
const journalSize = 1000

// A Journal keeps the last 1,000 events for those who ask later. It has no
// goroutine. The zero value is not usable; see NewJournal.
type Journal struct {
	mu      sync.Mutex // guards the rest; held for copying alone
	ring    []Event
	last    uint64        // sequence number of the newest event
	changed chan struct{} // closed and replaced by each Record
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{changed: make(chan struct{})} }

// Record keeps an event. It does not block, and so can be a hub's Emit.
func (j *Journal) Record(e event.Event) {
	head := e.About()
	shaped := Event{Time: head.Time, Server: head.Server, Generation: head.Gen, Session: head.Session, Kind: EventKind(e), Text: e.String()}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	shaped.Seq = j.last
	if len(j.ring) < journalSize {
		j.ring = append(j.ring, shaped)
	} else {
		j.ring[(j.last-1)%journalSize] = shaped
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// After returns the kept events that are newer than seq, oldest first, and a
// channel that is closed when there are more.
func (j *Journal) After(seq uint64) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if oldest := j.last - uint64(len(j.ring)); seq < oldest {
		seq = oldest
	}
	var events []Event
	for n := seq + 1; n <= j.last; n++ {
		events = append(events, j.ring[(n-1)%journalSize])
	}
	return events, j.changed
}

// EventKind is the stable name of an event's type: StartFailed is "start_failed".
func EventKind(e event.Event) string {
	t := reflect.TypeOf(e)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var b strings.Builder
	for i, c := range t.Name() {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
