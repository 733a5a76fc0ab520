package web

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/everline/everline/internal/admin"
)

// board is what all viewers see of the servers. It is read once for all of them.
type board struct {
	read   func() admin.Status
	minute func(server string) uint32 // how many calls the last minute had

	mu      sync.Mutex // guards the rest; held while the status is read, so that one reads it for all
	at      time.Time
	seq     uint64 // events up to this one were there when it was read
	version uint64 // rises with each change
	order   []string
	cards   map[string]*card
	ordered uint64 // version of the newest change of order
}

// card is one server, as it was when something of it changed.
type card struct {
	version uint64 // of the board, when the server changed
	sum     [sha256.Size]byte
	server  admin.Server
	numbers Numbers
	counted uint64 // of the board, when a number changed
}

// Numbers are what changes with every call: calls, answered, failed, unknown,
// saved, out, waiting, p50 and p95 in microseconds, memory in bytes, calls of the
// last minute.
type Numbers [11]int64

func numbersOf(s *admin.Server, lastMinute uint32) Numbers {
	us := func(ms *float64) int64 {
		if ms == nil {
			return 0
		}
		return int64(*ms * 1000)
	}
	n := Numbers{
		int64(s.Calls), int64(s.Outcomes.Answered + s.Outcomes.ToolError + s.Outcomes.RPCError), int64(s.Outcomes.NotSent + s.Outcomes.Refused + s.Outcomes.Unknown),
		int64(s.Outcomes.Unknown), int64(s.Saved), int64(s.Out), int64(s.Waiting), us(s.P50), us(s.P95),
	}
	n[10] = int64(lastMinute)
	if s.Memory != nil {
		n[9] = *s.Memory
	}
	return n
}

// still is a server without what its numbers tell, or what changes by itself.
func still(s admin.Server) admin.Server {
	s.Calls, s.Outcomes, s.Saved, s.Out, s.Waiting, s.P50, s.P95, s.Memory = 0, admin.Outcomes{}, 0, 0, 0, nil, nil, nil
	s.Repeated, s.Parked, s.OutageMS, s.StderrRate, s.Noise, s.Ignored = 0, 0, 0, 0, 0, 0
	return s
}

// look is what has changed for a viewer that has seen the board at a version. The
// status is read again if it is older than age, or than an event that the viewer
// knows of.
func (b *board) look(seen, seq uint64, age time.Duration) (news boardNews) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > age || seq > b.seq {
		b.refreshLocked(seq)
	}
	news.version = b.version
	if b.ordered > seen {
		news.order = b.order
	}
	for _, name := range b.order {
		c := b.cards[name]
		switch {
		case c.version > seen:
			news.servers = append(news.servers, c.server)
		case c.counted > seen:
			if news.numbers == nil {
				news.numbers = map[string]Numbers{}
			}
			news.numbers[name] = c.numbers
		}
	}
	return news
}

// boardNews is what a viewer has not seen.
type boardNews struct {
	version uint64
	order   []string // nil: as before
	servers []admin.Server
	numbers map[string]Numbers
}

func (b *board) refreshLocked(seq uint64) {
	st := b.read()
	b.at, b.seq = time.Now(), max(b.seq, seq)
	b.version++
	cards, order, same := make(map[string]*card, len(st.Servers)), make([]string, 0, len(st.Servers)), len(st.Servers) == len(b.order)
	for i, s := range st.Servers {
		c := b.cards[s.Name]
		if c == nil {
			c = &card{}
		}
		c.take(s, b.minute(s.Name), b.version)
		cards[s.Name] = c
		order = append(order, s.Name)
		same = same && b.order[i] == s.Name
	}
	b.cards, b.order = cards, order
	if !same {
		b.ordered = b.version
	}
}

func (c *card) take(s admin.Server, lastMinute uint32, version uint64) {
	quiet, _ := json.Marshal(still(s)) // all of it can be encoded
	if sum := sha256.Sum256(quiet); sum != c.sum {
		c.sum, c.version = sum, version
	}
	if n := numbersOf(&s, lastMinute); n != c.numbers {
		c.numbers, c.counted = n, version
	}
	c.server = s
}
