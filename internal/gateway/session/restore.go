package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/wire"
)

// A session outlives everline, and its own place in memory: its id says what its client
// has agreed on, and a note what it has asked for and declared beside. The first request with an id that is
// not in memory goes on with the session, be it put away, of the everline before this one,
// or of one whose key is lost.

const (
	resubscribeFor  = 10 * time.Second // one attempt for one resource
	resubscribeWait = 5 * time.Second  // between two rounds of attempts
)

// Add puts a new session in, under an id that outlives everline where sessions are
// kept, and pins it. It is false if there are too many.
func (st *Store) Add(s *Session) bool {
	if st.addAs(s, st.name(s)) == nil {
		return false
	}
	if declared, _ := s.Declared(); declared.more != nil {
		s.Remember()
	}
	return true
}

// name gives a new session the id under which it outlives everline; a random one
// where nothing is kept.
func (st *Store) name(s *Session) string {
	if st.o.Kept == nil {
		return rand.Text() // 130 random bits
	}
	declared, _ := s.Declared()
	version := s.Protocol()
	if s.Admission != nil {
		version = standingOnly
	}
	s.kept, s.outlives = sessions.New(version, uint64(declared.Served)), true
	s.kept.Client, s.kept.ClientVersion = s.ClientInfo()
	return st.o.Kept.Seal(st.o.Endpoint, s.kept)
}

// standingOnly stands for the version in the ids of /sse, whose sessions begin
// before one is agreed on.
const standingOnly = "sse"

// keptAs is what is kept of the session of an id; false if that is nothing.
func (st *Store) keptAs(id string) (kept sessions.Session, note sessions.Note, ok bool) {
	if st.o.Kept == nil {
		return kept, note, false
	}
	kept, ok = st.o.Kept.Open(st.o.Endpoint, id)
	if ok {
		note = st.o.Kept.Note(kept)
	}
	return kept, note, ok
}

// again is a session that is not in the store, and may be there a second time.
func (st *Store) again(id, version string) *Session {
	s := st.New(version)
	if client := st.o.Client(ownerOf(id)); client != 0 {
		s.client = client
	}
	return s
}

// A Renewal says what is to be renewed of what a session that is back has elsewhere: again
// is called until that is over; nil for nothing. It does not wait, and again may.
type Renewal func(s *Session) (again func(ctx context.Context) (over bool))

// Restore goes on with the session of an id, and pins it: nil if the id is none of
// ours, or full if there are too many sessions.
func (st *Store) Restore(id string, renewal Renewal) (s *Session, full bool) {
	kept, note, ok := st.keptAs(id)
	if !ok || !slices.Contains(mcp.LegacyVersions, kept.Version) { // of /sse, or of nobody's making
		return nil, false
	}
	s = st.again(id, kept.Version)
	s.kept, s.outlives = kept, true
	s.info = [2]string{kept.Client, kept.ClientVersion}
	s.serves, s.offers = Served(kept.Serves), Served(kept.Serves)
	s.level = mcp.LevelRank(wire.AppendString(nil, note.Level))
	s.greeted, s.ready = true, true
	s.Out().SendAllChanged() // of what has changed meanwhile nobody has told it
	s.recall(note)
	switch there := st.addAs(s, id); there {
	case nil:
		return nil, true
	case s:
		st.levels.change(s)
		st.resubscribe(s, renewal)
		return s, false
	default: // two requests came at once
		return there, false
	}
}

// connectionOwner begins the owners that end with everline.
const connectionOwner = "connection "

// Owner names the session where something else belongs to it. If the session comes back
// to the next everline it has the same name there; see Lasts.
func (s *Session) Owner() string {
	if s.Key == "" {
		return connectionOwner + strconv.FormatUint(s.client, 10)
	}
	return ownerOf(s.Key)
}

// OwnerOfName is the Owner of the session of a name that a modern client has chosen, be
// it there or not.
func OwnerOfName(name string) string { return ownerOf(namedPrefix + name) }

func ownerOf(id string) string {
	sum := sha256.Sum256([]byte(id)) // whoever knows the id has the session
	return "session " + hex.EncodeToString(sum[:])
}

// Lasts tells whether an Owner may come back to the next everline.
func Lasts(owner string) bool { return !strings.HasPrefix(owner, connectionOwner) }

// resubscribe asks the servers for the updates of a restored session, and for what it
// has elsewhere, again and again where one is away. What has changed meanwhile is not
// known, so each resource is announced once.
func (st *Store) resubscribe(s *Session, renewal Renewal) {
	renew := renewal(s)
	if len(s.stillReturning()) == 0 && renew == nil || !st.background.add() {
		return
	}
	go func() { // ends with the session, or with Close, which waits for it
		defer st.background.done()
		for {
			left := renew != nil && !renew(st.background.ctx)
			for _, uri := range s.stillReturning() {
				left = !st.resubscribeOne(s, uri) || left
			}
			if !left || !st.background.sleep(resubscribeWait) {
				return
			}
		}
	}()
}

// resubscribeOne is true if there is nothing more to do for the resource.
func (st *Store) resubscribeOne(s *Session, uri string) (over bool) {
	ctx, cancel := context.WithTimeout(st.background.ctx, resubscribeFor)
	defer cancel()
	ok, err := s.Subscribe(ctx, uri)
	switch {
	case ok && err == nil:
		params := append(wire.AppendString([]byte(`{"uri":`), uri), '}')
		s.Out().Update(uri, wire.AppendNotification(nil, mcp.NotifyResourceUpdated, params))
	case err != nil && fault.From(mcp.ResourcesSubscribe, err).Outcome != fault.Answered:
		return false // the server is away
	}
	s.mu.Lock()
	delete(s.returning, uri)
	s.mu.Unlock()
	return true
}
