// Package http reaches servers at URLs: over Streamable HTTP of both eras, and over
// the HTTP+SSE of 2024-11-05. It owns the session and its streams. It knows
// nothing of the eras' handshakes: Agree tells it what was found.
package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// settleWait is how long an answered call waits for the end of its stream, so
// that the connection can be used again.
const settleWait = 10 * time.Millisecond

// conn is a link over Streamable HTTP, of either era (specification
// 2025-11-25 basic/transports, 2026-07-28 basic/transports/streamable-http).
// It has one long-lived goroutine, the standing GET, and that only toward
// legacy servers; calls run on the goroutines of their callers.
type conn struct {
	*core
	bare     http.Header // of a POST before anything was agreed; never changed
	state    atomic.Pointer[state]
	leftOpen atomic.Int32 // answered streams in a row that the server left open
}

// state is what the handshake found. It is replaced, never changed.
type state struct {
	agreed  bool
	modern  bool
	version string
	session string      // "" in the modern era, where the server gave none, and after it was lost
	lost    bool        // the session was lost: nothing more is sent
	post    http.Header // of a POST
}

// Open makes a link over Streamable HTTP. It dials nothing: the first
// request does. The error is a *fault.Fault of kind Invalid. ctx is not kept.
func Open(_ context.Context, spec Spec, opts transport.Options) (transport.Conn, error) {
	core, f := newCore(&spec, opts)
	if f != nil {
		return nil, f
	}
	c := &conn{core: core, bare: postHeader(core.header)}
	c.state.Store(&state{post: c.bare})
	c.link = c
	opts.Injector.Join(c)
	return c, nil
}

// Info implements Conn.
func (c *conn) Info() transport.Info {
	s := c.state.Load()
	return transport.Info{
		Kind: transport.HTTP, URL: c.shown, HTTP: c.httpVersion(), Started: c.started, Noise: c.noise.Load(), LateAnswers: c.late.Load(),
		Session: mcp.Digest(s.session), CancelByClose: s.modern, Sessionless: s.session == "" && !s.modern,
	}
}

// Agree implements Conn.
func (c *conn) Agree(version string, modern bool) {
	c.agreed(version)
	first := false
	c.update(func(s *state) {
		first = !s.agreed
		s.agreed, s.modern, s.version = true, modern, version
		if modern {
			s.session = ""
		}
	})
	if !first || modern {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.wg.Add(1)
		go c.stand() // ended by linkCtx, waited for by close
	}
}

// update replaces the state by a changed copy.
func (c *conn) update(change func(*state)) {
	for {
		old := c.state.Load()
		s := *old
		change(&s)
		s.post = c.legacyHeader(c.bare, &s)
		if c.state.CompareAndSwap(old, &s) {
			return
		}
	}
}

// legacyHeader returns h with the session and the version; h itself is not changed.
func (c *conn) legacyHeader(h http.Header, s *state) http.Header {
	h = h.Clone()
	if s.session != "" {
		h[mcp.HeaderSession] = []string{s.session}
	}
	if s.version != "" {
		h[mcp.HeaderVersion] = []string{s.version}
	}
	return h
}

// Call implements Conn.
func (c *conn) Call(ctx context.Context, r *transport.Request) (wire.Message, error) {
	msg, f := c.call(ctx, r)
	if f != nil {
		c.learn(f)
		return wire.Message{}, f
	}
	return msg, nil
}

// learn ends the link when its session is gone. The id is dropped first: it is
// never sent again.
func (c *conn) learn(f *fault.Fault) {
	if evidence.Of(evidence.Call, f) == evidence.Session {
		c.update(func(s *state) { s.session, s.lost = "", true })
		c.finish(f)
	}
}

// Lost ends the link because its session, or the server of its era, turned
// out to be gone; f, of kind SessionLost, says how. The session's id is not
// sent again, not even to delete it. Calls in flight may still be answered.
func (c *conn) Lost(f *fault.Fault) { c.learn(f) }

func (c *conn) call(ctx context.Context, r *transport.Request) (wire.Message, *fault.Fault) {
	p := post{op: r.Method, id: r.ID, frame: r.Frame, state: c.state.Load()}
	p.modern = p.state.modern || !p.state.agreed && r.Method == mcp.ServerDiscover
	p.session = p.state.session != "" && !p.modern && r.Method != mcp.Initialize
	if r.Method == mcp.Initialize {
		p.linger = sessionWait
	}
	header, f := c.headerOf(r, &p)
	if f != nil {
		return wire.Message{}, f
	}
	ex, f := c.send(ctx, header, &p)
	if f != nil {
		return wire.Message{}, f
	}
	defer c.end(ex)
	if r.Method == mcp.Initialize && p.resp.StatusCode/100 == 2 {
		// At once: whatever becomes of the answer, there is a session to be ended.
		if id := p.resp.Header.Get(mcp.HeaderSession); id != "" {
			c.update(func(s *state) { s.session = id })
		}
	}
	return c.answer(ex, &p)
}

// post is one POST and what its answer is judged by.
type post struct {
	op      string
	id      int64 // 0: no answer is due
	frame   []byte
	fields  [][2]string // HTTP+SSE: of the header, that go with this message alone
	state   *state
	modern  bool
	session bool          // a session id goes with it
	linger  time.Duration // see core.begin
	resp    *http.Response
}

func (p *post) reply(resp *http.Response, body []byte) *reply {
	return &reply{
		op: p.op, id: p.id, status: resp.StatusCode, header: resp.Header, body: body,
		session: p.session, modern: p.modern, now: time.Now(),
	}
}

// headerOf is the header of a request. A handshake starts from nothing, so it
// carries neither a session nor a version.
func (c *conn) headerOf(r *transport.Request, p *post) (http.Header, *fault.Fault) {
	switch {
	case p.state.lost: // a moment before the link is finished
		return nil, &fault.Fault{
			Kind: fault.SessionLost, Op: r.Method, Outcome: fault.NotSent,
			Err: errors.New("the session was lost a moment ago"),
		}
	case p.modern:
		return modernHeader(c.bare, r, p.state.version)
	case r.Method == mcp.Initialize:
		return c.ours(c.bare), nil
	default:
		return withFields(c.ours(p.state.post), r.Header), nil
	}
}

// ours is h as it may be given away: a round tripper of the caller's might
// change it.
func (c *core) ours(h http.Header) http.Header {
	if c.own == nil {
		return h.Clone()
	}
	return h
}

// send writes a POST and waits for the head of its answer, in p.resp. On
// success the exchange must be ended by the caller.
func (c *core) send(ctx context.Context, header http.Header, p *post) (*exchange, *fault.Fault) {
	return c.sendTo(ctx, c.url, header, p)
}

// sendTo is send to another URL than the link's.
func (c *core) sendTo(ctx context.Context, to *url.URL, header http.Header, p *post) (*exchange, *fault.Fault) {
	if int64(len(p.frame)) > c.max {
		return nil, &fault.Fault{
			Kind: fault.TooLarge, Op: p.op, Outcome: fault.NotSent,
			Err: fmt.Errorf("the message has %d bytes, the limit is %d", len(p.frame), c.max),
		}
	}
	ex, f := c.begin(ctx, p.op, p.linger)
	if f != nil {
		return nil, f
	}
	if ctx.Err() != nil {
		ex.phase.Store(seekingConn) // nothing was written, for certain
		defer c.end(ex)
		return nil, c.lost(ex, ctx.Err())
	}
	req := c.request(ex.ctx, http.MethodPost, to, header)
	ex.load(req, p.frame)
	resp, _, err := c.do(req, ex) //nolint:bodyclose // whoever has the post closes it
	if err != nil {
		defer c.end(ex)
		return nil, c.lost(ex, err)
	}
	p.resp = resp
	return ex, nil
}

// answer reads the answer of a POST, in any of its forms. The response is
// closed when it returns.
func (c *conn) answer(ex *exchange, p *post) (wire.Message, *fault.Fault) {
	defer ex.shut(p.resp)
	media := mediaType(p.resp.Header)
	switch {
	case codingOf(p.resp.Header) != "":
		return c.refused(ex, p)
	case p.resp.StatusCode/100 == 2 && media == mcp.TypeEvents:
		return c.stream(ex, p)
	case p.resp.StatusCode == http.StatusOK && (media == mcp.TypeJSON || media == ""):
		return c.whole(ex, p)
	default:
		return c.refused(ex, p)
	}
}

// shut ends a response. The request is canceled first: closing the body of a
// stream that the server leaves open may wait for the server otherwise.
func (ex *exchange) shut(resp *http.Response) {
	ex.cancel()
	_ = resp.Body.Close()
}

// whole reads an answer of content type application/json.
func (c *conn) whole(ex *exchange, p *post) (wire.Message, *fault.Fault) {
	body, err := readAll(p.resp, c.max)
	if errors.Is(err, mcp.ErrTooLong) {
		return wire.Message{}, c.tooLarge(p.op)
	}
	if err != nil {
		return wire.Message{}, c.lost(ex, err)
	}
	msg, found, err := c.take(body, p.id)
	if found == matchAnswer {
		return msg, nil
	}
	reply := p.reply(p.resp, body)
	if len(bytes.TrimSpace(body)) > 0 {
		reply.broken = err
	}
	return reply.classify()
}

func (c *core) tooLarge(op string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.TooLarge, Op: op, Outcome: fault.Answered,
		Err: fmt.Errorf("the answer is over the limit of %d bytes", c.max),
	}
}

// refused judges everything that is no answer by its form.
func (c *core) refused(ex *exchange, p *post) (wire.Message, *fault.Fault) {
	patience := time.AfterFunc(errBodyWait, ex.cancel)
	body, _ := io.ReadAll(io.LimitReader(p.resp.Body, maxErrBody)) // what came is judged
	patience.Stop()
	return p.reply(p.resp, body).classify()
}

// A match says what a message, that came on the stream of a request, is to it.
type match uint8

const (
	matchNone       match = iota // of no request: handed on, or noise
	matchNoID                    // an error without an id, or with one that we never gave
	matchUnreadable              // the answer to our request, and it cannot be read
	matchAnswer                  // the answer to our request
)

// take hands the messages of a frame on, in order, and returns the one that
// answers request id. The standing stream passes 0. err says what is wrong with
// a frame that is no message, or with the answer where that is spoiled.
func (c *core) take(frame []byte, id int64) (answer wire.Message, found match, err error) {
	msg, err := wire.Parse(frame)
	if err == nil {
		return c.takeOne(frame, msg, id)
	}
	parts, ok := wire.Batch(frame) // revision 2025-03-26
	if !ok {
		return c.takeBroken(frame, id, err)
	}
	err = nil
	for part := range parts {
		var m wire.Message
		var w match
		var bad error
		if msg, bad = wire.Parse(part); bad == nil {
			m, w, bad = c.takeOne(part, msg, id)
		} else {
			m, w, bad = c.takeBroken(part, id, bad)
		}
		if w > found {
			answer, found, err = m, w, bad
		}
	}
	return answer, found, err
}

// takeBroken is take for what is not JSON: what is a message by itself, in a
// batch, is taken.
func (c *core) takeBroken(frame []byte, id int64, err error) (answer wire.Message, found match, _ error) {
	c.noise.Add(1)
	for part := range wire.Remnants(frame) {
		if msg, bad := wire.Parse(part.Raw); bad == nil && wire.IsBatch(frame) {
			if m, w, _ := c.takeOne(part.Raw, msg, id); w > found {
				answer, found = m, w
			}
		} else if id != 0 && part.Answer && part.ID == id {
			found = max(found, matchUnreadable)
		}
	}
	return answer, found, err
}

func (c *core) takeOne(frame []byte, msg wire.Message, id int64) (wire.Message, match, error) {
	if !msg.IsResponse() {
		if msg.Method != "" {
			c.opts.Inbound(transport.Inbound{Msg: msg, CallID: id})
			return wire.Message{}, matchNone, nil
		}
		c.noise.Add(1)
		if answered, ok := transport.EmptyAnswer(frame, msg); ok && id != 0 && answered == id {
			return wire.Message{}, matchUnreadable, transport.ErrNoContent
		}
		return wire.Message{}, matchNone, nil
	}
	n, numeric := wire.ParseID(msg.ID)
	switch {
	case id != 0 && numeric && n == id:
		return msg, matchAnswer, nil
	case id != 0 && !numeric && msg.Error != nil:
		return msg, matchNoID, nil
	default:
		c.late.Add(1)
		return wire.Message{}, matchNone, nil
	}
}

// Send implements Conn.
func (c *conn) Send(ctx context.Context, frame []byte) error {
	p := post{op: "notify", frame: frame, state: c.state.Load()}
	p.modern = p.state.modern
	p.session = p.state.session != ""
	r := transport.Request{Frame: frame}
	if method, ok := wire.Text(wire.Get(frame, "method")); ok {
		p.op, r.Method = method, method
	}
	header, f := c.headerOf(&r, &p)
	if f == nil {
		f = c.push(ctx, header, &p)
	}
	if f != nil {
		return f // and nothing is learned from it: see package evidence
	}
	return nil
}

// push sends a message that gets no answer but a status.
func (c *core) push(ctx context.Context, header http.Header, p *post) *fault.Fault {
	ex, f := c.send(ctx, header, p)
	if f != nil {
		return f
	}
	defer c.end(ex)
	defer ex.shut(p.resp)
	if p.resp.StatusCode/100 != 2 {
		_, f := c.refused(ex, p)
		return f
	}
	ex.drain(p.resp)
	return nil
}

// drain reads a body that means nothing, for a moment, so that its connection
// can be used again.
func (ex *exchange) drain(resp *http.Response) {
	if resp.ContentLength == 0 {
		return
	}
	patience := time.AfterFunc(settleWait, ex.cancel)
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrBody)
	patience.Stop()
}

// Close implements Conn. A legacy session is deleted; what the server says to
// that does not matter.
func (c *conn) Close(ctx context.Context) error {
	return c.close(ctx, func(ctx context.Context) {
		s := c.state.Load()
		if s.session == "" || s.modern {
			return
		}
		req := c.request(ctx, http.MethodDelete, c.url, c.legacyHeader(c.header, s))
		if resp, _, err := c.do(req, nil); err == nil {
			_ = resp.Body.Close()
		}
	})
}
