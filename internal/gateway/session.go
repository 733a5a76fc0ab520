package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/wire"
)

// A session is one legacy client between its initialize and its end: its
// DELETE, its idle expiry, or the end of its connection. It has no goroutine.
// Everything that belongs to the client is freed with it.
type session struct {
	store *sessionStore
	id    string // over HTTP: unguessable, visible ASCII; "" on stdio

	standing  stream.Standing   // its standing streams
	responses *stream.Responses // those to POSTs that its client can come back for

	mu        sync.Mutex               // guards the fields down to ended; nothing waits under it
	announced stream.Versions          // which versions of the lists the client has heard of
	version   string                   // negotiated protocol version
	level     int                      // lowest severity of log messages that are wanted; 0 none, as after the end
	pending   []*sessionRequest        // those of the client that are being served
	subs      map[string]*subscription // by URI
	outbox    *stream.Outbox           // nil until something can be told
	greeted   bool                     // initialize was answered
	client    uint64                   // see everline.Client; set once
	serves    served                   // what servers may ask the client for
	offers    served                   // serves, and what its modern requests have declared
	ready     bool                     // the handshake is over: lists may be announced
	ended     bool
	returning map[string]bool // resources that are to be subscribed to again, after a restart

	kept     sessions.Session // what its id says, if outlives
	outlives bool             // the session may go on in the next everline; set before others see the session
	noting   sync.Mutex       // held while a note is made and written; ordered before mu

	gone      <-chan struct{}    // of /sse: closed when the client has gone; else nil
	requests  serverRequests     // of servers, that wait for the client
	own       everline.Session   // what servers have for this client alone
	admission *message.Admission // bounds what is in flight, where answers go out on the session's own stream; else nil

	// Of the table, guarded by its lock.
	prev, next *session
	pins       int // exchanges and streams that are open
	used       time.Time
}

// A subscription is one to a resource, also while it is being made. It may be
// gone from its session by then, and another one be made in its place.
type subscription struct {
	cancel func() // nil while it is being made
}

// A sessionRequest is one request of the client that is being served, as far as
// later messages concern it.
type sessionRequest struct {
	id     []byte // raw
	modern bool
	out    outlet // takes what goes out before the answer; nil: the client takes nothing
	cancel context.CancelCauseFunc
}

// An outlet takes frames for one client. It does not block.
type outlet interface {
	Log(frame []byte)  // a frame that may be lost: a log message, or progress
	Send(frame []byte) // one that must not be: an answer, or a request to the client
}

// errCanceled is why a request ends that its client has canceled.
var errCanceled = errors.New("canceled by the client")

// begin notes a request that is being served.
func (s *session) begin(r *sessionRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, r)
}

// finish is the end of that.
func (s *session) finish(r *sessionRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.pending {
		if other == r {
			last := len(s.pending) - 1
			s.pending[i] = s.pending[last]
			s.pending[last] = nil
			s.pending = s.pending[:last]
			return
		}
	}
}

// cancel cancels the requests of this session with this raw id. An id that is
// not in flight is ignored: the answer may have crossed the cancel.
func (s *session) cancel(rawID []byte) {
	s.mu.Lock()
	var hit []*sessionRequest
	for _, p := range s.pending {
		if bytes.Equal(p.id, rawID) {
			hit = append(hit, p)
		}
	}
	s.mu.Unlock()
	for _, p := range hit {
		p.cancel(errCanceled)
	}
}

// out is the session's outbox; it is made when there is first something to tell.
func (s *session) out() *stream.Outbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outbox == nil {
		s.outbox = stream.NewOutbox()
		if s.ended {
			s.outbox.Close()
		}
	}
	return s.outbox
}

// end frees everything of the session. It is idempotent. What is in flight goes
// on: the loss of a client is no cancel.
func (s *session) end() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	subs := s.subs
	s.subs, s.level = nil, 0
	if s.outbox != nil && s.admission == nil {
		s.outbox.Close()
	}
	s.mu.Unlock()
	s.standing.End()
	s.requests.close()
	s.store.o.forget(s.client)
	s.responses.End()
	s.own.End()
	for _, sub := range subs {
		if sub.cancel != nil {
			sub.cancel()
		}
	}
	s.store.levels.change(s)
}

// cancelAll cancels everything that the session has in flight.
func (s *session) cancelAll() {
	s.mu.Lock()
	hit := slices.Clone(s.pending)
	s.mu.Unlock()
	for _, p := range hit {
		p.cancel(errCanceled)
	}
}

// heard notes a legacy message of the client. After the first one behind the
// handshake, changed lists are announced where everything shares one stream; a
// client that only sends modern requests hears nothing unasked. A request is
// enough: its client may have shaken hands with an everline before this one.
func (s *session) heard(method string, request bool) {
	if method == mcp.Initialize || method == mcp.Ping {
		return
	}
	s.mu.Lock()
	first := !s.ready && (s.greeted || request)
	s.ready = s.ready || first
	out := s.outbox
	s.mu.Unlock()
	if first && out != nil {
		out.Signal()
	}
}

// wants is which changed lists are announced now.
func (s *session) wants() stream.Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return stream.AllLists
	}
	return 0
}

// subscribe asks for the updates of a resource once, however often the client
// asks. ok is false if the client has too many subscriptions.
func (s *session) subscribe(ctx context.Context, uri string) (ok bool, err error) {
	s.mu.Lock()
	_, have := s.subs[uri]
	full := len(s.subs) >= stream.MaxSubscribed
	mine := &subscription{}
	if !have && !full && !s.ended {
		if s.subs == nil {
			s.subs = map[string]*subscription{}
		}
		s.subs[uri] = mine
	}
	ended := s.ended
	s.mu.Unlock()
	if have || full || ended {
		return have || !full, nil
	}
	out := s.out()
	cancel, err := s.store.o.subscribe(ctx, &s.own, uri, func(params []byte) {
		out.Update(uri, wire.AppendNotification(nil, mcp.NotifyResourceUpdated, params))
	})
	s.mu.Lock()
	wanted := s.subs[uri] == mine
	switch {
	case wanted && err != nil:
		delete(s.subs, uri)
	case wanted:
		mine.cancel = cancel
		cancel = nil
	}
	s.mu.Unlock()
	if err == nil && cancel != nil {
		cancel() // unsubscribed or ended while it was being made
	}
	return true, err
}

func (s *session) unsubscribe(uri string) {
	s.mu.Lock()
	sub, out := s.subs[uri], s.outbox
	delete(s.subs, uri)
	delete(s.returning, uri)
	var cancel func()
	if sub != nil {
		cancel = sub.cancel
	}
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if out != nil {
		out.Forget(uri)
	}
}

// newSession returns a session that is not in the store.
func (st *sessionStore) newSession(version string) *session {
	s := &session{
		store: st, client: door.NewClientID(), version: version, announced: st.o.lists.Newest(), responses: st.responses.Session(),
	}
	s.own.Client, s.own.Capabilities = s, s.declaration
	return s
}

// shareStream lets the answers to the client's requests go out on its standing
// stream, which it opens: at most so many at a time. gone is closed when the client
// has gone; nil if nothing tells.
func (s *session) shareStream(limit int, gone <-chan struct{}) *stream.Stream {
	s.admission, s.gone = &message.Admission{Limit: limit}, gone
	s.out()
	return s.standing.Attach()
}

// setLevel is the client's wish for log messages from this severity on.
func (s *session) setLevel(rank int) {
	s.out() // log messages go into the outbox
	s.mu.Lock()
	if !s.ended {
		s.level = rank
	}
	s.mu.Unlock()
	s.store.levels.change(s)
	s.remember()
}

func (s *session) hasHeard() stream.Versions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.announced
}

func (s *session) setHeard(announced stream.Versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = announced
}

// resumable tells whether the session's client knows how to come back for a
// response: HTTP clients from 2025-03-26 on, which has the ids.
func (s *session) resumable() bool { return s.admission == nil && s.protocol() != mcp.FirstVersion }

// primed tells whether it expects the priming event.
func (s *session) primed() bool { return s.protocol() == mcp.LatestLegacy }

// declare notes what the client's initialize says that it serves.
func (s *session) declare(params []byte) {
	serves := readServed(wire.Get(params, "capabilities"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = serves
	s.offers |= serves
}

// declared is what the client serves, and the level of its log messages.
func (s *session) declared() (serves served, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serves, s.level
}

// protocol is the version that the client and we agreed on.
func (s *session) protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *session) agree(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.greeted = version, true
}

// sessionID returns an id of 130 random bits.
func sessionID() string { return rand.Text() }
