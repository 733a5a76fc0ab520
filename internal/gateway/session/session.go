// Package session is one client between its first message and its end: what it has
// agreed on, asked for and in flight, what servers may ask it, and where it hears of
// them; and the store that owns all sessions, over a restart of everline as well. It
// reads no requests and answers none.
package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/sessions"
	"github.com/everline/everline/internal/wire"
)

// A Session is one legacy client between its initialize and its end: its
// DELETE, its idle expiry, or the end of its connection. It has no goroutine.
// Everything that belongs to the client is freed with it.
type Session struct {
	Key string // its id over HTTP: unguessable, visible ASCII; set by Store.Add; "" on stdio

	Standing  stream.Standing    // its standing streams
	Responses *stream.Responses  // those to POSTs that its client can come back for
	Requests  serverRequests     // of servers, that wait for the client
	Isolated  everline.Session   // what servers have for this client alone
	Admission *message.Admission // bounds what is in flight, where answers go out on the session's own stream; else nil
	Gone      <-chan struct{}    // of /sse: closed when the client has gone; else nil
	Addr      string             // from where it was opened; "" where that is not known

	store *Store

	mu        sync.Mutex               // guards the fields down to ended; nothing waits under it
	announced stream.Versions          // which versions of the lists the client has heard of
	version   string                   // negotiated protocol version
	info      [2]string                // what the client calls itself, and its version
	caller    *event.Caller            // made of that; nil until it is asked for
	level     int                      // lowest severity of log messages that are wanted; 0 none, as after the end
	pending   []*Request               // those of the client that are being served
	subs      map[string]*subscription // by URI
	outbox    *stream.Outbox           // nil until something can be told
	greeted   bool                     // initialize was answered
	client    uint64                   // see everline.Client; set once
	serves    Served                   // what servers may ask the client for
	offers    Served                   // serves, and what its modern requests have declared
	more      []byte                   // what else it has declared; see Declared
	offered   []byte                   // of a modern request: capabilities that would change nothing if they came again
	ready     bool                     // the handshake is over: lists may be announced
	ended     bool
	returning map[string]bool // resources that are to be subscribed to again, after a restart

	kept     sessions.Session // what its id says, if outlives
	outlives bool             // the session may go on in the next everline; set before others see the session
	noting   sync.Mutex       // held while a note is made and written; ordered before mu

	// Of the store, guarded by its lock.
	born       time.Time // when it was put in: by this everline, if it is an older one's
	prev, next *Session
	pins       int // exchanges and streams that are open
	used       time.Time
}

// A subscription is one to a resource, also while it is being made. It may be
// gone from its session by then, and another one be made in its place.
type subscription struct {
	cancel func() // nil while it is being made
}

// A Request is one request of the client that is being served, as far as
// later messages concern it.
type Request struct {
	ID     []byte // raw
	Modern bool
	Out    Outlet // takes what goes out before the answer; nil: the client takes nothing
	Cancel context.CancelCauseFunc
}

// An Outlet takes frames for one client. It does not block.
type Outlet interface {
	Log(frame []byte)  // a frame that may be lost: a log message, or progress
	Send(frame []byte) // one that must not be: an answer, or a request to the client
}

// ErrCanceled is why a request ends that its client has canceled.
var ErrCanceled = errors.New("canceled by the client")

// Begin notes a request that is being served.
func (s *Session) Begin(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, r)
}

// Finish is the end of that.
func (s *Session) Finish(r *Request) {
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

// Cancel cancels the requests of this session with this raw id. An id that is
// not in flight is ignored: the answer may have crossed the cancel.
func (s *Session) Cancel(rawID []byte) {
	s.mu.Lock()
	var hit []*Request
	for _, p := range s.pending {
		if bytes.Equal(p.ID, rawID) {
			hit = append(hit, p)
		}
	}
	s.mu.Unlock()
	for _, p := range hit {
		p.Cancel(ErrCanceled)
	}
}

// Out is the session's outbox; it is made when there is first something to tell.
func (s *Session) Out() *stream.Outbox {
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

// End frees everything of the session, for good. It is idempotent. What is in flight
// goes on: the loss of a client is no cancel.
func (s *Session) End() { s.free(s.store.o.Forget) }

// putAway is End for a session that its client may come back to. Where it cannot, that
// is for good.
func (s *Session) putAway() {
	if s.outlives || strings.HasPrefix(s.Key, namedPrefix) {
		s.free(s.store.o.PutAway)
	} else {
		s.End()
	}
}

// free is the end of the session; of what it has elsewhere leave is told.
func (s *Session) free(leave func(owner string)) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	subs := s.subs
	s.subs, s.level = nil, 0
	if s.outbox != nil && s.Admission == nil {
		s.outbox.Close()
	}
	s.mu.Unlock()
	s.Standing.End()
	s.Requests.Close()
	leave(s.Owner())
	s.Responses.End()
	s.Isolated.End()
	for _, sub := range subs {
		if sub.cancel != nil {
			sub.cancel()
		}
	}
	s.store.levels.change(s)
}

// Over tells whether it has ended, or was put away.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// cancelAll cancels everything that the session has in flight.
func (s *Session) cancelAll() {
	s.mu.Lock()
	hit := slices.Clone(s.pending)
	s.mu.Unlock()
	for _, p := range hit {
		p.Cancel(ErrCanceled)
	}
}

// Heard notes a legacy message of the client. After the first one behind the
// handshake, changed lists are announced where everything shares one stream; a
// client that only sends modern requests hears nothing unasked. A request is
// enough: its client may have shaken hands with an everline before this one.
func (s *Session) Heard(method string, request bool) {
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

// Wants is which changed lists are announced now.
func (s *Session) Wants() stream.Lists {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return stream.AllLists
	}
	return 0
}

// Subscribe asks for the updates of a resource once, however often the client
// asks. ok is false if the client has too many subscriptions.
func (s *Session) Subscribe(ctx context.Context, uri string) (ok bool, err error) {
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
	out := s.Out()
	cancel, err := s.store.o.Subscribe(ctx, &s.Isolated, uri, func(params []byte) {
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

func (s *Session) Unsubscribe(uri string) {
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

// New returns a session that is not in the store.
func (st *Store) New(version string) *Session {
	s := &Session{
		store: st, client: door.NewClientID(), version: version, announced: st.o.Lists.Newest(), Responses: st.responses.Session(),
	}
	s.Isolated.Client, s.Isolated.Capabilities, s.Isolated.Older = s, s.declaration, s.older
	s.Isolated.Changed = s.listsChanged
	return s
}

// ShareStream lets the answers to the client's requests go out on its standing
// stream, which it opens: at most so many at a time. gone is closed when the client
// has gone; nil if nothing tells.
func (s *Session) ShareStream(limit int, gone <-chan struct{}) *stream.Stream {
	s.Admission, s.Gone = &message.Admission{Limit: limit}, gone
	s.Out()
	return s.Standing.Attach()
}

// SetLevel is the client's wish for log messages from this severity on.
func (s *Session) SetLevel(rank int) {
	s.Out() // log messages go into the outbox
	s.mu.Lock()
	if !s.ended {
		s.level = rank
	}
	s.mu.Unlock()
	s.store.levels.change(s)
	s.Remember()
}

func (s *Session) Announced() stream.Versions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.announced
}

func (s *Session) SetAnnounced(announced stream.Versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = announced
}

// Resumable tells whether the session's client knows how to come back for a
// response: HTTP clients from 2025-03-26 on, which has the ids.
func (s *Session) Resumable() bool { return s.Admission == nil && s.Protocol() != mcp.FirstVersion }

// Primed tells whether it expects the priming event.
func (s *Session) Primed() bool { return s.Protocol() == mcp.LatestLegacy }

// Declare notes what the client's initialize says that it serves.
func (s *Session) Declare(params []byte) {
	capabilities := wire.Get(params, "capabilities")
	serves := ReadServed(capabilities)
	name, version := ReadClientInfo(wire.Get(params, "clientInfo"))
	s.mu.Lock()
	s.info, s.caller = [2]string{name, version}, nil
	s.serves = serves
	s.offers |= serves
	s.mu.Unlock()
	s.declareMore(moreOf(capabilities), nil)
}

// maxInfo is how many bytes of a client's name or version are kept.
const maxInfo = 256

// ReadClientInfo reads clientInfo: what a client calls itself, cut where it is long.
func ReadClientInfo(info []byte) (name, version string) {
	for key, val := range wire.Members(info) {
		switch text, _ := wire.Text(val); key {
		case "name":
			name = strings.Clone(text[:min(len(text), maxInfo)])
		case "version":
			version = strings.Clone(text[:min(len(text), maxInfo)])
		}
	}
	return name, version
}

// Caller is what is known of the client.
func (s *Session) Caller() *event.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.caller == nil {
		s.caller = &event.Caller{Name: s.info[0], Version: s.info[1], Protocol: s.version, Subject: s.store.o.Subject}
	}
	return s.caller
}

// ClientInfo is what the client calls itself; "" where it has not said so.
func (s *Session) ClientInfo() (name, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info[0], s.info[1]
}

// Declared is what the client has declared, and the level of its log messages.
func (s *Session) Declared() (declared Declared, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Declared{s.serves, s.more}, s.level
}

// Protocol is the version that the client and we agreed on.
func (s *Session) Protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Session) Agree(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.greeted, s.caller = version, true, nil
}
