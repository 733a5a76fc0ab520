package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// sseConn is a link over HTTP+SSE (specification 2024-11-05, basic/transports):
// one GET stream carries everything that the server says, and POSTs carry what
// we say. When the stream ends, cleanly or not, so does the link. Its one
// long-lived goroutine reads the stream.
type sseConn struct {
	*core
	post    *url.URL // where messages go
	version atomic.Pointer[string]
	worked  atomic.Bool // a POST was accepted: the session in the URL was good

	// waitMu guards waiting. Nothing that waits is done under it.
	waitMu  sync.Mutex
	waiting map[int64]*sseWait // nil after the end
}

// sseWait is one call that waits for its answer on the stream.
type sseWait struct {
	answer chan sseAnswer     // gets one answer, or is closed with the stream
	enough context.CancelFunc // of its POST
}

// over lets the POST go, which may hang although it has done its work; one
// that does not need long to end gives its connection back.
func (w *sseWait) over() { time.AfterFunc(settleWait, w.enough) }

type sseAnswer struct {
	msg wire.Message
	f   *fault.Fault
}

// OpenSSE opens the event stream and waits, until ctx ends, for the server to
// say where messages go. That place must be of the origin of the stream,
// unless spec.PostURL names it.
func OpenSSE(ctx context.Context, spec Spec, opts transport.Options) (transport.Conn, error) {
	core, f := newCore(&spec, opts)
	if f != nil {
		return nil, f
	}
	c := &sseConn{core: core, waiting: map[int64]*sseWait{}}
	c.link, c.sessionInURL = c, true
	if f := c.open(ctx, &spec); f != nil {
		c.finish(nil)
		_ = c.Close(context.WithoutCancel(ctx)) // nothing was sent that it could fail to end
		return nil, f
	}
	return c, nil
}

// open starts the stream; on success the reader goroutine owns it.
func (c *sseConn) open(ctx context.Context, spec *Spec) *fault.Fault {
	ex, f := c.begin(c.linkCtx, "connect", 0)
	if f != nil {
		return f
	}
	ex.caller = ctx
	stop := context.AfterFunc(ctx, ex.cancel)
	header := c.header.Clone()
	header["Accept"] = []string{mcp.TypeEvents}
	resp, req, err := c.do(c.request(ex.ctx, http.MethodGet, c.url, header), ex)
	if err != nil {
		defer c.end(ex)
		return c.lost(ex, err)
	}
	if resp.StatusCode != http.StatusOK || !isEvents(resp.Header) {
		defer c.end(ex)
		return c.noStream(ex, resp)
	}
	body, unwatch := c.watched(ex.events.wrap(resp.Body), ex.cancel)
	rd := mcp.NewEventReader(body, c.max, "")
	f = c.locate(ex, rd, req.URL, spec.PostURL)
	if f == nil && !stop() {
		f = c.lost(ex, ctx.Err())
	}
	if f != nil {
		unwatch()
		rd.Release()
		ex.shut(resp)
		c.end(ex)
		return f
	}
	c.opts.Injector.Join(c)
	c.wg.Add(1)
	go c.read(ex, rd, resp, unwatch) // ended by linkCtx, waited for by close
	return nil
}

// noStream says why a GET gave no event stream.
func (c *sseConn) noStream(ex *exchange, resp *http.Response) *fault.Fault {
	defer ex.shut(resp)
	patience := time.AfterFunc(errBodyWait, ex.cancel)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrBody)) // what came is judged
	patience.Stop()
	reply := reply{op: ex.op, status: resp.StatusCode, header: resp.Header, body: body, now: time.Now()}
	_, f := reply.classify()
	return f
}

// locate waits for the endpoint event.
func (c *sseConn) locate(ex *exchange, rd *mcp.EventReader, base *url.URL, override string) *fault.Fault {
	for {
		ev, err := rd.Next()
		if errors.Is(err, mcp.ErrTooLong) {
			c.noise.Add(1)
			continue
		}
		if err != nil {
			return c.lost(ex, fmt.Errorf("the stream ended before the endpoint event: %w", err))
		}
		if ev.Name != "endpoint" {
			continue
		}
		to, f := sseEndpoint(base, string(ev.Data), override)
		c.post = to
		return f
	}
}

// sseEndpoint is where messages go: the announced reference, resolved by RFC
// 3986 against the URL of the stream, or the configured one with the announced
// query, which names the session.
func sseEndpoint(base *url.URL, announced, override string) (*url.URL, *fault.Fault) {
	bad := func(text string) (*url.URL, *fault.Fault) {
		return nil, &fault.Fault{
			Kind: fault.Protocol, Op: "connect", Err: errors.New(text),
			Remedy: "configure the message URL of this server",
		}
	}
	to, err := base.Parse(announced)
	if err != nil {
		return bad("the endpoint event of " + quote(shown(base)) + " holds no URL: " + quote(transport.BodyText([]byte(announced))))
	}
	to.Fragment, to.RawFragment = "", ""
	if override == "" {
		if !sameOrigin(base, to) {
			return bad("the stream " + quote(shown(base)) + " wants messages sent to another origin, " + quote(shown(to)))
		}
		return to, nil
	}
	ours, err := base.Parse(override)
	if err != nil || ours.Host == "" {
		return nil, fault.New(fault.Invalid, "open", "the message URL cannot be read as a URL")
	}
	if ours.RawQuery == "" {
		ours.RawQuery = to.RawQuery
	}
	return ours, nil
}

// read hands on what the server says until the stream ends, and then ends the link.
func (c *sseConn) read(ex *exchange, rd *mcp.EventReader, resp *http.Response, unwatch func()) {
	defer c.wg.Done()
	defer c.end(ex)
	defer rd.Release()
	defer ex.shut(resp)
	defer unwatch()
	for {
		ev, err := rd.Next()
		switch {
		case errors.Is(err, mcp.ErrTooLong):
			c.overlong(ev.Data)
		case err != nil:
			c.endOfStream(err)
			return
		case ev.IsMessage():
			if c.opts.Injector.Lasting(transport.BreakGarbage) != nil {
				c.hear([]byte(transport.Garbage))
			}
			c.hear(ev.Data)
		}
	}
}

// endOfStream ends the link and every call that waits.
func (c *sseConn) endOfStream(err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server closed the event stream in order: %w", err)
	} else {
		err = fmt.Errorf("the event stream was cut: %w", err)
	}
	c.finish(&fault.Fault{Kind: fault.Broken, Op: "listen", Err: err})
	c.waitMu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.waitMu.Unlock()
	for _, w := range waiting {
		close(w.answer)
		w.over()
	}
}

// hear hands a frame's messages on. Answers go to the calls that wait.
func (c *sseConn) hear(frame []byte) {
	msg, err := wire.Parse(frame)
	if err == nil {
		c.hearOne(frame, msg)
		return
	}
	parts, ok := wire.Batch(frame)
	if !ok {
		c.hearBroken(frame, err)
	}
	for part := range parts {
		if msg, err := wire.Parse(part); err == nil {
			c.hearOne(part, msg)
		} else {
			c.hearBroken(part, err)
		}
	}
}

// hearBroken fails the calls whose answers can be made out in what is not JSON.
func (c *sseConn) hearBroken(frame []byte, err error) {
	c.noise.Add(1)
	for part := range wire.Remnants(frame) {
		if msg, bad := wire.Parse(part.Raw); bad == nil && wire.IsBatch(frame) {
			c.hearOne(part.Raw, msg)
			continue
		}
		id, ok := part.ID, part.Answer
		if part.Nameless {
			id, ok = c.onlyWaiting()
		}
		if ok {
			c.hand(id, sseAnswer{f: transport.Unreadable("", err)})
		}
	}
}

func (c *sseConn) hearOne(frame []byte, msg wire.Message) {
	if !msg.IsResponse() {
		_, _, _ = c.takeOne(frame, msg, 0)
		if id, ok := transport.EmptyAnswer(frame, msg); ok {
			c.hand(id, sseAnswer{f: transport.Unreadable("", transport.ErrNoContent)})
		}
		return
	}
	if t := c.opts.Injector.Lasting(transport.BreakSlow); t != nil {
		time.AfterFunc(t.Delay, func() { c.answered(msg) }) // one that comes after the end finds nobody who waits
		return
	}
	c.answered(msg)
}

func (c *sseConn) answered(msg wire.Message) {
	if id, ok := wire.ParseID(msg.ID); !ok || !c.hand(id, sseAnswer{msg: msg}) {
		c.late.Add(1)
	}
}

// hand gives a waiting call its answer.
func (c *sseConn) hand(id int64, a sseAnswer) bool {
	c.waitMu.Lock()
	w, ok := c.waiting[id]
	delete(c.waiting, id)
	c.waitMu.Unlock()
	if ok {
		c.worked.Store(true)
		w.answer <- a // has room: each channel gets one answer, from whoever took it out of the table
		w.over()
	}
	return ok
}

// overlong fails the call whose answer is over the limit: the one that the
// beginning of the message names, or the only one that waits where it names
// none and is no request or notification.
func (c *sseConn) overlong(prefix []byte) {
	c.noise.Add(1)
	var id int64
	named := false
	for key, value := range wire.Members(prefix) {
		switch key {
		case "id":
			id, named = wire.ParseID(value)
		case "method":
			return
		}
	}
	if !named {
		id, named = c.onlyWaiting()
	}
	if named {
		c.hand(id, sseAnswer{f: c.tooLarge("")})
	}
}

func (c *sseConn) onlyWaiting() (int64, bool) {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	for id := range c.waiting {
		return id, len(c.waiting) == 1
	}
	return 0, false
}

// Call implements Conn.
func (c *sseConn) Call(ctx context.Context, r *transport.Request) (wire.Message, error) {
	msg, f := c.call(ctx, r)
	if f != nil {
		c.learn(f)
		return wire.Message{}, f
	}
	return msg, nil
}

func (c *sseConn) learn(f *fault.Fault) {
	if evidence.Of(evidence.Call, f) == evidence.Session {
		c.finish(f)
	}
}

func (c *sseConn) call(ctx context.Context, r *transport.Request) (wire.Message, *fault.Fault) {
	posting, enough := context.WithCancel(ctx)
	defer enough()
	w := &sseWait{answer: make(chan sseAnswer, 1), enough: enough}
	c.waitMu.Lock()
	if c.waiting != nil {
		c.waiting[r.ID] = w
	}
	c.waitMu.Unlock()
	defer c.forget(r.ID, w)
	p := post{op: r.Method, id: r.ID, frame: r.Frame, fields: r.Header, session: c.worked.Load()}
	if msg, f := c.submit(posting, &p); f != nil || msg.IsResponse() {
		select {
		case a, ok := <-w.answer: // the stream was faster, and knows better
			if ok {
				return a.result(r.Method)
			}
			if f != nil && f.Kind == fault.Canceled && ctx.Err() == nil { // let go with the stream
				end := c.cutOff(r.Method)
				end.Outcome = f.Outcome
				return wire.Message{}, end
			}
		default:
		}
		return msg, f
	}
	select {
	case a, ok := <-w.answer:
		if ok {
			return a.result(r.Method)
		}
		return wire.Message{}, c.cutOff(r.Method)
	case <-ctx.Done():
		f := fault.From(r.Method, ctx.Err())
		return wire.Message{}, f
	}
}

// of is the answer as Call returns it.
func (a sseAnswer) result(op string) (wire.Message, *fault.Fault) {
	if a.f != nil {
		a.f.Op = op
	}
	return a.msg, a.f
}

func (c *sseConn) forget(id int64, w *sseWait) {
	c.waitMu.Lock()
	if c.waiting[id] == w {
		delete(c.waiting, id)
	}
	c.waitMu.Unlock()
}

// cutOff is the fault of a call whose request was accepted when the stream
// ended.
func (c *sseConn) cutOff(op string) *fault.Fault {
	f := c.gone(op)
	f.Outcome = fault.Unknown
	if f.Kind == fault.SessionLost {
		f.Kind = fault.Broken
	}
	return f
}

// submit posts a message. Servers answer 202; one that answers with the
// message itself is understood.
func (c *sseConn) submit(ctx context.Context, p *post) (wire.Message, *fault.Fault) {
	ex, f := c.sendTo(ctx, c.post, withFields(c.postHeader(), p.fields), p)
	if f != nil {
		return wire.Message{}, f
	}
	defer c.end(ex)
	defer ex.shut(p.resp)
	if p.resp.StatusCode/100 != 2 {
		return c.refused(ex, p)
	}
	c.worked.Store(true)
	if p.id == 0 || mediaType(p.resp.Header) != mcp.TypeJSON {
		ex.drain(p.resp)
		return wire.Message{}, nil
	}
	patience := time.AfterFunc(errBodyWait, ex.cancel)
	defer patience.Stop()
	if body, err := readAll(p.resp, c.max); err == nil {
		if msg, err := wire.Parse(body); err == nil && msg.IsResponse() {
			if id, ok := wire.ParseID(msg.ID); ok && id == p.id {
				return msg, nil
			}
		}
	}
	return wire.Message{}, nil
}

func (c *sseConn) postHeader() http.Header {
	h := postHeader(c.header)
	if v := c.version.Load(); v != nil {
		h[mcp.HeaderVersion] = []string{*v}
	}
	return h
}

// Send implements Conn.
func (c *sseConn) Send(ctx context.Context, frame []byte) error {
	p := post{op: "notify", frame: frame, session: c.worked.Load()}
	if _, f := c.submit(ctx, &p); f != nil {
		return f // and nothing is learned from it: see package evidence
	}
	return nil
}

// Agree implements Conn.
func (c *sseConn) Agree(version string, _ bool) {
	c.agreed(version)
	if version != "" {
		c.version.Store(&version)
	}
}

// Close implements Conn.
func (c *sseConn) Close(ctx context.Context) error {
	return c.close(ctx, func(context.Context) {})
}

// Info implements Conn.
func (c *sseConn) Info() transport.Info {
	return transport.Info{Kind: transport.SSE, URL: c.shown, HTTP: c.httpVersion(), Started: c.started, Noise: c.noise.Load(), LateAnswers: c.late.Load()}
}
