package admin

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"

	"github.com/everline/everline/event"
)

// journalSize is how many events are kept.
const journalSize = 1000

// A Journal keeps the last 1,000 events for those who ask later; no server whose
// events are many takes more than half of it from the others. It has no
// goroutine. The zero value is not usable; see NewJournal.
type Journal struct {
	run string

	mu       sync.Mutex // guards the rest; held for copying alone
	kept     []*Event   // in the order of their numbers
	byServer map[string]int
	byKind   map[string]uint64 // all that ever were
	last     uint64            // sequence number of the newest event
	changed  chan struct{}     // closed and replaced by each Record
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	return &Journal{run: hex.EncodeToString(id[:]), byServer: map[string]int{}, byKind: map[string]uint64{}, changed: make(chan struct{})}
}

// Run names the process whose events these are: the numbers of another begin anew.
func (j *Journal) Run() string { return j.run }

// Record keeps an event. It does not block, and so can be a hub's Emit.
func (j *Journal) Record(e event.Event) {
	head := e.About()
	shaped := &Event{
		Time: head.Time, Server: head.Server, Generation: head.Gen, Session: head.Session,
		Kind: EventKind(e), Text: e.String(), Data: dataOf(e), Trace: traceOf(e),
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	shaped.Seq = j.last
	if len(j.kept) == journalSize {
		j.dropLocked(shaped.Server)
	}
	j.kept = append(j.kept, shaped)
	j.byServer[shaped.Server]++
	j.byKind[shaped.Kind]++
	close(j.changed)
	j.changed = make(chan struct{})
}

// dropLocked makes room for an event of the server next: the oldest one goes, or
// the oldest of a server that has, or would have, more than half of the journal.
func (j *Journal) dropLocked(next string) {
	oldest := 0
	for server, n := range j.byServer {
		if n >= journalSize/2 && (server == next || n > journalSize/2) {
			oldest = slices.IndexFunc(j.kept, func(e *Event) bool { return e.Server == server })
		}
	}
	server := j.kept[oldest].Server
	if j.byServer[server]--; j.byServer[server] == 0 {
		delete(j.byServer, server)
	}
	j.kept = slices.Delete(j.kept, oldest, oldest+1)
}

// After returns the kept events that are newer than seq, oldest first, and a
// channel that is closed when there are more.
func (j *Journal) After(seq uint64) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := sort.Search(len(j.kept), func(i int) bool { return j.kept[i].Seq > seq })
	var events []Event
	for _, e := range j.kept[first:] {
		events = append(events, *e)
	}
	return events, j.changed
}

// Last is the number of the newest event; 0 if there was none.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Kinds is how many events of each kind there were.
func (j *Journal) Kinds() map[string]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.byKind)
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
