package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// The requests that servers may put to clients.
const (
	maxAsks = 256 // requests that wait for one client
)

// served are the kinds of requests that a client has declared to serve.
type served uint8

const (
	servesForm served = 1 << iota // elicitation in a form
	servesURL                     // elicitation at a URL
	servesSampling
	servesSamplingTools
	servesRoots
)

// readServed reads client capabilities. {} declares a capability, null does
// not; elicitation that names no mode is in a form.
func readServed(capabilities []byte) served {
	var s served
	for key, val := range wire.Members(capabilities) {
		if !wire.IsObject(val) {
			continue
		}
		switch key {
		case "elicitation":
			url := wire.IsObject(wire.Get(val, "url"))
			if url {
				s |= servesURL
			}
			if !url || wire.IsObject(wire.Get(val, "form")) {
				s |= servesForm
			}
		case "sampling":
			s |= servesSampling
			if wire.IsObject(wire.Get(val, "tools")) {
				s |= servesSamplingTools
			}
		case "roots":
			s |= servesRoots
		}
	}
	return s
}

// declaration is s as client capabilities for a modern server; nil for nothing.
func (s served) declaration() []byte {
	var parts []string
	switch s & (servesForm | servesURL) {
	case servesForm:
		parts = append(parts, `"elicitation":{"form":{}}`)
	case servesURL:
		parts = append(parts, `"elicitation":{"url":{}}`)
	case servesForm | servesURL:
		parts = append(parts, `"elicitation":{"form":{},"url":{}}`)
	default:
	}
	switch {
	case s&servesSamplingTools != 0:
		parts = append(parts, `"sampling":{"tools":{}}`)
	case s&servesSampling != 0:
		parts = append(parts, `"sampling":{}`)
	}
	if s&servesRoots != 0 {
		parts = append(parts, `"roots":{}`)
	}
	if parts == nil {
		return nil
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// lacks is the capability that a request needs and s does not have, as client
// capabilities; "" if there is none.
func (s served) lacks(method string, params []byte) string {
	need, text := servesRoots, `{"roots":{}}`
	switch method {
	case mcp.ElicitationCreate:
		need, text = servesForm, `{"elicitation":{"form":{}}}`
		if mode, _ := wire.Text(wire.Get(params, "mode")); mode == "url" {
			need, text = servesURL, `{"elicitation":{"url":{}}}`
		}
	case mcp.SamplingCreateMessage:
		need, text = servesSampling, `{"sampling":{}}`
		if wire.IsArray(wire.Get(params, "tools")) {
			need, text = servesSamplingTools, `{"sampling":{"tools":{}}}`
		}
	case mcp.RootsList:
	default:
		return `{}`
	}
	if s&need != 0 {
		return ""
	}
	return text
}

func undeclared(method, lacking string) *fault.Fault {
	return fault.New(fault.Unsupported, method, "the client whose call this request belongs to has not declared what it needs: "+lacking)
}

// askIDs number the requests that go to clients. They start anywhere, so that
// an answer to a request of an earlier everline is not taken for one to ours.
var askIDs = func() *atomic.Int64 {
	var seed [5]byte
	_, _ = rand.Read(seed[:]) // never fails
	n := new(atomic.Int64)
	n.Store(int64(binary.BigEndian.Uint32(seed[:4])) << 16)
	return n
}()

// An asking is one request that waits for the answer of a session's client.
type asking struct {
	id     int64
	answer chan wire.Message // one slot; closed without an answer when the session ends
}

// ask registers a request; nil if the session has ended or too many wait.
func (s *session) ask() *asking {
	a := &asking{id: askIDs.Add(1), answer: make(chan wire.Message, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.left || len(s.asks) >= maxAsks {
		return nil
	}
	if s.asks == nil {
		s.asks = map[int64]*asking{}
	}
	s.asks[a.id] = a
	return a
}

func (s *session) forgetAsk(a *asking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asks, a.id)
}

// answered takes a response of the client. One that nothing waits for is
// dropped: it crossed the end of its call.
func (s *session) answered(m *wire.Message) {
	id, ok := wire.ParseID(m.ID)
	if !ok {
		return
	}
	s.mu.Lock()
	a := s.asks[id]
	delete(s.asks, id)
	s.mu.Unlock()
	if a != nil {
		a.answer <- *m // has a slot, and this is the only message for it
	}
}

// leave ends the requests that wait for the client, and takes no more: it is
// gone.
func (s *session) leave() {
	s.mu.Lock()
	asks := s.asks
	s.asks, s.left = nil, true
	s.mu.Unlock()
	for _, a := range asks {
		close(a.answer)
	}
}

// standingTell is a way to tell the client something that must not be lost,
// outside the stream of any request; nil if there is none now.
func (s *session) standingTell() func(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outbox == nil || !s.standing.IsOpen() {
		return nil
	}
	return s.outbox.Send
}

// ID tells the clients of calls apart; see everline.Client.
func (rq *request) ID() uint64 { return rq.client }

// Ask puts a request of a server to the client of the call that rq is. A
// modern client is not asked: what it would have to declare is noted.
func (rq *request) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	if lacking := rq.serves.lacks(method, params); lacking != "" || rq.modern {
		rq.missing.CompareAndSwap(nil, &lacking)
		return nil, undeclared(method, lacking)
	}
	tell := rq.tell
	if tell == nil {
		tell = rq.sess.standingTell()
	}
	return rq.sess.put(ctx, tell, rq.gone, method, params)
}

// put puts a request to the client by way of tell, and waits for the answer
// until ctx ends or gone is closed.
func (s *session) put(ctx context.Context, tell func([]byte), gone <-chan struct{}, method string, params []byte) ([]byte, error) {
	if tell == nil {
		return nil, fault.New(fault.Unavailable, method, "the client has no stream open on which it could be asked")
	}
	a := s.ask()
	if a == nil {
		return nil, fault.New(fault.Unavailable, method, "the client has gone, or too many requests wait for it")
	}
	defer s.forgetAsk(a)
	tell(wire.AppendRequest(nil, a.id, method, params))
	select {
	case m, ok := <-a.answer:
		return answerOf(method, m, ok)
	case <-gone:
		return nil, fault.New(fault.Closed, method, "the client has gone")
	case <-ctx.Done():
		tell(wire.AppendNotification(nil, mcp.NotifyCancelled, append(wire.AppendInt([]byte(`{"requestId":`), a.id), '}')))
		return nil, fault.From(method, ctx.Err())
	}
}

func answerOf(method string, m wire.Message, ok bool) ([]byte, error) {
	switch {
	case !ok:
		return nil, fault.New(fault.Closed, method, "the client has gone")
	case m.Error != nil:
		code, text, raw := wire.StrictError(m.Error)
		return nil, &fault.Fault{
			Kind: fault.RPC, Op: method, Outcome: fault.Answered,
			RPC: &fault.RPCError{Code: code, Message: text, Raw: raw},
		}
	default:
		return m.Result, nil
	}
}

// Notify passes on what a server says during the call: log messages from the
// level on that the client wants, and everything else.
func (rq *request) Notify(method string, params []byte) {
	if method == mcp.NotifyMessage {
		if rank := mcp.LevelRank(wire.Get(params, "level")); rank == 0 || rq.level == 0 || rank < rq.level {
			return
		}
	}
	frame := wire.AppendNotification(nil, method, params)
	emit := rq.emit
	if !rq.modern && (emit == nil || method != mcp.NotifyMessage) {
		if sink := rq.sess.logSink(); sink != nil {
			emit = sink // it may come when the request is over
		}
	}
	if emit != nil {
		emit(frame)
	}
}
