package session

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

// AddStanding is add for a session whose client reads one stream, and got the event
// with the id last on the one before. It goes on under the id of the session of
// before, unless that one is still there. adopted tells whether it is the same
// client's: then goOn is due.
func (st *Store) AddStanding(s *Session, lastID string) (ok, adopted bool) {
	again, adopted := s.adopt(lastID)
	if kept, note, ok := st.keptAs(again); ok {
		s.kept, s.outlives = kept, true
		s.recall(note)
		there := st.addAs(s, again)
		if there == s {
			return true, adopted
		}
		if there != nil {
			st.Unpin(there)
		}
	}
	return st.Add(s), adopted
}

// GoOn lets a session that was adopted hear again what it heard before.
func (st *Store) GoOn(s *Session, renewal Renewal) {
	st.levels.change(s)
	s.Out().SendAllChanged()
	st.resubscribe(s, renewal)
}

// IsKept tells whether an id is that of a session that outlived its everline.
func (st *Store) IsKept(id string) bool {
	_, _, ok := st.keptAs(id)
	return ok
}

// ssePrefix begins the ids of events of /sse. The rest of an id is what a client
// said of itself when it shook hands, and the id of its session: an EventSource
// that lost its stream comes back with the last id, and does not shake hands
// again. What the client said needs no proof, because it could declare anything.
const ssePrefix = "sse-"

// EventID is the id of the events of now; "" before the handshake.
func (s *Session) EventID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted {
		return ""
	}
	id := fmt.Sprintf("%s%d-%d-%s", ssePrefix, s.serves, s.level, s.version)
	if s.outlives {
		id += "-" + s.Key
	}
	return id
}

// adopt makes the session that of the client that got the event with this id
// last, and returns the id of the session that it had, "" if that was not kept;
// false if the event is none of ours.
func (s *Session) adopt(lastID string) (again string, ok bool) {
	rest, ok := strings.CutPrefix(lastID, ssePrefix)
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 3 {
		return "", false
	}
	version, again, ok := cutVersion(parts[2])
	if !ok {
		return "", false
	}
	serves, err := strconv.ParseUint(parts[0], 10, 8)
	level, err2 := strconv.ParseUint(parts[1], 10, 8)
	if err != nil || err2 != nil || level >= uint64(len(mcp.Levels)) {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves, s.offers, s.level, s.version = Served(serves), Served(serves), int(level), version
	s.greeted, s.ready = true, true
	return again, true
}

// cutVersion parts a version from what may follow behind a hyphen.
func cutVersion(text string) (version, rest string, ok bool) {
	for _, version := range mcp.LegacyVersions {
		if rest, ok := strings.CutPrefix(text, version); ok && (rest == "" || rest[0] == '-') {
			return version, strings.TrimPrefix(rest, "-"), true
		}
	}
	return "", "", false
}
